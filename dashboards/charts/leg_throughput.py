"""Which leg moved? The serial and the batch leg apart, by commit, so that a ratio's cause shows.

Columns of the frame, a row per run, series, level and mode: run_id, commit, commit_position, series, level, mode, value
(req/s; seconds of request latency at level 1), low, high (smallest and largest process).
"""

from typing import Any

import altair as alt
import pandas as pd

from dashboards import frames, theme
from dashboards.charts import commit_axis

TITLE = "Both legs across commits"
TEXT = ("run_id", "commit", "series", "mode")
NUMBERS = ("commit_position", "level", "value", "low", "high")
PANEL = 130  # px
DRAWN = ["panel", "x", "name", "mode", "value", "low", "high", "series", "run_id", "placed"]


def leg_throughput(frame: pd.DataFrame) -> theme.Drawn:
    """One panel a level, a line a mode; bars from the slowest to the fastest process. Raises FrameError."""
    data = _prepare(frame)
    if data.empty:
        return theme.notice(TITLE, "No run has both legs yet.")
    names = list(data["panel"].unique())
    rows = frames.inline(data[DRAWN])
    panels = [_panel(data, rows, name, last=name == names[-1]) for name in names]
    chart = alt.vconcat(*panels, spacing=14).resolve_scale(color="shared", shape="shared")
    return theme.dress(chart.add_params(commit_axis.names(data)), TITLE, finding(frame))


def finding(frame: pd.DataFrame) -> str:
    """How far each leg moved from the first commit to the last, at each level of each series."""
    data = _prepare(frame)
    if data.empty:
        return "No run has both legs yet."
    if data["x"].nunique() == 1:
        latest = [f"{row['panel']}, {row['mode']}: {frames.figure(row['value'])}." for row in frames.rows(data)]
        return "One commit so far. " + " ".join(latest)
    parts = []
    for (panel, series, mode), group in data.groupby(["panel", "series", "mode"], sort=False):
        change = group["value"].iloc[-1] / group["value"].iloc[0] - 1
        whose = f" on {series}" if data["series"].nunique() > 1 else ""
        parts.append(f"{panel}{whose}, {mode}: {change:+.1%} from first to last.")
    rest = len(parts) - 12
    return " ".join(parts[:12]) + (f" And {rest} more." if rest > 0 else "")


def _prepare(frame: pd.DataFrame) -> pd.DataFrame:
    data = commit_axis.with_places(frames.ready(frame, "leg_throughput", TEXT, NUMBERS))
    data = data[data["value"].notna()]
    data["panel"] = [frames.level_label(level) for level in data["level"]]
    return data.sort_values(["level", "series", "mode", "x", "run_id"], kind="stable").reset_index(drop=True)


def _panel(data: pd.DataFrame, rows: alt.InlineData, panel: str, last: bool) -> Any:
    single = data.loc[data["panel"] == panel, "level"].iloc[0] == 1
    unit = "latency, s" if single else "requests/s"
    x = commit_axis.encode(data, "commit, in topological order" if last else None)
    y = alt.Y("value:Q", scale=alt.Scale(zero=True), axis=alt.Axis(title=unit, tickCount=4, minExtent=38))
    shape = alt.Shape("mode:N", scale=alt.Scale(domain=list(theme.MODES), range=["square", "circle"]), title="mode")
    base = alt.Chart(rows).transform_filter(alt.datum.panel == panel).encode(x=x, color=theme.mode_colour())
    tip = [alt.Tooltip(f"{name}:N") for name in ("name", "mode", "value", "low", "high", "series", "run_id")]
    layers: list[Any] = [
        base.mark_line(strokeWidth=1.6).encode(y=y, detail=[alt.Detail("series:N"), alt.Detail("placed:N")]),
        base.mark_rule(strokeWidth=2, opacity=0.5).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_point(filled=True, size=50, opacity=1).encode(y=y, shape=shape, tooltip=tip),
    ]
    title = alt.TitleParams(panel, fontSize=13, fontWeight=600, frame="bounds", offset=8)
    return alt.layer(*layers).properties(width=theme.WIDTH, height=PANEL, title=title)
