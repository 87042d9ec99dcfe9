"""The trend's rows made ready: places on the axis, lines broken at gaps, and the finding in words."""

import itertools
import math
from typing import Any

import pandas as pd

from dashboards import frames
from dashboards.charts import commit_axis

TEXT = ("run_id", "commit", "committed_at", "series", "metric", "verdict", "direction")
OPTIONAL = ("reason", "href", "placement", "change")
OPTIONAL_NUMBERS = ("step", "change_from")
NUMBERS = ("commit_position", "level", "ratio", "low", "high", "target")
GAP = 6  # a step this many times the usual one is named as a gap


def prepare(frame: pd.DataFrame, last: float = 0.0) -> pd.DataFrame:
    """The frame of `ratio_trend` with x (place on the axis), placed, latest (of its commit), panel, name, interval, segment.

    A commit without a place stands to the right of all others and of `last`. Raises FrameError for a missing column.
    """
    full = frames.optional(frame, (*OPTIONAL, *OPTIONAL_NUMBERS))
    data = frames.ready(full, "ratio_trend", (*TEXT, *OPTIONAL), (*NUMBERS, *OPTIONAL_NUMBERS))
    data["verdict"] = frames.verdict_names(data["verdict"])
    for name, default in (("series", "unknown"), ("commit", "unknown"), ("placement", "no place in the history")):
        data[name] = data[name].fillna(default)
    data["committed_at"] = data["committed_at"].str.slice(0, 16)
    data = commit_axis.with_places(data, last)
    data["panel"] = frames.ratio_names(data)
    data = data.sort_values(["level", "metric", "series", "x", "run_id"], kind="stable").reset_index(drop=True)
    data["latest"] = ~data.duplicated(["panel", "series", "x"], keep="last")
    ends = zip(data["low"], data["high"], strict=True)
    data["interval"] = [frames.interval(low, high) or "a point, no interval" for low, high in ends]
    data["low"], data["high"] = frames.drawable(data["ratio"], data["low"], data["high"])
    broken = data["ratio"].isna() | (data["x"].isin(gaps(data)["end"]) & data["latest"])
    data["segment"] = broken.groupby([data["panel"], data["series"]]).cumsum().astype(int)
    return data


def gaps(data: pd.DataFrame) -> pd.DataFrame:
    """Stretches far longer than the usual step, in which nothing was measured: start, end, missing (commits), text."""
    places = sorted(data.loc[data["placed"], "x"].unique())
    steps = sorted(right - left for left, right in itertools.pairwise(places))
    usual = steps[len(steps) // 2] if len(steps) >= 3 else math.inf
    wide = [(left, right) for left, right in itertools.pairwise(places) if right - left > max(GAP * usual, 2)]
    rows = [(left, right, right - left - 1, f"{int(right - left - 1)} not measured") for left, right in wide]
    return pd.DataFrame(rows, columns=["start", "end", "missing", "text"])


def failed_builds(builds: pd.DataFrame | None) -> pd.DataFrame:
    """Failed builds that have a place: x, name, failure, when. The newest of each commit."""
    if builds is None or builds.empty:
        return pd.DataFrame(columns=["x", "name", "failure", "when"])
    placed = builds[builds["position"].notna()].drop_duplicates("commit", keep="last")
    return pd.DataFrame(
        {
            "x": placed["position"].astype(float),
            "name": placed["commit"].map(frames.short_commit),
            "failure": [_first_line(text) for text in placed["failure"]],
            "when": ["" if frames.absent(at) else f"{at:%Y-%m-%d %H:%M}" for at in placed["asked_at"]],
        }
    ).sort_values("x", kind="stable")


def finding(frame: pd.DataFrame, builds: pd.DataFrame | None = None) -> str:
    """The trend in words: extent, latest verdicts, changes, failed builds, what could not be placed or drawn."""
    data = prepare(frame)
    if data.empty:
        return " ".join(["No run is in the store yet.", *_build_remarks(builds)])
    commits = data["commit"].nunique()
    parts = [
        f"{frames.count(commits, 'commit')}, {data['series'].nunique()} series, {frames.count(data['run_id'].nunique(), 'run')}.",
    ]
    if commits == 1:
        parts.append("One point so far: a trend begins with the second commit.")
    mine = data
    if data["series"].nunique() > 1:  # a figure tells nothing without its series
        mine = data[data["run_id"] == data["run_id"].max()]
        parts.append(f"Newest run: {'; '.join(mine['series'].unique())}.")
    newest = mine.sort_values(["x", "run_id"], kind="stable").groupby("panel", sort=False).tail(1)
    newest = newest.sort_values("level", kind="stable")
    parts += [f"Latest {row['panel']}: {frames.figure(row['ratio'])}, {row['verdict']}." for row in frames.rows(newest)]
    return " ".join(parts + _remarks(data) + _build_remarks(builds))


def _build_remarks(builds: pd.DataFrame | None) -> list[str]:
    if builds is None or builds.empty:
        return []
    drawn = failed_builds(builds)
    newest = [f"{row['name']} ({row['failure']})" for row in frames.rows(drawn.tail(3))]
    which = frames.listing(newest) or "none of them has a place"
    return [f"{frames.count(builds['commit'].nunique(), 'commit')} could not be built, marked ✕: {which}."]


def _first_line(text: object, most: int = 120) -> str:
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    return "" if not lines else lines[0] if len(lines[0]) <= most else lines[0][: most - 1] + "\u2026"


def _remarks(data: pd.DataFrame) -> list[str]:
    parts = []
    lost = int(data["ratio"].isna().sum())
    if lost:
        parts.append(f"{frames.count(lost, 'point')} without a ratio, marked at the foot.")
    strays = data[~data["placed"]]
    if len(strays):
        why = frames.listing(sorted(strays["placement"].unique()))
        parts.append(f"{frames.count(strays['commit'].nunique(), 'commit')} drawn at the right and marked *: {why}.")
    several = data["series"].nunique() > 1

    def whose(row: dict[str, Any]) -> str:
        return f" on {row['series']}" if several else ""

    changes = data[data["change"].notna()].sort_values("x").tail(3)
    parts += [f"Change of {row['panel']}{whose(row)} at {row['name']}: {row['change']}." for row in frames.rows(changes)]
    for row in frames.rows(gaps(data).tail(3)):
        parts.append(f"Gap of {int(row['missing'])} commits after position {int(row['start'])}.")
    return parts
