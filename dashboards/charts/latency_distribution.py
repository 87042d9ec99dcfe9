"""How are the latencies spread? The share of requests (gaps, for ITL) that took at most so long: serial against batch.

Columns of the frame, a row per metric, level, mode and share: metric (a key of METRICS), level, mode, share (0 to 1), value_s.
"""

from typing import Any

import altair as alt
import pandas as pd

from dashboards import frames, theme
from dashboards.charts.request_latency import METRICS, ticks

TITLE = "Whole distributions of the latencies"
NOTHING = "No process has a kept request with a latency, or single requests have been pruned from the store."
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [12, 4], [1, 4], [6, 2, 1, 2])
PANEL = 140  # px
ABSENT = 0.14  # opacity of the levels that are not picked


def latency_distribution(frame: pd.DataFrame) -> theme.Drawn:
    """One panel a metric, seconds on a log axis, a line a mode and level. The highest level is picked; the legend picks others.

    Raises FrameError.
    """
    data = _prepare(frame)
    if data.empty:
        return theme.notice(TITLE, NOTHING)
    levels = [frames.level_label(level) for level in sorted(data["level"].unique())]
    pick = alt.selection_point(fields=["at"], bind="legend", name="pick", value=[{"at": levels[-1]}], empty=True)
    rows = frames.inline(data)
    names = [label for label in METRICS.values() if label in set(data["panel"])]
    panels = [_panel(data, rows, name, levels, pick if len(levels) > 1 else None, first=name == names[0]) for name in names]
    chart = alt.vconcat(*panels, spacing=14).resolve_scale(color="shared", strokeDash="shared")
    return theme.dress(chart, TITLE, finding(frame))


def finding(frame: pd.DataFrame) -> str:
    """Range and median of each metric at the highest level, batch beside serial."""
    data = _prepare(frame)
    if data.empty:
        return NOTHING
    top = data[data["level"] == data["level"].max()]
    words = []
    for (panel, mode), line in top.groupby(["panel", "mode"], sort=False):
        values = line.set_index("share")["value_s"]
        middle = values.iloc[(values.index.to_series() - 0.5).abs().argmin()]
        spread = f"{frames.figure(values.iloc[0])} to {frames.figure(values.iloc[-1])} s"
        words.append(f"{panel}, {mode}: {spread}, half within {frames.figure(middle)} s.")
    return f"At {int(top['level'].iloc[0])} at once. " + " ".join(words)


def _prepare(frame: pd.DataFrame) -> pd.DataFrame:
    data = frames.ready(frame, "latency_distribution", ["metric", "mode"], ["level", "share", "value_s"])
    data["panel"] = data["metric"].map(METRICS)
    data = data[(data["value_s"] > 0) & data["share"].notna() & data["panel"].notna()]
    data["at"] = [frames.level_label(level) for level in data["level"]]
    order = {label: rank for rank, label in enumerate(METRICS.values())}
    data = data.assign(rank=data["panel"].map(order), late=data["mode"] == "batch")
    ordered = data.sort_values(["rank", "level", "late", "share"], kind="stable")
    return ordered.drop(columns=["rank", "late", "metric"]).reset_index(drop=True)


def _panel(
    data: pd.DataFrame, rows: alt.InlineData, panel: str, levels: list[str], pick: alt.Parameter | None, first: bool
) -> Any:
    values = data.loc[data["panel"] == panel, "value_s"]
    x_axis = alt.Axis(title="seconds", format="~g", **ticks(float(values.min()), float(values.max())))
    x = alt.X("value_s:Q", scale=alt.Scale(type="log", nice=False, padding=8), axis=x_axis)
    y_axis = alt.Axis(title="share within", format=".0%", values=[0, 0.25, 0.5, 0.75, 1], minExtent=46)
    y = alt.Y("share:Q", scale=alt.Scale(domain=[0, 1]), axis=y_axis)
    legend = alt.Legend(title="level", symbolType="stroke", symbolStrokeColor=theme.LIGHT.ink, symbolSize=260, orient="bottom")
    dashes = [DASHES[i % len(DASHES)] for i in range(len(levels))][::-1]  # the highest level, picked at first, is solid
    dash = alt.StrokeDash("at:N", scale=alt.Scale(domain=levels, range=dashes), legend=legend if len(levels) > 1 else None)
    opacity: Any = alt.value(1.0)
    if pick is not None:
        opacity = alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(ABSENT))
    base = alt.Chart(rows).transform_filter(alt.datum.panel == panel)
    tip = [alt.Tooltip("at:N", title="level"), alt.Tooltip("mode:N"), alt.Tooltip("share:Q", format=".0%")]
    tip.append(alt.Tooltip("value_s:Q", title="at most, s", format=".4g"))
    line = base.mark_line(strokeWidth=2, interpolate="monotone").encode(
        x=x, y=y, color=theme.mode_colour(), strokeDash=dash, opacity=opacity, order="share:Q", tooltip=tip
    )
    if first and pick is not None:
        line = line.add_params(pick)
    title = alt.TitleParams(panel, fontSize=13, fontWeight=600, frame="bounds", offset=8)
    return line.properties(width=theme.WIDTH, height=PANEL, title=title)
