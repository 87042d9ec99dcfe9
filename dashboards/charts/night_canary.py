"""Did the machine agree with itself? One build against itself, a leg measured twice in a row: second over first, around 1.

Columns of the frame, a row per canary: level, mode, pair, a, b (requests/s of the first and the second arm).
"""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from dashboards import frames, theme

TITLE = "The canary: one build against itself"
NOTHING = "No canary was measured in this run."
ROW = 46  # px a reading


def night_canary(frame: pd.DataFrame) -> theme.Drawn:
    """One row a level and mode, a point a pair, the rule at 1: what lies off it is this machine's noise. Raises FrameError."""
    data = _prepare(frame)
    drawn = data[data["ratio"].notna()]
    if drawn.empty:
        return theme.notice(TITLE, finding(frame))
    reach = max(float((drawn["ratio"] - 1).abs().max()) * 1.2, 0.02)
    scale = alt.Scale(domain=[1 - reach, 1 + reach], nice=False)
    x = alt.X("ratio:Q", scale=scale, axis=alt.Axis(title="second / first", format=".3~f", tickCount=5))
    y = alt.Y("reading:N", sort=list(dict.fromkeys(drawn["reading"])), title=None, axis=alt.Axis(ticks=False, domain=False))
    base = alt.Chart(frames.inline(drawn))
    shape = alt.Shape("mode:N", scale=alt.Scale(domain=list(theme.MODES), range=["square", "circle"]), title="mode")
    tip = [alt.Tooltip("reading:N"), alt.Tooltip("pair:Q"), alt.Tooltip("ratio:Q", format=".4f")]
    tip += [alt.Tooltip("a:Q", title="first, req/s", format=".4g"), alt.Tooltip("b:Q", title="second, req/s", format=".4g")]
    rule = alt.Chart().mark_rule(strokeDash=[6, 4], strokeWidth=1.5, color=theme.LIGHT.ink).encode(x=alt.XDatum(1.0, scale=scale))
    dots = base.mark_point(filled=True, size=80, opacity=0.85).encode(
        x=x, y=y, color=theme.mode_colour(), shape=shape, tooltip=tip
    )
    chart: Any = alt.layer(rule, dots, data=frames.inline(drawn)).properties(width=theme.WIDTH, height=alt.Step(ROW))
    return theme.dress(chart, TITLE, finding(frame))


def finding(frame: pd.DataFrame) -> str:
    """Range of each reading in words, and the pairs of which an arm is missing."""
    data = _prepare(frame)
    if data.empty:
        return NOTHING
    drawn = data[data["ratio"].notna()]
    parts = []
    for reading, rows in drawn.groupby("reading", sort=False):
        spread = f"{frames.figure(rows['ratio'].min())} to {frames.figure(rows['ratio'].max())}"
        parts.append(f"{reading}: {spread} over {frames.count(len(rows), 'pair')}.")
    lost = len(data) - len(drawn)
    return " ".join([*parts, *([f"{frames.count(lost, 'pair')} without both arms."] if lost else [])])


def _prepare(frame: pd.DataFrame) -> pd.DataFrame:
    data = frames.ready(frame, "night_canary", ["mode"], ["level", "pair", "a", "b"])
    data["reading"] = [f"{frames.level_label(row['level'])}, {row['mode']}" for row in frames.rows(data)]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (data["b"] / data["a"]).to_numpy()
    data["ratio"] = np.where(np.isfinite(ratio) & (ratio > 0), ratio, np.nan)
    return data.assign(late=data["mode"] == "batch").sort_values(["level", "late", "pair"], kind="stable").drop(columns="late")
