"""Change points on one metric's history in one series: E-divisive splits, kept where a t-test says p <= .001 and the step is 2 %.

The history is ordered by topological position, never by date. All nights of one commit are one point at that commit's place, so
re-measuring an old commit sharpens a point and adds none. The p of .001 is small because the best of many splits is tested: on
pure noise of 60 nights 3 % of the histories show a false step at .001, 24 % at .01; the 2 % rule takes most of what is left.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flows.verdicts.intervals import Interval, t_quantile

MAX_P = 0.001
MIN_STEP = 0.02
CANDIDATE_P = 0.1  # a dip that came and went hides its edges from a strict first split: split freely, then prune strictly
MIN_SIDE = 2  # points: one point has no scatter to be held against
STEP_CONFIDENCE = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """One commit's value (> 0) on one night. position is its topological rank, None where it has no place in the history."""

    commit: str
    position: int | None
    value: float


@dataclass(frozen=True)
class ChangePoint:
    """A step of the series' level. The commits it blames are those after `good` up to and including `bad`."""

    good: str  # the last measured commit before the step
    bad: str  # the first measured commit after it
    good_position: int
    bad_position: int
    step: Interval  # new level / old level
    p: float

    @property
    def commit_range(self) -> str:
        """As git reads it."""
        return f"{self.good}..{self.bad}"


@dataclass(frozen=True)
class Trend:
    """The changes, oldest first; placeless are the commits without a place (dirty trees, rebased-away ones), named only."""

    commits: tuple[str, ...]
    values: tuple[float, ...]  # one a commit, in topological order
    changes: tuple[ChangePoint, ...]
    placeless: tuple[str, ...]


def find_changes(points: Sequence[Point], *, max_p: float = MAX_P, min_step: float = MIN_STEP) -> Trend:
    """The trend of one metric in one series. Raises ValueError for a value without a logarithm or two commits in one place."""
    commits, positions, logs = _by_commit(points)
    edges = _significant(logs, [0, *_split(logs, 0, len(logs), max(max_p, CANDIDATE_P)), len(logs)], max_p, min_step)
    changes = []
    for before, edge, after in zip(edges, edges[1:], edges[2:], strict=False):
        left, right = logs[before:edge], logs[edge:after]
        places = (commits[edge - 1], commits[edge], positions[edge - 1], positions[edge])
        changes.append(ChangePoint(*places, step_between(left, right), t_test(left, right)))
    placeless = tuple(dict.fromkeys(point.commit for point in points if point.position is None))
    return Trend(commits, tuple(np.exp(logs).tolist()), tuple(changes), placeless)


def new_alerts(trend: Trend, measured: str, fired: Collection[ChangePoint], slack: int = 3) -> list[ChangePoint]:
    """The changes that tonight's commit `measured` brings to light and nobody has been told of.

    Only the newest commit of the history can raise an alert: an old one measured again fires nothing. A change in the
    direction of a fired one and within `slack` measured commits of it is that one, its place estimated a little differently.
    """
    if not trend.commits or measured != trend.commits[-1]:
        return []
    return [found for found in trend.changes if not any(_same(found, old, trend, slack) for old in fired)]


def t_test(left: Floats, right: Floats) -> float:
    """Student's two-sided p for equal means. 1 where there is no scatter and no step, 0 where there is a step and no scatter."""
    from scipy import special

    difference, error, freedom = _difference(left, right)
    if error <= 1e-12:
        return 1.0 if abs(difference) <= 1e-9 else 0.0
    return float(2 * special.stdtr(freedom, -abs(difference) / error))


def step_between(left: Floats, right: Floats, confidence: float = STEP_CONFIDENCE) -> Interval:
    """New level / old level of two stretches of logs, which scatter alike, with its interval."""
    difference, error, freedom = _difference(left, right)
    half = t_quantile((1 + confidence) / 2, freedom) * error
    return Interval(math.exp(difference), math.exp(difference - half), math.exp(difference + half), confidence)


def _difference(left: Floats, right: Floats) -> tuple[float, float, int]:
    """Difference of the means, its standard error from the pooled scatter, and the degrees of freedom."""
    freedom = len(left) + len(right) - 2
    pooled = (float(((left - left.mean()) ** 2).sum()) + float(((right - right.mean()) ** 2).sum())) / freedom
    return float(right.mean() - left.mean()), math.sqrt(pooled * (1 / len(left) + 1 / len(right))), freedom


def best_split(logs: Floats) -> int | None:
    """Where the energy distance between the two sides is largest (E-divisive), at least MIN_SIDE points from either end."""
    count = len(logs)
    if count < 2 * MIN_SIDE:
        return None
    distances = np.abs(logs[:, None] - logs[None, :])
    table = np.zeros((count + 1, count + 1))
    table[1:, 1:] = distances.cumsum(axis=0).cumsum(axis=1)
    splits = np.arange(MIN_SIDE, count - MIN_SIDE + 1)
    n, m = splits.astype(float), (count - splits).astype(float)
    left = table[splits, splits]  # sums over ordered pairs, so twice the sum over pairs
    across = table[splits, count] - left
    right = table[count, count] - 2 * across - left
    energy = 2 * across / (n * m) - left / (n * (n - 1)) - right / (m * (m - 1))
    return int(splits[np.argmax(n * m / (n + m) * energy)])


def _by_commit(points: Sequence[Point]) -> tuple[tuple[str, ...], tuple[int, ...], Floats]:
    """One point a placed commit (the mean of its nights' logs), in topological order."""
    places: dict[int, str] = {}
    nights: dict[str, list[float]] = {}
    for point in points:
        if not (math.isfinite(point.value) and point.value > 0):
            raise ValueError(f"commit {point.commit}: value {point.value!r} must be finite and above 0")
        if point.position is None:
            continue
        if places.setdefault(point.position, point.commit) != point.commit:
            raise ValueError(
                f"position {point.position} is claimed by {places[point.position]} and {point.commit}: order topologically"
            )
        nights.setdefault(point.commit, []).append(math.log(point.value))
    positions = tuple(sorted(places))
    commits = tuple(places[position] for position in positions)
    if len(set(commits)) != len(commits):
        twice = next(commit for commit in commits if commits.count(commit) > 1)
        raise ValueError(f"commit {twice} stands at two positions of one history")
    return commits, positions, np.array([math.fsum(nights[c]) / len(nights[c]) for c in commits])


def _split(logs: Floats, start: int, stop: int, max_p: float) -> list[int]:
    """Candidate edges, rising: a stretch and its parts are split as long as the best split is not plainly chance."""
    found = best_split(logs[start:stop])
    if found is None:
        return []
    edge = start + found
    if t_test(logs[start:edge], logs[edge:stop]) > max_p:
        return []
    return [*_split(logs, start, edge, max_p), edge, *_split(logs, edge, stop, max_p)]


def _significant(logs: Floats, edges: list[int], max_p: float, min_step: float) -> list[int]:
    """Drop the weakest step between final neighbours until all that are left are significant and large enough."""
    kept = list(edges)
    while len(kept) > 2:
        scored = []
        for before, edge, after in zip(kept, kept[1:], kept[2:], strict=False):
            left, right = logs[before:edge], logs[edge:after]
            p = t_test(left, right)
            step = math.expm1(abs(float(right.mean() - left.mean())))
            scored.append((p <= max_p and step >= min_step, -p, edge))
        good, _, weakest = min(scored)
        if good:
            break
        kept.remove(weakest)
    return kept


def _same(found: ChangePoint, old: ChangePoint, trend: Trend, slack: int) -> bool:
    """Whether two changes are one: same direction, and no more than `slack` measured commits between their places."""
    if (found.step.value > 1) != (old.step.value > 1):
        return False
    ranks = {commit: rank for rank, commit in enumerate(trend.commits)}
    if old.bad in ranks:
        return abs(ranks[found.bad] - ranks[old.bad]) <= slack
    return found.good_position < old.bad_position and old.good_position < found.bad_position
