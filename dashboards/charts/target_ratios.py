"""Does each level reach its target? The ratio with its interval, the target's mark, the verdict as colour and shape."""

import math
from typing import Any

import altair as alt
import pandas as pd

from dashboards import frames, theme

TITLE = "Ratio at each level against its target"
TEXT = ("metric", "direction", "verdict")
NUMBERS = ("level", "ratio", "low", "high", "target")
ROW = 58  # px a level
TWO_LINES = "split(datum.label, ': ')"


def target_ratios(frame: pd.DataFrame) -> theme.Drawn:
    """One row a level; log axis, so that 2x and 1/2x lie equally far from 1.

    frame: metric, level, ratio, low, high (dimensionless; low and high null for a point without interval), target and
    direction (">=", "<="; null for a level without target), verdict; optional reason. Raises FrameError.
    """
    data = _prepare(frame)
    if data.empty:
        return theme.notice(TITLE, "No level was measured in this run.")
    bottom, top = _domain(data)
    data["edge"] = [top if way == ">=" else bottom for way in data["direction"]]
    data["at"] = data["ratio"].fillna(data["target"]).fillna(1.0)
    scale = alt.Scale(type="log", domain=[bottom, top], nice=False)
    x_axis = alt.Axis(values=_ticks(bottom, top), format="~g", title="batch / serial ratio (log scale)")
    y = alt.Y("row:N", sort=list(data["row"]), title=None, axis=_row_axis())
    base = alt.Chart(frames.inline(data)).encode(y=y)
    target = alt.X("target:Q", scale=scale, axis=x_axis)
    shade = base.transform_filter("isValid(datum.target)").mark_bar(color=theme.LIGHT.shade, opacity=0.16, height=30)
    tick = base.transform_filter("isValid(datum.target)").mark_tick(color=theme.LIGHT.ink, thickness=2.5, size=30)
    spread = base.transform_filter("isValid(datum.low) && isValid(datum.high)").mark_bar(height=20, opacity=0.4)
    dot = base.mark_point(filled=True, size=95, opacity=1, stroke=theme.LIGHT.paper, strokeWidth=1)
    label = base.mark_text(align="left", dy=-23, fontSize=12, color=theme.LIGHT.ink).encode(x=alt.value(0), text="label:N")
    chart = alt.layer(
        shade.encode(x=target, x2="edge:Q"),
        tick.encode(x=target),
        spread.encode(x=alt.X("low:Q", scale=scale, axis=x_axis), x2="high:Q", fill=theme.verdict_fill(data["verdict"])),
        dot.encode(
            x=alt.X("at:Q", scale=scale, axis=x_axis),
            fill=theme.verdict_fill(data["verdict"]),
            shape=theme.verdict_shape(data["verdict"]),
            tooltip=[alt.Tooltip(f"{name}:N") for name in ("row", "words", "verdict", "reason")],
        ),
        label,
    )
    return theme.dress(chart.properties(width=theme.WIDTH, height=alt.Step(ROW)), TITLE, finding(frame))


def finding(frame: pd.DataFrame) -> str:
    """The chart in words: what passes, what does not, with the figures."""
    data = _prepare(frame)
    if data.empty:
        return "No level was measured in this run."
    counts = data["verdict"].value_counts()
    head = frames.listing([f"{counts[name]} {name}" for name in theme.present(data["verdict"])])
    return f"{head}. " + " ".join(f"{row['row']}: {row['words']}, {row['verdict']}." for row in frames.rows(data))


def _prepare(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frames.optional(frame, ["reason"])
    data = frames.ready(frame, "target_ratios", (*TEXT, "reason"), NUMBERS)
    data = data.sort_values(["level", "metric"], kind="stable").reset_index(drop=True)
    data["verdict"] = frames.verdict_names(data["verdict"])
    data.loc[data["ratio"] <= 0, "ratio"] = math.nan  # a log axis has no place for it; the verdict is ERROR anyway
    data["row"] = frames.ratio_names(data)
    data["label"] = [_label(row, long=False) for row in frames.rows(data)]
    data["words"] = [_label(row, long=True) for row in frames.rows(data)]
    data["low"], data["high"] = frames.drawable(data["ratio"], data["low"], data["high"])
    return data


def _label(row: dict[str, Any], long: bool) -> str:
    """'0.997 (0.982–1.012) ≤ 1.05' above a row, where a phone has little room; in sentences with words."""
    ratio, low, high, target = (_number(row[name]) for name in ("ratio", "low", "high", "target"))
    spread = frames.interval(low, high)
    value = "no ratio" if ratio is None else f"{frames.figure(ratio)} ({spread or 'point'})"
    sign = {">=": "≥", "<=": "≤"}.get(str(row["direction"]), "")
    text = value if target is None else f"{value}, target {sign} {target:g}"
    return text if long else text.replace(" to ", "–").replace(", target", "")


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _row_axis() -> alt.Axis:
    return alt.Axis(domain=False, ticks=False, labelPadding=8, labelExpr=TWO_LINES, labelLimit=120, minExtent=76)


def _domain(data: pd.DataFrame) -> tuple[float, float]:
    values = pd.concat([data[name] for name in ("ratio", "low", "high", "target")]).dropna()
    values = values[values > 0]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.5, 2.0)
    return min(low * 0.9, 0.9), max(high * 1.12, 1.25)


def _ticks(bottom: float, top: float) -> list[float]:
    steps = [0.1, 0.2, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128]
    return [step for step in steps if bottom <= step <= top]
