"""Which leg moved? The serial and the batch leg apart, by commit, so that a ratio's cause shows.

Columns of the frame, a row per run, series, level and mode: run_id, commit, commit_position, series, level, mode, value
(req/s; seconds of request latency at level 1), low, high (smallest and largest process).
"""

import textwrap
from typing import Any

import altair as alt
import pandas as pd

from dashboards import frames, theme
from dashboards.charts import commit_axis, leg_moves

TITLE = "Both legs across commits"
PANEL, LOW_PANEL = 130, 96  # px; the low one where several series have panels
LINE = 46  # characters of a heading that fit a phone
CHOSEN = "datum.series === whose"
DRAWN = ["panel", "x", "name", "mode", "value", "low", "high", "series", "run_id", "placed"]


def leg_throughput(frame: pd.DataFrame) -> theme.Drawn:
    """One panel a series and level, a line a mode; bars from the slowest to the fastest process. Raises FrameError.

    Colours stand for modes, so series are told apart by place: a few each have their panels under their name, of many one is
    drawn at a time, chosen in a list, the one measured last to begin with.
    """
    data = leg_moves.prepare(frame)
    if data.empty:
        return theme.notice(TITLE, leg_moves.NOTHING)
    rows = frames.inline(data[DRAWN])
    series = list(data["series"].unique())
    if len(series) == 1:
        chart = _block(data, rows, data)
    elif len(series) <= leg_moves.FEW:
        blocks = [_of_series(data, rows, name, last=name == series[-1]) for name in series]
        chart = _stack(blocks, spacing=30)
    else:
        chart = _chosen(data, rows, series)
    return theme.dress(chart.add_params(commit_axis.names(data)), TITLE, leg_moves.finding(frame))


def _of_series(data: pd.DataFrame, rows: alt.InlineData, series: str, last: bool) -> Any:
    """The panels of one series under its name."""
    here = data[data["series"] == series]
    only = alt.FieldEqualPredicate(field="series", equal=series)
    return _block(data, rows, here, only, height=LOW_PANEL, last=last).properties(title=_heading(_lines(series)))


def _chosen(data: pd.DataFrame, rows: alt.InlineData, series: list[str]) -> Any:
    """The panels of the series that the list names; a level that it lacks says so.

    The tops of the axes are stated: Vega complains of an infinite extent while one series' rows give way to another's.
    """
    choice = alt.binding_select(options=series, name="Series ")
    whose = alt.param(name="whose", value=leg_moves.measured_last(data), bind=choice)
    headings = alt.param(name="headings", value={name: _lines(name) for name in series})
    high = data[["value", "high"]].max(axis=1).groupby([data["series"], data["panel"]]).max()
    tops = alt.param(name="tops", value={name: high[name].round(6).to_dict() for name in series})
    chart = _block(data, rows, data, CHOSEN).properties(title=_heading(alt.expr("headings[whose]")))
    return _stack([chart], spacing=0).add_params(whose, headings, tops)  # the outer title is the whole chart's


def _block(
    data: pd.DataFrame, rows: alt.InlineData, here: pd.DataFrame, only: Any = None, height: int = PANEL, last: bool = True
) -> Any:
    """A panel for each level of `here`; the axis reaches over all places of `data`, so that blocks stand commit under commit.

    only: the filter that leaves the block's series, None where there is no other.
    """
    levels = sorted(here["level"].unique())
    panels = []
    for level in levels:
        label = frames.level_label(level)
        base = alt.Chart(rows).transform_filter(alt.datum.panel == label)
        base = base if only is None else base.transform_filter(only)
        x = commit_axis.encode(data, "commit, in topological order" if last and level == levels[-1] else None)
        layers = _absent(label, height) if only == CHOSEN else []
        layers += _marks(base.encode(x=x, color=theme.mode_colour()), level, label if only == CHOSEN else None)
        title = alt.TitleParams(label, fontSize=13, fontWeight=600, frame="bounds", offset=8)
        panels.append(alt.layer(*layers).properties(width=theme.WIDTH, height=height, title=title))
    return _stack(panels, spacing=14)


def _marks(base: alt.Chart, level: float, top: str | None) -> list[Any]:
    """Line, range and points of both modes; top: the panel whose axis ends at its entry in `tops`."""
    scale = alt.Scale(zero=True) if top is None else alt.Scale(domain=[0, alt.expr(f"tops[whose]['{top}'] || 1")])
    y = alt.Y("value:Q", scale=scale, axis=alt.Axis(title=leg_moves.unit(level), tickCount=4, minExtent=38))
    shape = alt.Shape("mode:N", scale=alt.Scale(domain=list(theme.MODES), range=["square", "circle"]), title="mode")
    tip = [alt.Tooltip(f"{name}:N") for name in ("name", "mode", "value", "low", "high", "series", "run_id")]
    return [
        base.mark_line(strokeWidth=1.6).encode(y=y, detail=alt.Detail("placed:N")),
        base.mark_rule(strokeWidth=2, opacity=0.5).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_point(filled=True, size=50, opacity=1).encode(y=y, shape=shape, tooltip=tip),
    ]


def _absent(panel: str, height: int) -> list[Any]:
    words = alt.expr(f"isValid(tops[whose]['{panel}']) ? '' : 'not measured in this series'")
    text = alt.Chart(alt.InlineData(values=[{}])).mark_text(align="left", fontSize=12, color=theme.LIGHT.muted)
    return [text.encode(x=alt.value(12), y=alt.value(height / 2), text=alt.value(words))]


def _stack(parts: list[Any], spacing: int) -> Any:
    return alt.vconcat(*parts, spacing=spacing).resolve_scale(color="shared", shape="shared")


def _heading(text: Any) -> alt.TitleParams:
    return alt.TitleParams(text, fontSize=14, fontWeight=700, offset=10)


def _lines(series: str) -> list[str]:
    return textwrap.wrap(series, LINE) or [series]
