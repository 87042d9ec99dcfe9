"""How far does batching carry? Speed-up against level, with the ideal line, the perfect kernel's, and each leg by itself.

Columns of the frame, a row per line and level: line (a name of LINES), level, speedup; low and high for the measured one.
"""

from typing import Any

import altair as alt
import pandas as pd

from dashboards import frames, theme

TITLE = "Speed-up against the level"
LINES = ("speed-up", "ideal", "perfect kernel", "batch leg", "serial leg")
COLOURS = (theme.LIGHT.passed, theme.LIGHT.muted, theme.LIGHT.undecided, theme.LIGHT.batch, theme.LIGHT.serial)
DASHES = ([1, 0], [6, 4], [2, 3], [7, 3], [1, 0])
SHAPES = ("circle", "cross", "diamond", "triangle-up", "square")
HEIGHT = 320  # px


def level_scaling(frame: pd.DataFrame) -> theme.Drawn:
    """Both axes logarithmic in steps of two: the ideal is a straight diagonal. Raises FrameError.

    speed-up: batch / serial throughput at that level; legs: each one's throughput over serial alone at the lowest level;
    ideal: the level itself; perfect kernel: what the bytes of a step allow.
    """
    data = frames.ready(frame, "level_scaling", ["line"], ["level", "speedup", "low", "high"])
    data = data[data["speedup"] > 0]
    measured = data[data["line"] == "speed-up"]
    if measured.empty:
        return theme.notice(TITLE, "No level above one was measured in both modes.")
    present = [name for name in LINES if name in set(data["line"])]
    index = [LINES.index(name) for name in present]
    rows = alt.Chart(frames.inline(data))
    levels = sorted(data["level"].unique())
    x_scale = alt.Scale(type="log", base=2, domain=[min(levels), max(levels) * 1.06], nice=False)
    x = alt.X("level:Q", scale=x_scale, axis=alt.Axis(values=levels, format="d", title="requests at once (level)"))
    y_axis = alt.Axis(title="times serial throughput", format="~g", minExtent=38, values=_ticks(data["speedup"].max()))
    y = alt.Y("speedup:Q", scale=alt.Scale(type="log", base=2, nice=False, domain=_domain(data["speedup"])), axis=y_axis)
    colour = alt.Color("line:N", scale=alt.Scale(domain=present, range=[COLOURS[i] for i in index]), legend=_legend())
    dash = alt.StrokeDash("line:N", scale=alt.Scale(domain=present, range=[DASHES[i] for i in index]), legend=_legend())
    shape = alt.Shape("line:N", scale=alt.Scale(domain=present, range=[SHAPES[i] for i in index]), legend=_legend())
    tip = [alt.Tooltip("line:N"), alt.Tooltip("level:Q"), alt.Tooltip("speedup:Q", format=".3f")]
    layers: list[Any] = [
        rows.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash),
        rows.mark_point(filled=True, size=60, opacity=1).encode(x=x, y=y, color=colour, shape=shape, tooltip=tip),
    ]
    if (measured["low"] > 0).any():
        whisker = rows.transform_filter("datum.line == 'speed-up' && isValid(datum.low)").mark_rule(strokeWidth=4, opacity=0.45)
        layers.append(whisker.encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour))
    return theme.dress(alt.layer(*layers).properties(width=theme.WIDTH, height=HEIGHT), TITLE, finding(frame))


def finding(frame: pd.DataFrame) -> str:
    """Speed-up and efficiency (speed-up / level) at each level."""
    measured = frame[(frame["line"] == "speed-up") & (frame["speedup"] > 0)].sort_values("level")
    if measured.empty:
        return "No level above one was measured in both modes."
    pairs = zip(measured["level"], measured["speedup"], strict=True)
    return " ".join(
        f"{int(level)} at once: {frames.figure(value, 2)} times serial, {value / level:.0%} of the ideal."
        for level, value in pairs
    )


def _legend() -> alt.Legend:
    return alt.Legend(title=None, columns=3, symbolOpacity=1)


def _domain(values: pd.Series) -> list[float]:
    return [min(float(values.min()), 1.0) * 0.94, float(values.max()) * 1.1]


def _ticks(top: float) -> list[float]:
    return [value for value in (0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256) if value <= top * 1.1]
