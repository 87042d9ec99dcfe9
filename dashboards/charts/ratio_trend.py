"""Is batching paying, and since when? The ratio by commit in topological order, one panel a level.

Columns of the frame, a row per run, level and series: run_id, commit, commit_position, committed_at, series, workload,
level, metric, ratio, low, high, verdict, target, direction; optional reason and href (the point's page).
"""

import math

import altair as alt
import pandas as pd

from dashboards import frames, theme

TITLE = "Trend of the ratios across commits"
TEXT = ("run_id", "commit", "committed_at", "series", "metric", "verdict", "direction", "reason", "href")
NUMBERS = ("commit_position", "level", "ratio", "low", "high", "target")
PANEL = 150  # px
STRIP_FROM = 12  # places on the axis from which a strip to brush is worth its room
GAP = 6  # a step this many times the usual one is named as a gap


def ratio_trend(frame: pd.DataFrame) -> alt.VConcatChart | alt.LayerChart:
    """Line and interval band a series, points by verdict, target rule, gaps shaded, what has no ratio at the panel's foot.

    Drag over the lowest strip to zoom, click a series in the legend to single it out, click a point for its page.
    Raises FrameError for a missing column.
    """
    data = prepare(frame)
    if data.empty:
        return theme.notice(TITLE, "No run is in the store yet: the trend begins with the first one.")
    places = int(data["x"].nunique())
    brush = alt.selection_interval(encodings=["x"], name="zoom") if places >= STRIP_FROM else None
    pick = alt.selection_point(fields=["series"], bind="legend", name="pick") if data["series"].nunique() > 1 else None
    gaps = gap_frame(data)
    last = data["panel"].iloc[-1]
    panels = [_panel(data, gaps, str(panel), (brush, pick), titled=panel == last) for panel in data["panel"].unique()]
    if brush is not None:
        panels.append(_strip(data, brush))
    chart = alt.vconcat(*panels, spacing=14).resolve_scale(color="shared", fill="shared", shape="shared")
    return theme.dress(chart.add_params(_names(data)), TITLE, finding(frame))


def finding(frame: pd.DataFrame) -> str:
    """The chart in words: extent, latest verdicts, largest change between neighbours, what could not be placed or drawn."""
    data = prepare(frame)
    if data.empty:
        return "No run is in the store yet."
    commits, series = data["commit"].nunique(), data["series"].nunique()
    parts = [f"{commits} commit{'s' * (commits != 1)}, {series} series, {data['run_id'].nunique()} run{'s' * (data['run_id'].nunique() != 1)}."]
    if commits == 1:
        parts.append("One point so far: a trend begins with the second commit.")
    newest = data.sort_values(["x", "run_id"]).groupby("panel", sort=False).tail(1)
    parts += [f"Latest {row.panel}: {frames.figure(row.ratio)}, {row.verdict}." for row in newest.itertuples()]
    lost = int(data["ratio"].isna().sum())
    if lost:
        parts.append(f"{lost} point{'s' * (lost != 1)} without a ratio, marked at the foot.")
    stray = data.loc[~data["placed"], "commit"].nunique()
    if stray:
        parts.append(f"{stray} commit{'s' * (stray != 1)} without a place in the history, drawn at the right.")
    parts += [f"Gap of {int(row.missing)} commits after position {int(row.start)}." for row in gap_frame(data).head(3).itertuples()]
    return " ".join(parts)


def prepare(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows ready to draw, by level and order: x (place on the axis), placed, latest (of its commit), panel, label, foot."""
    frame = frames.optional(frame, ["reason", "href", "change"])
    data = frames.ready(frame, "ratio_trend", TEXT, NUMBERS)
    data["verdict"] = frames.verdict_names(data["verdict"])
    data["series"] = data["series"].fillna("unknown")
    data["commit"] = data["commit"].fillna("unknown")
    data["placed"] = data["commit_position"].notna()
    floor = data["commit_position"].max() if data["placed"].any() else 0.0
    strays = {run: floor + 1 + i for i, run in enumerate(sorted(data.loc[~data["placed"], "run_id"].dropna().unique()))}
    data["x"] = [at if ok else strays[run] for at, ok, run in zip(data["commit_position"], data["placed"], data["run_id"], strict=True)]
    data["panel"] = [f"{frames.level_label(lv)}: {frames.metric_label(m)}" for lv, m in zip(data["level"], data["metric"], strict=True)]
    data = data.sort_values(["level", "metric", "series", "x", "run_id"], kind="stable").reset_index(drop=True)
    data["latest"] = ~data.duplicated(["panel", "series", "x"], keep="last")
    data["name"] = [frames.short_commit(c) + ("" if ok else " (no place)") for c, ok in zip(data["commit"], data["placed"], strict=True)]
    data["interval"] = [frames.interval(low, high) or "a point, no interval" for low, high in zip(data["low"], data["high"], strict=True)]
    starts = set(gap_frame(data)["end"])
    breaks = data["ratio"].isna() | (data["x"].isin(starts) & data["latest"])
    data["segment"] = breaks.groupby([data["panel"], data["series"]]).cumsum().astype(int)
    return data


def gap_frame(data: pd.DataFrame) -> pd.DataFrame:
    """Stretches of history far longer than the usual step, in which nothing was measured: start, end, missing (commits)."""
    places = sorted(data.loc[data["placed"], "x"].unique())
    steps = [right - left for left, right in zip(places, places[1:], strict=False)]
    usual = sorted(steps)[len(steps) // 2] if steps else math.inf
    rows = [
        {"start": left, "end": right, "missing": right - left - 1, "text": f"{int(right - left - 1)} not measured"}
        for left, right in zip(places, places[1:], strict=False)
        if len(steps) >= 3 and right - left > max(GAP * usual, 2)
    ]
    return pd.DataFrame(rows, columns=["start", "end", "missing", "text"])


def _names(data: pd.DataFrame) -> alt.Parameter:
    names = {str(int(x)): name for x, name in zip(data["x"], data["name"], strict=True)}
    return alt.param(name="commits", value=names)


def _x(data: pd.DataFrame, brush: alt.Parameter | None, title: str | None, field: str = "x:Q") -> alt.X:
    low, high = float(data["x"].min()), float(data["x"].max())
    room = max((high - low) * 0.02, 0.5)
    whole = alt.Scale(domain=[low - room, high + room], nice=False, zero=False)
    scale = whole if brush is None else alt.Scale(domain=brush, nice=False, zero=False, padding=14)
    axis = alt.Axis(
        labelExpr="commits[datum.value] || ''",
        tickMinStep=1,
        tickCount=6,
        grid=False,
        title=title,
    )
    return alt.X(field, scale=scale, axis=axis)


def _series_colour(data: pd.DataFrame) -> alt.Color:
    names = sorted(data["series"].unique())
    wheel = [theme.LIGHT.series[i % len(theme.LIGHT.series)] for i in range(len(names))]
    legend = alt.Legend(title="series", symbolType="stroke", symbolOpacity=1, columns=2, orient="bottom") if len(names) > 1 else None
    return alt.Color("series:N", scale=alt.Scale(domain=names, range=wheel), legend=legend)


def _panel(
    data: pd.DataFrame, gaps: pd.DataFrame, panel: str, params: tuple[alt.Parameter | None, alt.Parameter | None], titled: bool
) -> alt.LayerChart:
    brush, pick = params
    title = "commit, in topological order" if titled else None
    colour, x = _series_colour(data), _x(data, brush, title)
    y = alt.Y("ratio:Q", scale=alt.Scale(zero=False, padding=12), axis=alt.Axis(title="ratio", tickCount=5, minExtent=38))
    base = alt.Chart(frames.inline(data)).transform_filter(alt.datum.panel == panel)
    lines = base.transform_filter("datum.latest && datum.placed && isValid(datum.ratio)")
    seen = alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.12)) if pick is not None else alt.value(1.0)
    faint = alt.when(pick).then(alt.value(0.18)).otherwise(alt.value(0.02)) if pick is not None else alt.value(0.18)
    dot = alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.15)) if pick is not None else alt.value(1.0)
    marks = {"fill": theme.verdict_fill(data["verdict"]), "shape": theme.verdict_shape(data["verdict"]), "opacity": dot}
    point = {"filled": True, "stroke": theme.LIGHT.paper, "strokeWidth": 0.8}
    tip = _tooltip()
    detail = alt.Detail("segment:N")
    many = len(data) > 4 * 60 * data["panel"].nunique()
    layers: list[alt.Chart] = [
        lines.mark_area(clip=True).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour, detail=detail, opacity=faint),
        lines.mark_line(clip=True, strokeWidth=1.6).encode(x=x, y=y, color=colour, detail=detail, opacity=seen),
        base.transform_filter("isValid(datum.low) && isValid(datum.high)")
        .mark_bar(clip=True, width=1.2 if many else 3, opacity=0.5)
        .encode(x=x, y="low:Q", y2="high:Q", fill=marks["fill"]),
        base.transform_filter("isValid(datum.ratio)")
        .mark_point(clip=True, size=36 if many else 100, **point)
        .encode(x=x, y=y, tooltip=tip, href=alt.Href("href:N"), **marks),
        base.transform_filter("!isValid(datum.ratio)")
        .mark_point(clip=True, size=80, **point)
        .encode(x=x, y=alt.value(PANEL - 8), tooltip=tip, href=alt.Href("href:N"), **marks),
        _target_rule(base),
        *_gap_marks(gaps, [_x(data, brush, title, field) for field in ("start:Q", "middle:Q")]),
    ]
    if pick is not None and panel == data["panel"].iloc[0]:
        layers[1] = layers[1].add_params(pick)  # in one view only: the others refer to it by name
    return alt.layer(*layers).properties(width=theme.WIDTH, height=PANEL, title=_title(data, panel))


def _title(data: pd.DataFrame, panel: str) -> alt.TitleParams:
    known = data[(data["panel"] == panel) & data["target"].notna()].sort_values("x")
    sign = {">=": "≥", "<=": "≤"}
    target = f", target {sign[known['direction'].iloc[-1]]} {known['target'].iloc[-1]:g}" if len(known) else ", no target"
    return alt.TitleParams(panel + target, fontSize=13, fontWeight=600, frame="group", offset=8)


def _target_rule(base: alt.Chart) -> alt.Chart:
    known = base.transform_filter("isValid(datum.target)").transform_aggregate(groupby=["target"])
    return known.mark_rule(strokeDash=[6, 4], strokeWidth=1.5, color=theme.LIGHT.ink).encode(y="target:Q")


def _gap_marks(gaps: pd.DataFrame, at: list[alt.X]) -> list[alt.Chart]:
    if gaps.empty:
        return []
    base = alt.Chart(frames.inline(gaps))
    start, centre = at
    middle = base.transform_calculate(middle="(datum.start + datum.end) / 2").encode(x=centre)
    return [
        base.mark_rect(color=theme.LIGHT.shade, opacity=0.14, clip=True).encode(x=start, x2="end:Q"),
        middle.mark_text(color=theme.LIGHT.muted, fontSize=11, clip=True).encode(y=alt.value(9), text="text:N"),
    ]


def _strip(data: pd.DataFrame, brush: alt.Parameter) -> alt.Chart:
    x = _x(data, None, "drag here to zoom, double-click to see all")
    y = alt.Y("ratio:Q", axis=None, scale=alt.Scale(zero=False, padding=4))
    detail = alt.Detail(["panel:N", "series:N"])
    base = alt.Chart(frames.inline(data)).transform_filter("datum.latest && datum.placed && isValid(datum.ratio)")
    return (
        base.mark_line(color=theme.LIGHT.muted, strokeWidth=1, opacity=0.7)
        .encode(x=x, y=y, detail=detail)
        .add_params(brush)
        .properties(width=theme.WIDTH, height=36)
    )


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("name:N", title="commit"),
        alt.Tooltip("committed_at:N", title="committed"),
        alt.Tooltip("panel:N", title="ratio of"),
        alt.Tooltip("ratio:Q", format=".4f"),
        alt.Tooltip("interval:N"),
        alt.Tooltip("verdict:N"),
        alt.Tooltip("target:Q", format="g"),
        alt.Tooltip("series:N"),
        alt.Tooltip("run_id:N", title="run"),
        alt.Tooltip("reason:N"),
    ]
