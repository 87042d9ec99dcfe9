"""What was the machine doing? Load, clock, power, temperature and memory over the run.

Columns of the frame, a row per instant and quantity: at (UTC), quantity (a key of QUANTITIES, or any name with its unit),
value, measurement.
"""

from typing import Any

import altair as alt
import pandas as pd

from dashboards import frames, theme

TITLE = "The machine during the run"
QUANTITIES = {
    "load_1m": "load over one minute",
    "cpu_mhz": "processor clock, MHz",
    "gpu_clock_mhz": "accelerator clock, MHz",
    "power_w": "power, W",
    "temperature_c": "temperature, °C",
    "available_memory_bytes": "memory free, GiB",
    "processes": "processes",
    "threads": "threads",
}
PANEL = 70  # px


def night_telemetry(frame: pd.DataFrame) -> theme.Drawn:
    """One small panel a quantity, on one time axis. Raises FrameError."""
    data = _prepare(frame)
    if data.empty:
        return theme.notice(TITLE, "No record of this run describes its machine.")
    rows = frames.inline(data)
    names = list(data["panel"].unique())
    panels = [_panel(data, rows, name, last=name == names[-1]) for name in names]
    return theme.dress(alt.vconcat(*panels, spacing=10), TITLE, finding(frame))


def finding(frame: pd.DataFrame) -> str:
    """The range of each quantity."""
    data = _prepare(frame)
    if data.empty:
        return "No record of this run describes its machine."
    groups = data.groupby("panel", sort=False)["value"]
    return " ".join(f"{name}: {frames.figure(g.min(), 2)} to {frames.figure(g.max(), 2)}." for name, g in groups)


def _prepare(frame: pd.DataFrame) -> pd.DataFrame:
    data = frames.ready(frame, "night_telemetry", ["quantity", "measurement"], ["value"])
    data["at"] = [f"{at:%Y-%m-%dT%H:%M:%S}Z" for at in pd.to_datetime(frame["at"])]
    data.loc[data["quantity"] == "available_memory_bytes", "value"] /= 2**30
    data["panel"] = [QUANTITIES.get(str(name), str(name)) for name in data["quantity"]]
    order = {name: rank for rank, name in enumerate(QUANTITIES)}
    data["rank"] = [order.get(str(name), len(order)) for name in data["quantity"]]
    data = data[data["value"].notna()]
    return data.sort_values(["rank", "panel", "at"], kind="stable").drop(columns=["rank", "quantity"]).reset_index(drop=True)


def _panel(data: pd.DataFrame, rows: alt.InlineData, panel: str, last: bool) -> Any:
    domain = [data["at"].min(), data["at"].max()]
    brief = pd.Timestamp(domain[1]) - pd.Timestamp(domain[0]) < pd.Timedelta(minutes=10)
    clock = "%H:%M:%S" if brief else "%H:%M"
    axis = alt.Axis(title="UTC" if last else None, labels=last, ticks=last, grid=False, tickCount=5, format=clock)
    x = alt.X("time:T", scale=alt.Scale(type="utc", domain=domain), axis=axis)
    y = alt.Y(
        "value:Q", scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(title=None, tickCount=3, minExtent=46, format="~s")
    )
    base = alt.Chart(rows).transform_filter(alt.datum.panel == panel).transform_calculate(time="toDate(datum.at)")
    tip = [alt.Tooltip("at:N", title="UTC"), alt.Tooltip("value:Q"), alt.Tooltip("measurement:N")]
    layers: list[Any] = [
        base.mark_line(strokeWidth=1.3, color=theme.LIGHT.batch).encode(x=x, y=y),
        base.mark_point(filled=True, size=22, color=theme.LIGHT.batch, opacity=1).encode(x=x, y=y, tooltip=tip),
    ]
    title = alt.TitleParams(panel, fontSize=12, fontWeight=600, frame="bounds", offset=4)
    return alt.layer(*layers).properties(width=theme.WIDTH, height=PANEL, title=title)
