"""Changes of the trend among commits that were measured out of order: what a backfill brings to light."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from flows.verdicts.trend import Point, find_changes


@dataclass(frozen=True)
class Change:
    """A step of one ratio between two neighbouring measured commits."""

    series: str
    metric: str
    level: int
    good: str
    bad: str
    step: float  # new level / old level
    low: float
    high: float
    p: float

    def describe(self) -> str:
        """For people: which ratio changed, by how much, and between which commits."""
        spread = f"{self.low - 1:+.1%} to {self.high - 1:+.1%}"
        return f"{self.metric}@{self.level} {self.step - 1:+.1%} ({spread}) in {self.good[:10]}..{self.bad[:10]}, p {self.p:.2g}"

    @property
    def loss(self) -> bool:
        """Whether it is for the worse: latencies rise, speed-ups fall."""
        return self.step > 1 if self.metric.endswith("latency_ratio") else self.step < 1


def changes_among(store: Path, commits: Collection[str]) -> list[Change]:
    """Changes of every ratio of which both neighbours are among these commits, by series and level. Raises StoreError."""
    from storage.errors import StoreMissing
    from storage.queries import ratio_history

    try:
        history = ratio_history(store)
    except StoreMissing:
        return []
    history = history[history["ratio"].notna() & history["commit"].isin(list(commits)) & (history["placement"] == "placed")]
    found = []
    for (series, metric, level), line in history.groupby(["series", "metric", "level"]):
        points = [Point(row["commit"], int(row["commit_position"]), float(row["ratio"])) for row in line.to_dict("records")]
        for change in find_changes(points).changes:
            step = change.step
            where = (str(series), str(metric), int(str(level)))
            found.append(Change(*where, change.good, change.bad, step.value, step.low, step.high, change.p))
    return found
