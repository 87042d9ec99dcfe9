"""paceline backfill: points for commits that have none."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.errors import fail, stopped, told
from flows.cli.options import split, with_fields
from flows.commit_parameters import BackfillParameters
from flows.parameters import ValidationParameters
from flows.settings import HostSettings

HEADINGS = ("commit", "subject", "measurements", "minutes", "run", "what")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(backfill)


@with_fields(BackfillParameters, ValidationParameters, HostSettings, leave_out=("range", "measure", "build", "commit"))
def backfill(
    given: dict[str, Any],
    commits: Annotated[str, typer.Argument(metavar="RANGE", help="A..B, or B for all of its history.")],
) -> None:
    """Build and validate the commits of a range that have no point yet, and say where the trend changes.

    Exit codes: 0 every commit that can be measured has its point, 2 something broke.
    """
    from pydantic import ValidationError

    from flows.folders import RunFolder, new_run_id
    from flows.launch import launch_backfill
    from flows.settings import SettingsError, explain, load_host, load_parameters

    for_host, rest = split(given, HostSettings)
    for_run, rest = split(rest, ValidationParameters)
    with told():
        measure, host = load_parameters(for_run), load_host(for_host)
        folder = RunFolder(Path(measure.results).absolute(), measure.run or new_run_id())
        measure = measure.model_copy(update={"run": folder.run_id})
        try:
            parameters = BackfillParameters(range=commits, measure=measure, **rest)
        except ValidationError as error:
            raise SettingsError(explain(error, {"range": commits, **rest})) from error
        ended = launch_backfill(parameters, host, folder)
    if ended.interrupted_by:
        stopped(ended.interrupted_by, "the same command goes on where it was")
    if ended.error is not None or ended.summary is None:
        fail(f"{ended.error or ended.message}\nthe run's log: {folder.run_log}")
    _say(ended.summary, folder.root)
    sys.exit(int(ended.summary["exit_code"]))


def _say(found: dict[str, Any], root: Path) -> None:
    from flows.backfill_report import lines, rows
    from flows.tables import print_comparison

    print_comparison(rows(found), HEADINGS, lines(found), f"Commits of {found['range']}")
    print(f"backfill  {root / 'backfill.json'}")
    print(str(found["headline"]) + ".")
