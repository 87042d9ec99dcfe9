"""The static site: every page from the store, one Vega bundle, no server and no network."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from dashboards import changes, downsample, frames, overview, pages, run_frames, run_view
from dashboards.charts.latency_distribution import latency_distribution
from dashboards.charts.leg_throughput import leg_throughput
from dashboards.charts.level_scaling import level_scaling
from dashboards.charts.memory_limits import memory_limits
from dashboards.charts.night_canary import night_canary
from dashboards.charts.night_pairs import night_pairs
from dashboards.charts.night_telemetry import night_telemetry
from dashboards.charts.ratio_trend import ratio_trend
from dashboards.charts.request_latency import request_latency
from dashboards.series_names import named, series_names
from storage import queries

NAMES = ("index", "trend", "legs", "scaling", "latency", "limits", "night")
TITLES = ("Overview", "Trend", "Legs", "Scaling", "Latency", "Limits", "Night")
NAVIGATION = [{"href": f"{name}.html", "text": title} for name, title in zip(NAMES, TITLES, strict=True)]
POINT_PAGES = 60  # runs with a page of their own, the newest first: about 15 kB each
TREND_POINTS = 4000  # of all lines together
LEG_RUNS = 400  # runs on the page of the legs
FAILED_BUILDS = 200  # the newest
OVERVIEW_CHANGES = 12
FOOTER = "Made by paceline from its store; these files work without a network."


@dataclass(frozen=True)
class SiteFiles:
    """What `write_site` wrote."""

    index_html: Path
    files: list[Path]
    total_bytes: int


@dataclass
class _Site:
    """What all pages need, read once."""

    snapshot: Path
    out: Path
    commit_url: str | None
    history: pd.DataFrame
    names: dict[str, str]
    files: list[Path] = field(default_factory=list)

    def page(self, href: str, **values: Any) -> None:
        defaults: dict[str, Any] = {"lede": "", "tiles": [], "charts": [], "tables": [], "commands": [], "facts": []}
        up = "../" * href.count("/")
        common = {"up": up, "here": href, "navigation": NAVIGATION, "footer": FOOTER}
        title = f"Paceline: {values['headline']}"
        self.write(href, pages.render("site.html", **(defaults | common | {"title": title} | values)))

    def write(self, href: str, text: str) -> None:
        path = self.out / href
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.files.append(path)


def write_site(snapshot: Path, out_dir: Path, commit_url_template: str | None = None) -> SiteFiles:
    """Write all pages into `out_dir`.

    commit_url_template: link of a commit with {commit} in it, None for no links. Raises StoreError, and ValueError for a template
    without {commit}.
    """
    if commit_url_template is not None and "{commit}" not in commit_url_template:
        raise ValueError(f"commit_url_template {commit_url_template!r}: {{commit}} must stand in it")
    told = queries.change_points(snapshot)
    history = changes.marked(queries.ratio_history(snapshot), told)
    site = _Site(snapshot, out_dir, commit_url_template, history, series_names(snapshot))
    thinned = downsample.thin(history, TREND_POINTS)
    runs = _runs_with_pages(thinned.frame)
    _assets(site)
    _overview(site, runs, told)
    _trend(site, thinned, runs, told)
    _legs(site, thinned.frame)
    _run_pages(site, runs)
    for run_id in runs:
        _point(site, run_id)
    total = sum(path.stat().st_size for path in site.files)
    return SiteFiles(out_dir / "index.html", site.files, total)


def _runs_with_pages(kept: pd.DataFrame) -> list[str]:
    """Newest first."""
    return sorted(set(kept["run_id"]), reverse=True)[:POINT_PAGES]


def _assets(site: _Site) -> None:
    site.write("assets/vega.js", pages.bundle())
    site.write("assets/page.js", f"const SWAPS = {pages.swaps()};\n{pages.script()}")
    site.write("assets/style.css", pages.style())


def _overview(site: _Site, runs: list[str], told: pd.DataFrame) -> None:
    latest = named(queries.latest_verdicts(site.snapshot), site.names)
    tables = [
        changes.grid(told.tail(OVERVIEW_CHANGES), site.names, site.commit_url),
        overview.run_grid(queries.runs(site.snapshot), runs, site.commit_url),
        overview.noise_grid(site.snapshot, site.names),
    ]
    tables.append(overview.mover_grid(site.snapshot, site.names))
    site.page("index.html", headline=overview.headline(latest), tiles=overview.tiles(latest), tables=tables)


def _trend(site: _Site, thinned: downsample.Thinned, runs: list[str], told: pd.DataFrame) -> None:
    linked = set(runs)
    frame = named(thinned.frame, site.names)
    links: list[Any] = [f"points/{run}.html" if run in linked else None for run in frame["run_id"]]
    frame = frame.assign(href=links)
    grid = overview.point_grid(frame, site.commit_url)
    builds = queries.build_failures(site.snapshot).tail(FAILED_BUILDS)
    figure = pages.figure("trend", ratio_trend(frame, builds), data=grid)
    headline = "Is batching paying, and since when?"
    tables = [changes.grid(told, site.names, site.commit_url), overview.failed_build_grid(builds, site.commit_url)]
    site.page("trend.html", headline=headline, lede=thinned.remark(), charts=[figure], tables=tables)


def _legs(site: _Site, kept: pd.DataFrame) -> None:
    every = run_frames.legs(site.snapshot)
    total = every["run_id"].nunique()
    newest = sorted(set(kept["run_id"]) & set(every["run_id"]))[-LEG_RUNS:]
    legs = named(every[every["run_id"].isin(set(newest))], site.names)
    lede = (
        f"{len(newest)} of {frames.count(total, 'run')}: the newest of those drawn in the trend." if len(newest) < total else ""
    )
    figure = pages.figure("legs", leg_throughput(legs), data=overview.leg_grid(legs))
    site.page("legs.html", headline="Which leg moved?", lede=lede, charts=[figure])


def _run_pages(site: _Site, linked: list[str]) -> None:
    """The pages on the newest run: of those with pairs, and for the night of all that measured anything."""
    snapshot = site.snapshot
    paired, measured = run_frames.newest_run(snapshot), run_frames.newest_run(snapshot, "measurements")
    run = paired or ""
    charts = {
        "scaling": {"scaling": level_scaling(run_frames.scaling(snapshot, run))},
        "latency": {
            "latency": request_latency(run_frames.latency(snapshot, run)),
            "distribution": latency_distribution(run_frames.distribution(snapshot, run)),
        },
        "limits": {"limits": memory_limits(queries.bandwidth_fraction(snapshot, run))},
    }
    headlines = {
        "scaling": "How far does batching carry?",
        "latency": "Where does a request's time go?",
        "limits": "How near is decoding to what the memory allows?",
    }
    others = overview.other_series_grid(site.history, run, linked, site.names)
    tables = [] if others is None else [others]
    for name, drawn in charts.items():
        figures = [pages.figure(chart_name, chart) for chart_name, chart in drawn.items()]
        site.page(f"{name}.html", headline=headlines[name], lede=_run_words(site, paired), charts=figures, tables=tables)
    _night(site, measured)


def _night(site: _Site, run_id: str | None) -> None:
    snapshot, run = site.snapshot, run_id or ""
    charts = {
        "pairs": night_pairs(queries.target_ratios(snapshot, run)),
        "canary": night_canary(queries.canary_pairs(snapshot, run)),
        "telemetry": night_telemetry(run_frames.telemetry(snapshot, run)),
    }
    lede, tables = _run_words(site, run_id), [overview.exclusion_grid(snapshot, run)]
    if run_id is not None:
        view = run_view.read_run(snapshot, run_id, site.history)
        tables.insert(0, run_view.cause_grid(view))
        lede = f"{lede}. {view.canary()}" if view.canary() else lede
    figures = [pages.figure(name, chart) for name, chart in charts.items()]
    site.page("night.html", headline="Can this night be trusted?", lede=lede, charts=figures, tables=tables)


def _run_words(site: _Site, run_id: str | None) -> str:
    """The run that a page shows, and of which series it is."""
    if run_id is None:
        return "No run is in the store yet."
    of = named(site.history[site.history["run_id"] == run_id], site.names)["series"].unique()
    return f"Run {run_id}" + (f": {'; '.join(of)}" if len(of) else "")


def _point(site: _Site, run_id: str) -> None:
    """All of one run: its targets, levels, records, and how to measure it again."""
    view = run_view.read_run(site.snapshot, run_id, site.history)
    results, here = site.snapshot.parent.resolve(), (site.out / "points").resolve()
    base = os.path.relpath(results / run_id, here).replace(os.sep, "/") + "/" if (results / run_id).is_dir() else None
    tables = [run_view.target_grid(view), run_view.cause_grid(view), run_view.level_grid(view), run_view.record_grid(view, base)]
    replay = [("Measure it again", overview.replay_commands(view.records))]
    headline = f"{view.headline()}: run {run_id}"
    site.page(f"points/{run_id}.html", headline=headline, lede=view.canary(), tables=tables, commands=replay, facts=view.facts)
