"""How near is decoding to what the memory allows? The share of the machine's read bandwidth that each mode reaches.

Columns of the frame, a row per level and mode: level, mode, bandwidth_fraction (0 to 1).
"""

import altair as alt
import pandas as pd

from dashboards import frames, theme

TITLE = "Share of the machine's read bandwidth"
NOTHING = "No measurement of this run reports the machine's bandwidth and the bytes of a step."


def memory_limits(frame: pd.DataFrame) -> theme.Drawn:
    """Bars by level and mode, and the rule at 100 %. Raises FrameError."""
    data = frames.ready(frame, "memory_limits", ["mode"], ["level", "bandwidth_fraction"])
    data = data[data["bandwidth_fraction"].notna()].sort_values("level")
    if data.empty:
        return theme.notice(TITLE, NOTHING)
    data["at"] = [frames.level_label(level) for level in data["level"]]
    order = list(dict.fromkeys(data["at"]))
    base = alt.Chart(frames.inline(data))
    top = max(1.05, float(data["bandwidth_fraction"].max()) * 1.05)
    y = alt.Y(
        "bandwidth_fraction:Q", scale=alt.Scale(domain=[0, top]), axis=alt.Axis(format=".0%", title="of the read bandwidth")
    )
    bars = base.mark_bar(cornerRadiusEnd=2).encode(
        x=alt.X("at:N", sort=order, axis=alt.Axis(title="level", labelAngle=0)),
        xOffset=alt.XOffset("mode:N", scale=alt.Scale(domain=list(theme.MODES))),
        y=y,
        color=theme.mode_colour(),
        tooltip=[alt.Tooltip("at:N", title="level"), alt.Tooltip("mode:N"), alt.Tooltip("bandwidth_fraction:Q", format=".1%")],
    )
    rule = alt.Chart().mark_rule(strokeDash=[6, 4], strokeWidth=1.5, color=theme.LIGHT.ink).encode(y=alt.datum(1.0))
    chart = alt.layer(bars, rule, data=frames.inline(data)).properties(width=theme.WIDTH, height=240)
    return theme.dress(chart, TITLE, finding(frame))


def finding(frame: pd.DataFrame) -> str:
    """Each level's share in words."""
    data = frame[frame["bandwidth_fraction"].notna()].sort_values("level", kind="stable")
    if data.empty:
        return NOTHING
    rows = frames.rows(data)
    return " ".join(f"{frames.level_label(row['level'])}, {row['mode']}: {row['bandwidth_fraction']:.0%}." for row in rows)
