"""One run's page: a single HTML file that needs no network and no server, and the charts as PNG beside it."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dashboards import pages, run_view
from dashboards.beside import beside_grid
from dashboards.charts.ratio_trend import ratio_trend
from dashboards.charts.target_ratios import target_ratios
from dashboards.frames import verdict_names
from storage import queries

PAGE = "index.html"
CHARTS = "charts"


@dataclass(frozen=True)
class PageFiles:
    """What `write_page` wrote."""

    index_html: Path
    pngs: list[Path]


def write_page(snapshot: Path, run_id: str, out_dir: Path) -> PageFiles:
    """Write `out_dir`/index.html and `out_dir`/charts/*.png for a run; out_dir is its results folder, so that links hold.

    snapshot: the store's snapshot, or the store. Raises UnknownRunError for a run without records, StoreError for a store
    that cannot be read.
    """
    view = run_view.read_run(snapshot, run_id)
    builds = queries.build_failures(snapshot)
    charts = {"targets": target_ratios(view.ratios()), "trend": ratio_trend(view.history, builds)}
    folder = out_dir / CHARTS
    folder.mkdir(parents=True, exist_ok=True)
    pngs = [pages.png(chart, folder / f"{name}.png") for name, chart in charts.items()]
    figures = [
        pages.figure("targets", charts["targets"], png=f"{CHARTS}/targets.png"),
        pages.figure("trend", charts["trend"], png=f"{CHARTS}/trend.png", data=run_view.history_grid(view.history)),
    ]
    text = pages.render(
        "report.html",
        title=f"Paceline: {view.headline()} ({run_id})",
        headline=view.headline(),
        overall=view.overall(),
        run_id=run_id,
        targets=run_view.target_grid(view),
        causes=run_view.cause_grid(view),
        canary=view.canary(),
        levels=run_view.level_grid(view),
        beside=beside_grid(snapshot, run_id),
        records=run_view.record_grid(view),
        facts=view.facts,
        points=_points(view.targets),
        charts=figures,
        footer="Made by paceline from the run's own records; this file works without a network.",
        style=pages.style(),
        script=pages.script(),
        bundle=pages.bundle(),
        swaps=pages.swaps(),
    )
    page = out_dir / PAGE
    temporary = page.with_name(f".{PAGE}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(page)
    return PageFiles(page, pngs)


def _points(targets: pd.DataFrame) -> str:
    """A sentence on verdicts that rest on a point, empty where none does."""
    judged = targets[verdict_names(targets["verdict"]) != "NO TARGET"]
    bare = int((judged["low"].isna() & judged["ratio"].notna()).sum())
    if not bare:
        return ""
    return f"{bare} of {len(judged)} verdicts rest on a point without an interval: an interval takes at least two pairs."
