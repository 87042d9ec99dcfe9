"""Can this night be trusted? Every pair's ratio, those that do not count too, in the order they were measured.

Columns of the frame, a row per pair: level, metric, pair, ratio, serial, batch, valid, reason.
"""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from dashboards import frames, theme

TITLE = "Every pair of the run"
PANEL = 90  # px
STATES = ("counts", "does not count")


def night_pairs(frame: pd.DataFrame) -> theme.Drawn:
    """One panel a level: a point a pair, its mean as a rule, pairs that do not count as crosses. Raises FrameError."""
    data = _prepare(frame)
    if data.empty:
        return theme.notice(TITLE, "No pair was measured in this run.")
    rows = frames.inline(data)
    names = list(data["panel"].unique())
    panels = [_panel(data, rows, name, last=name == names[-1]) for name in names]
    return theme.dress(alt.vconcat(*panels, spacing=12).resolve_scale(fill="shared", shape="shared"), TITLE, finding(frame))


def finding(frame: pd.DataFrame) -> str:
    """Counts, spread at each level, and why pairs do not count."""
    data = _prepare(frame)
    if data.empty:
        return "No pair was measured in this run."
    lost = data[data["state"] == "does not count"]
    parts = [f"{len(data) - len(lost)} of {frames.count(len(data), 'pair')} count."]
    for panel, group in data[data["state"] == "counts"].groupby("panel", sort=False):
        if len(group) > 1:
            parts.append(f"{panel}: {frames.figure(group['ratio'].min())} to {frames.figure(group['ratio'].max())}.")
    parts += [f"{row['panel']}, pair {int(row['pair'])}: {row['reason']}." for row in frames.rows(lost.head(5))]
    return " ".join(parts)


def _prepare(frame: pd.DataFrame) -> pd.DataFrame:
    data = frames.ready(frame, "night_pairs", ["metric", "reason"], ["level", "pair", "ratio", "serial", "batch"])
    data["state"] = [STATES[0] if valid else STATES[1] for valid in frame["valid"]]
    data["panel"] = frames.ratio_names(data)
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = data["ratio"].fillna(data["batch"] / data["serial"]).to_numpy()
    data["shown"] = np.where(np.isfinite(shown), shown, np.nan)
    return data.sort_values(["level", "metric", "pair"], kind="stable").reset_index(drop=True)


def _panel(data: pd.DataFrame, rows: alt.InlineData, panel: str, last: bool) -> Any:
    here = data[data["panel"] == panel]
    pairs = sorted(int(pair) for pair in data["pair"].unique())
    axis = alt.Axis(title="pair" if last else None, labelAngle=0, grid=False)
    x = alt.X("pair:O", scale=alt.Scale(domain=pairs), axis=axis)
    y = alt.Y("shown:Q", scale=alt.Scale(zero=False, padding=10), axis=alt.Axis(title="ratio", tickCount=3, minExtent=38))
    colours = alt.Scale(domain=list(STATES), range=[theme.LIGHT.batch, theme.LIGHT.broken])
    fill = alt.Fill("state:N", scale=colours, title=None)
    shape = alt.Shape("state:N", scale=alt.Scale(domain=list(STATES), range=["circle", "cross"]), title=None)
    base = alt.Chart(rows).transform_filter(alt.datum.panel == panel)
    tip = [alt.Tooltip(f"{name}:N") for name in ("pair", "ratio", "serial", "batch", "state", "reason")]
    dots = base.mark_point(filled=True, size=80, opacity=1, stroke=theme.LIGHT.paper).encode(
        x=x, fill=fill, shape=shape, tooltip=tip
    )
    layers: list[Any] = []
    if here["ratio"].notna().any():
        mean = base.transform_filter("isValid(datum.ratio)").transform_aggregate(mean="mean(ratio)")
        layers.append(mean.mark_rule(strokeDash=[6, 4], color=theme.LIGHT.muted).encode(y=alt.Y("mean:Q")))
    if here["shown"].notna().any():
        layers.append(dots.transform_filter("isValid(datum.shown)").encode(y=y))
    if here["shown"].isna().any():
        layers.append(dots.transform_filter("!isValid(datum.shown)").encode(y=alt.value(PANEL - 8)))
    title = alt.TitleParams(panel, fontSize=13, fontWeight=600, frame="bounds", offset=6)
    return alt.layer(*layers).properties(width=theme.WIDTH, height=PANEL, title=title)
