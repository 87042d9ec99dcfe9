"""paceline validate: the whole run, from sources to verdicts."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from flows.cli.errors import fail, stopped, told
from flows.cli.options import split, with_fields
from flows.parameters import ValidationParameters
from flows.settings import HostSettings

if TYPE_CHECKING:
    from flows.folders import RunFolder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(validate)


@with_fields(ValidationParameters, HostSettings)
def validate(given: dict[str, Any]) -> None:
    """Build the engine, measure serial against batched decode, judge the targets, draw the page.

    Every option can stand in paceline.toml (those from --cache on in its table [host]) or in a PACELINE_* variable too; the
    command line wins. Exit codes: 0 all targets pass, 1 one fails, 3 none fails and one is undecided, 2 something broke.
    """
    from flows.launch import launch, resolve

    for_host, for_run = split(given, HostSettings)
    with told():
        parameters, host, folder = resolve(for_run, for_host)
        ended = launch(parameters, host, folder)
    if ended.interrupted_by:
        stopped(ended.interrupted_by, _kept(folder))
    if ended.error is not None:
        fail(f"{ended.error}\nthe run's log: {folder.run_log}")
    if ended.summary is None:
        fail(f"the run ended without a summary: {ended.message}\nthe run's log: {folder.run_log}")
    else:
        _say_result(folder, ended.summary)
        sys.exit(int(ended.summary["exit_code"]))


def _kept(folder: "RunFolder") -> str:
    kept = len(folder.measured()) if folder.records.is_dir() else 0
    said = f"{kept} measurements are kept in {folder.records}"
    if folder.plan.exists():
        said += f"\ngo on with: paceline validate --run {folder.run_id} --results '{folder.results}'"
    return said


def _say_result(folder: "RunFolder", summary: dict[str, Any]) -> None:
    from flows.tables import print_summary

    print_summary(summary)
    for what, path in _files(folder):
        print(f"{what:<9} {_near(path)}")
    print(str(summary["headline"]).partition(". ")[0].rstrip(".") + ".")  # the reasons stand under the tables


def _files(folder: "RunFolder") -> list[tuple[str, Path]]:
    page = folder.root / "index.html"
    named = [("records", folder.records), ("logs", folder.logs), ("summary", folder.summary_json)]
    return [*named, ("", folder.summary_markdown), ("page", page), ("store", folder.snapshot)]


def _near(path: Path) -> str:
    """Relative to the current folder where it lies in it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
