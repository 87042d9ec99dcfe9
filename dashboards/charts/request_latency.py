"""Where does a request's time go? First token, per token, between tokens, whole request: serial against batch at each level.

Columns of the frame, a row per metric, level and mode: metric (a key of METRICS), level, mode, p50_s, p90_s, p99_s, max_s.
"""

from typing import Any

import altair as alt
import pandas as pd

from dashboards import frames, theme

TITLE = "Latency, serial against batch"
METRICS = {
    "ttft_s": "time to first token (TTFT)",
    "tpot_s": "time per output token (TPOT)",
    "itl_s": "between tokens (ITL)",
    "e2el_s": "whole request (E2EL)",
}
NUMBERS = ("level", "p50_s", "p90_s", "p99_s", "max_s")
PANEL = 120  # px


def request_latency(frame: pd.DataFrame) -> theme.Drawn:
    """One panel a metric: mark at the median, bar to the 99th percentile, tick at the 90th, seconds on a log axis.

    A metric without a boundary in a mode (no first token, say) has no mark there. Raises FrameError.
    """
    data = _prepare(frame)
    if data.empty:
        return theme.notice(TITLE, "No process has a kept request with a latency.")
    rows = frames.inline(data)
    names = [label for label in METRICS.values() if label in set(data["panel"])]
    panels = [_panel(data, rows, name, last=name == names[-1]) for name in names]
    chart = alt.vconcat(*panels, spacing=14).resolve_scale(color="shared", shape="shared")
    return theme.dress(chart, TITLE, finding(frame))


def finding(frame: pd.DataFrame) -> str:
    """Medians of both modes at the highest level, and the metrics that have none."""
    data = _prepare(frame)
    if data.empty:
        return "No process has a kept request with a latency."
    top = data[data["level"] == data["level"].max()]
    words = [
        f"{row['panel']}, {row['mode']}: median {frames.figure(row['p50_s'])} s, p99 {frames.figure(row['p99_s'])} s."
        for row in frames.rows(top)
    ]
    absent = [label for label in METRICS.values() if label not in set(data["panel"])]
    rest = f" Not measured: {frames.listing(absent)}." if absent else ""
    return f"At {int(top['level'].iloc[0])} at once. " + " ".join(words) + rest


def _prepare(frame: pd.DataFrame) -> pd.DataFrame:
    data = frames.ready(frame, "request_latency", ["metric", "mode"], NUMBERS)
    data["panel"] = data["metric"].map(METRICS)
    data = data[(data["p50_s"] > 0) & data["panel"].notna()]
    data["at"] = [frames.level_label(level) for level in data["level"]]
    order = {label: rank for rank, label in enumerate(METRICS.values())}
    data = data.assign(rank=data["panel"].map(order), late=data["mode"] == "batch")
    return data.sort_values(["rank", "level", "late"], kind="stable").drop(columns=["rank", "late"]).reset_index(drop=True)


def _panel(data: pd.DataFrame, rows: alt.InlineData, panel: str, last: bool) -> Any:
    order = list(dict.fromkeys(data.sort_values("level")["at"]))
    axis = alt.Axis(title="level" if last else None, labelAngle=0, grid=False)
    x = alt.X("at:N", sort=order, axis=axis, scale=alt.Scale(domain=order, paddingInner=0.5))
    offset = alt.XOffset("mode:N", scale=alt.Scale(domain=list(theme.MODES)))
    y_axis = alt.Axis(title="seconds", minExtent=46, format="~g", **_ticks_of(data[data["panel"] == panel]))
    y = alt.Y("p50_s:Q", scale=alt.Scale(type="log", nice=False, padding=10), axis=y_axis)
    shape = alt.Shape("mode:N", scale=alt.Scale(domain=list(theme.MODES), range=["square", "circle"]), title="mode")
    base = alt.Chart(rows).transform_filter(alt.datum.panel == panel).encode(x=x, xOffset=offset, color=theme.mode_colour())
    tip = [alt.Tooltip("at:N", title="level"), alt.Tooltip("mode:N")]
    tip += [alt.Tooltip(f"{name}:Q", format=".4f") for name in NUMBERS[1:]]
    layers: list[Any] = [
        base.mark_rule(strokeWidth=4, opacity=0.35).encode(y=y, y2="p99_s:Q"),
        base.mark_tick(thickness=2, size=14).encode(y=alt.Y("p90_s:Q")),
        base.mark_point(filled=True, size=80, opacity=1).encode(y=y, shape=shape, tooltip=tip),
    ]
    title = alt.TitleParams(panel, fontSize=13, fontWeight=600, frame="bounds", offset=8)
    return alt.layer(*layers).properties(width=theme.WIDTH, height=PANEL, title=title)


def ticks(low: float, high: float) -> dict[str, Any]:
    """Of a log axis: 1, 2, 5 of each power of ten within it, or as many as fit where that gives fewer than two."""
    steps = [digit * 10.0**power for power in range(-6, 4) for digit in (1, 2, 5)]
    inside = [step for step in steps if low * 0.9 <= step <= high * 1.1]
    return {"values": inside} if len(inside) >= 2 else {"tickCount": 3}


def _ticks_of(here: pd.DataFrame) -> dict[str, Any]:
    return ticks(float(here["p50_s"].min()), float(here[["p50_s", "p99_s"]].max().max()))
