"""Is batching paying, and since when? The ratio by commit in topological order, one panel a level.

Columns of the frame, a row per run, level and series: run_id, commit, commit_position, committed_at, series, workload,
level, metric, ratio, low, high, verdict, target, direction; optional reason, href (the point's page), placement (why a
point has no place), and of a change point at this commit: change (words), step (new / old level), change_from (place of the
last commit before it). Columns of `builds`, a row per failed build: commit, position, asked_at, failure.
"""

from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from dashboards import frames, theme
from dashboards.charts import commit_axis, trend_frame

TITLE = "Trend of the ratios across commits"
PANEL, LOW_PANEL, STRIP = 150, 90, 36  # px; the low one where there is a single place on the axis
STRIP_FROM = 12  # places on the axis from which a strip to drag over is worth its room
DENSE = 60  # points of a panel from which marks are small
DRAWN = ["panel", "series", "x", "ratio", "low", "high", "verdict", "target", "placed", "latest", "segment", "change"]
DRAWN += ["name", "committed_at", "interval", "run_id", "reason", "placement", "href", "step", "change_from"]
SAYS = "datum.name + ', ' + datum.panel + ': ' + (isValid(datum.ratio) ? datum.ratio : 'no ratio') + ', ' + datum.verdict"
SIGNS = {">=": "≥", "<=": "≤"}


def ratio_trend(frame: pd.DataFrame, builds: pd.DataFrame | None = None) -> theme.Drawn:
    """Line and interval band a series, points by verdict, target rule, gaps and the ranges of changes shaded; what has no ratio,
    and commits that could not be built, at the panel's foot.

    Drag over the lowest strip to zoom, click a series in the legend to single it out, click a point for its page.
    Raises FrameError for a missing column.
    """
    failed = trend_frame.failed_builds(builds)
    data = trend_frame.prepare(frame, last=float(failed["x"].max()) if len(failed) else 0.0)
    if data.empty:
        return theme.notice(TITLE, " ".join(["The trend begins with the first run.", trend_frame.finding(frame, builds)]))
    look = _Look.of(data, failed)
    names = list(data["panel"].unique())
    panels: list[Any] = [_panel(look, name, first=name == names[0], last=name == names[-1]) for name in names]
    if look.zoom is not None:
        panels.append(_strip(look))
    chart = alt.vconcat(*panels, spacing=14).resolve_scale(stroke="shared", fill="shared", shape="shared")
    return theme.dress(chart.add_params(commit_axis.names(look.places)), TITLE, trend_frame.finding(frame, builds))


@dataclass(frozen=True)
class _Look:
    """What all panels share: rows, selections, scales."""

    data: pd.DataFrame
    rows: alt.InlineData
    gaps: pd.DataFrame
    failed: pd.DataFrame  # builds
    places: pd.DataFrame  # x and name of everything on the axis
    zoom: alt.Parameter | None
    pick: alt.Parameter | None

    @classmethod
    def of(cls, data: pd.DataFrame, failed: pd.DataFrame) -> "_Look":
        places = data.loc[data["placed"] & data["ratio"].notna(), "x"].nunique()
        zoom = alt.selection_interval(encodings=["x"], name="zoom") if places >= STRIP_FROM else None
        pick = alt.selection_point(fields=["series"], bind="legend", name="pick") if data["series"].nunique() > 1 else None
        axis = pd.concat([failed[["x", "name"]], data[["x", "name"]]], ignore_index=True)
        return cls(data, frames.inline(data[DRAWN]), trend_frame.gaps(data), failed, axis, zoom, pick)

    def base(self) -> alt.Chart:
        return alt.Chart(self.rows)

    def x(self, title: str | None, field: str = "x:Q", whole: bool = False) -> alt.X:
        return commit_axis.encode(self.places, title, field, None if whole else self.zoom)

    def series(self) -> alt.Stroke:
        """Stroke of lines and, where there are several series, of points."""
        names = sorted(self.data["series"].unique())
        wheel = [theme.LIGHT.series[i % len(theme.LIGHT.series)] for i in range(len(names))]
        legend = alt.Legend(title="series", symbolType="stroke", symbolOpacity=1, columns=1, orient="bottom", symbolLimit=60)
        legend.titleOrient = "top"
        return alt.Stroke("series:N", scale=alt.Scale(domain=names, range=wheel), legend=legend if len(names) > 1 else None)

    @property
    def crowded(self) -> bool:
        """More series than one can tell apart by colour."""
        return int(self.data["series"].nunique()) > len(theme.LIGHT.series)

    def spread(self, opacity: float) -> Any:
        """Opacity of what shows an interval; in a crowd only the series singled out shows its own."""
        if self.pick is None or not self.crowded:
            return self.fade(opacity, 0.02)
        return alt.when(self.pick, empty=False).then(alt.value(opacity)).otherwise(alt.value(0.0))

    def fade(self, chosen: float, other: float) -> Any:
        """Opacity: lower for the series that are not singled out in the legend."""
        if self.pick is None:
            return alt.value(chosen)
        return alt.when(self.pick).then(alt.value(chosen)).otherwise(alt.value(other))


def _panel(look: _Look, panel: str, first: bool, last: bool) -> Any:
    here = look.data[look.data["panel"] == panel]
    x = look.x("commit, in topological order" if last else None)
    height = PANEL if look.data["x"].nunique() > 1 else LOW_PANEL
    base = look.base().transform_filter(alt.datum.panel == panel)
    layers = _gap_marks(look) + _lines(look, base, here, x, height) + _points(look, base, here, x, height)
    layers = _failed_builds(look, x, height) + layers
    if first and look.pick is not None:
        layers[-1] = layers[-1].add_params(look.pick)  # in one view only: the others refer to it by name
    return alt.layer(*layers).properties(width=theme.WIDTH, height=height, title=_title(here, panel))


def _lines(look: _Look, base: alt.Chart, here: pd.DataFrame, x: alt.X, height: int) -> list[Any]:
    """Band, line and target rule; a layer without rows is left out, or Vega would complain of an infinite extent."""
    y = alt.Y("ratio:Q", scale=alt.Scale(zero=False, padding=12), axis=_ratio_axis(height))
    shown = base.transform_filter("datum.latest && datum.placed && isValid(datum.ratio)")
    shown = shown.encode(x=x, detail=[alt.Detail("segment:N"), alt.Detail("series:N")])
    on_line = here["latest"] & here["placed"] & here["ratio"].notna()
    layers: list[Any] = []
    if (on_line & here["low"].notna() & here["high"].notna()).any():
        layers.append(
            shown.mark_area(clip=True, color=theme.LIGHT.shade).encode(y=alt.Y("low:Q"), y2="high:Q", opacity=look.spread(0.28))
        )
    if on_line.any():
        layers.append(shown.mark_line(clip=True, strokeWidth=1.6).encode(y=y, stroke=look.series(), opacity=look.fade(1.0, 0.12)))
    if here["target"].notna().any():
        known = base.transform_filter("isValid(datum.target)").transform_aggregate(groupby=["target"])
        layers.append(known.mark_rule(strokeDash=[6, 4], strokeWidth=1.5, color=theme.LIGHT.ink).encode(y="target:Q"))
    if here["change"].notna().any():
        layers += _changes(base, x)
    return layers


def _changes(base: alt.Chart, x: alt.X) -> list[Any]:
    """The range of commits that can have done it, a rule at the first one after it, and by how much."""
    at = base.transform_filter("isValid(datum.change)")
    tip = [alt.Tooltip("change:N"), alt.Tooltip("name:N", title="first commit after it")]
    after = alt.X2("x:Q")
    span = at.mark_rect(color=theme.LIGHT.untargeted, opacity=0.22, clip=True)
    rule = at.mark_rule(strokeWidth=1.5, strokeDash=[2, 3], color=theme.LIGHT.muted, clip=True)
    words = at.transform_calculate(words="format(100 * (datum.step - 1), '+.1f') + ' %'").transform_filter("isValid(datum.step)")
    text = words.mark_text(color=theme.LIGHT.ink, fontSize=11, fontWeight=600, align="right", dx=-4, clip=True)
    start = alt.X("change_from:Q", scale=x["scale"], axis=x["axis"])
    return [
        span.transform_filter("isValid(datum.change_from)").encode(x=start, x2=after, tooltip=tip),
        rule.encode(x=x, tooltip=tip),
        text.encode(x=x, y=alt.value(23), text="words:N", tooltip=tip),
    ]


def _failed_builds(look: _Look, x: alt.X, height: int) -> list[Any]:
    """A faint rule and a cross at the foot for each commit that could not be built."""
    if look.failed.empty:
        return []
    base = alt.Chart(frames.inline(look.failed)).transform_calculate(says="datum.name + ': build failed: ' + datum.failure")
    tip = [
        alt.Tooltip("name:N", title="commit"),
        alt.Tooltip("failure:N", title="build failed"),
        alt.Tooltip("when:N", title="UTC"),
    ]
    rule = base.mark_rule(color=theme.LIGHT.broken, strokeWidth=1, opacity=0.45, strokeDash=[1, 3], clip=True)
    cross = base.mark_text(text="\u2715", color=theme.LIGHT.broken, fontSize=13, fontWeight=700, clip=True)
    return [rule.encode(x=x), cross.encode(x=x, y=alt.value(height - 8), tooltip=tip, description="says:N")]


def _points(look: _Look, base: alt.Chart, here: pd.DataFrame, x: alt.X, height: int) -> list[Any]:
    """Interval bars and points by verdict; what has no ratio stands at the foot."""
    fill, shape = theme.verdict_fill(look.data["verdict"]), theme.verdict_shape(look.data["verdict"])
    dense = len(here) > DENSE
    size = 14 if look.crowded or len(here) > 5 * DENSE else 36 if dense else 100
    dots = base.transform_calculate(says=SAYS).encode(x=x, fill=fill, shape=shape, tooltip=_tooltip(), description="says:N")
    dots = dots.encode(opacity=look.fade(1.0, 0.15))
    if look.pick is not None:
        dots = dots.encode(stroke=look.series())
    if here["href"].notna().any():
        dots = dots.encode(href=alt.Href("href:N"))
    layers: list[Any] = []
    if (here["low"].notna() & here["high"].notna()).any():
        ranged = base.transform_filter("isValid(datum.low) && isValid(datum.high)").mark_bar(clip=True, width=1.2 if dense else 3)
        layers.append(ranged.encode(x=x, y=alt.Y("low:Q"), y2="high:Q", fill=fill, opacity=look.spread(0.5)))
    if here["ratio"].notna().any():
        y = alt.Y("ratio:Q", scale=alt.Scale(zero=False, padding=12), axis=_ratio_axis(height))
        layers.append(_dot(dots.transform_filter("isValid(datum.ratio)"), size).encode(y=y))
    if here["ratio"].isna().any():
        layers.append(_dot(dots.transform_filter("!isValid(datum.ratio)"), 80).encode(y=alt.value(height - 8)))
    return layers


def _dot(base: alt.Chart, size: int) -> Any:
    return base.mark_point(filled=True, size=size, stroke=theme.LIGHT.paper, strokeWidth=0.8, clip=True)


def _ratio_axis(height: int) -> alt.Axis:
    return alt.Axis(title="ratio", tickCount=height // 30, minExtent=38)


def _title(here: pd.DataFrame, panel: str) -> alt.TitleParams:
    known = here[here["target"].notna()].sort_values(["x", "run_id"])
    words = f", target {SIGNS[known['direction'].iloc[-1]]} {known['target'].iloc[-1]:g}" if len(known) else ", no target"
    return alt.TitleParams(panel + words, fontSize=13, fontWeight=600, frame="bounds", offset=8)


def _gap_marks(look: _Look) -> list[Any]:
    if look.gaps.empty:
        return []
    base = alt.Chart(frames.inline(look.gaps))
    shade = base.mark_rect(color=theme.LIGHT.shade, opacity=0.14, clip=True).encode(x=look.x(None, "start:Q"), x2="end:Q")
    middle = base.transform_calculate(middle="(datum.start + datum.end) / 2").mark_text(
        color=theme.LIGHT.muted, fontSize=11, clip=True
    )
    return [shade, middle.encode(x=look.x(None, "middle:Q"), y=alt.value(9), text="text:N")]


def _strip(look: _Look) -> Any:
    x = look.x("drag here to zoom, double-click to see all", whole=True)
    y = alt.Y("ratio:Q", axis=None, scale=alt.Scale(zero=False, padding=4))
    base = look.base().transform_filter("datum.latest && datum.placed && isValid(datum.ratio)")
    line = base.mark_line(color=theme.LIGHT.muted, strokeWidth=1, opacity=0.7)
    chart = line.encode(x=x, y=y, detail=[alt.Detail("panel:N"), alt.Detail("series:N"), alt.Detail("segment:N")])
    return chart.add_params(look.zoom).properties(width=theme.WIDTH, height=STRIP)


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
        alt.Tooltip("placement:N", title="place"),
    ]
