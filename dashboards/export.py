"""One chart into one file: `paceline chart NAME --out FILE`."""

from collections.abc import Callable
from pathlib import Path

from dashboards import charts, pages, theme

RUN_CHARTS: dict[str, Callable[[Path, str | None], theme.Drawn]] = {
    "targets": charts.targets,
    "scaling": charts.scaling,
    "latency": charts.latency,
    "distribution": charts.distribution,
    "limits": charts.limits,
    "pairs": charts.pairs,
    "canary": charts.canary,
    "telemetry": charts.telemetry,
}
HISTORY_CHARTS: dict[str, Callable[[Path], theme.Drawn]] = {"trend": charts.trend, "legs": charts.legs}
NAMES = tuple(sorted([*RUN_CHARTS, *HISTORY_CHARTS]))
KINDS = (".png", ".svg", ".json", ".html")


class ExportError(ValueError):
    """No such chart or kind of file. The message names what was asked for and what there is."""


def export(name: str, snapshot: Path, out: Path, run_id: str | None = None, dark: bool = False) -> Path:
    """Draw the chart `name` into `out`, whose ending says what: .png, .svg, .json (Vega-Lite) or .html (offline page).

    run_id: for charts of one run, the newest where it is left out. Raises ExportError, StoreError.
    """
    if name not in NAMES:
        raise ExportError(f"chart {name!r}: there is none; choose one of {', '.join(NAMES)}")
    if out.suffix not in KINDS:
        raise ExportError(f"{out}: ending {out.suffix!r}: write one of {', '.join(KINDS)}")
    if name in HISTORY_CHARTS and run_id is not None:
        raise ExportError(f"chart {name!r} shows all runs: leave the run {run_id!r} out")
    chart = HISTORY_CHARTS[name](snapshot) if name in HISTORY_CHARTS else RUN_CHARTS[name](snapshot, run_id)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".png":
        return pages.png(chart, out, dark)
    if out.suffix == ".svg":
        return pages.svg(chart, out, dark)
    if out.suffix == ".json":
        out.write_text(pages.json_text(chart, dark) + "\n", encoding="utf-8")
        return out
    return _page(name, chart, out)


def _page(name: str, chart: theme.Drawn, out: Path) -> Path:
    figure = pages.figure(name, chart)
    values = {"style": pages.style(), "script": pages.script(), "bundle": pages.bundle(), "swaps": pages.swaps()}
    out.write_text(pages.render("single.html", title=f"Paceline: {figure.title}", chart=figure, **values), encoding="utf-8")
    return out
