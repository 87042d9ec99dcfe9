"""The axis of commits in topological order that several charts share."""

from typing import Any

import altair as alt
import pandas as pd

from dashboards import frames

MOST_TICKS = 400


def with_places(data: pd.DataFrame, last: float = 0.0) -> pd.DataFrame:
    """Add placed, x and name. A run whose commit has no place gets one to the right of all others, and of `last`, and a *
    behind its name.

    Needs run_id, commit and commit_position.
    """
    placed = data["commit_position"].notna()
    last = max(float(data.loc[placed, "commit_position"].max()) if placed.any() else 0.0, last)
    runs = sorted(data.loc[~placed, "run_id"].dropna().unique())
    own = data["run_id"].map({run: last + 1 + i for i, run in enumerate(runs)}).astype(float)
    name = data["commit"].map(frames.short_commit) + placed.map({True: "", False: "*"})
    return data.assign(placed=placed, x=data["commit_position"].fillna(own), name=name)


def names(data: pd.DataFrame) -> alt.Parameter:
    """The chart's parameter that turns places into commits' names."""
    return alt.param(name="commits", value={str(int(x)): name for x, name in zip(data["x"], data["name"], strict=True)})


def encode(data: pd.DataFrame, title: str | None, field: str = "x:Q", zoom: Any = None) -> alt.X:
    """The x channel over all places of `data`, or over what `zoom` (an interval selection) covers."""
    low, high = float(data["x"].min()), float(data["x"].max())
    room = max((high - low) * 0.02, 0.5)
    scale = alt.Scale(domain=[low - room, high + room], nice=False, zero=False)
    if zoom is not None:
        scale = alt.Scale(domain=zoom, nice=False, zero=False, padding=14)
    places = sorted({int(place) for place in data["x"]})
    ticks = places[:: max(1, -(-len(places) // MOST_TICKS))]  # commits that have a name to show; the others are not measured
    label = "commits[datum.value] || ''"
    axis = alt.Axis(values=ticks, labelExpr=label, labelOverlap="greedy", labelSeparation=12, grid=False, title=title)
    return alt.X(field, scale=scale, axis=axis)
