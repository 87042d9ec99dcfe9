"""paceline compare: two builds head to head, for a review or before a push."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.errors import fail, stoppable, told
from flows.cli.options import split, with_fields
from flows.parameters import ValidationParameters
from flows.settings import HostSettings


class Legs(StrEnum):
    """Which legs to compare."""

    batch = "batch"
    serial = "serial"
    both = "both"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(compare)


@with_fields(ValidationParameters, HostSettings, leave_out=("build", "commit", "targets", "canary", "kinds", "rate_per_s"))
def compare(  # noqa: PLR0913  # one an option
    given: dict[str, Any],
    base: Annotated[
        str | None, typer.Argument(help="Commit, branch or tag. Left out: where the branch left the main line.")
    ] = None,
    head: Annotated[
        str | None, typer.Argument(help="Commit, branch or tag, or `worktree`, the tree as it stands: so too when left out.")
    ] = None,
    *,
    head_option: Annotated[str | None, typer.Option("--head", help="The second argument, where there is no first.")] = None,
    base_build: Annotated[Path | None, typer.Option("--base-build", help="Existing build folder for the base.")] = None,
    head_build: Annotated[Path | None, typer.Option("--head-build", help="Existing build folder for the head.")] = None,
    legs: Annotated[Legs, typer.Option("--legs", help="Legs to compare; one target each at each level.")] = Legs.batch,
    margin: Annotated[
        float, typer.Option("--margin", min=0.0, max=0.99, help="Loss that is let pass, as a fraction; beyond it is a FAIL.")
    ] = 0.03,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Write a review comment there.")] = None,
) -> None:
    """Build two commits and interleave the same leg of both. Exit codes as those of validate.

    PASS: surely no worse than the base by more than the margin. FAIL: surely worse. One binary on both sides cannot differ.
    """
    from flows import comparison_report as report
    from flows.admission import refuse_unfit_for
    from flows.compare import compare as run
    from flows.compare import conclude, keep, open_side
    from flows.folders import RunFolder, new_run_id
    from flows.progress import on_terminal
    from flows.settings import load_host, load_parameters
    from flows.tables import print_comparison

    for_host, for_run = split(given, HostSettings)
    began = datetime.now(UTC)
    with told(), on_terminal():
        parameters, host = load_parameters(for_run), load_host(for_host)
        wanted = (base, base_build), (_one_head(head, head_option), head_build)
        _refuse_early(parameters, wanted, host)
        folder = RunFolder(Path(parameters.results).absolute(), parameters.run or new_run_id())
        folder.create()
        with stoppable(lambda: f"{len(folder.record_files())} records are kept in {folder.records}; a comparison begins anew"):
            sides = tuple(open_side(*side, host, folder.logs / "build.log") for side in wanted)
            for side in sides:
                refuse_unfit_for(side.build.folder, parameters)
            comparison = _comparison(sides, parameters, legs, margin)
            compared = run(comparison, folder)
            found = conclude(comparison, compared.verdicts)
            compared.notes.extend(keep(comparison, compared, folder, found.exit_code, began))
    print_comparison(report.rows(compared), report.HEADINGS, report.lines(compared))
    if markdown is not None:
        with told():
            markdown.write_text(report.markdown(comparison, compared, found), encoding="utf-8")
        print(f"comment   {markdown}")
    print(f"records   {folder.records}")
    print(found.headline.partition(". ")[0].rstrip(".") + ".")
    sys.exit(found.exit_code)


def _one_head(argument: str | None, option: str | None) -> str:
    from flows.revisions import WORKTREE

    if argument is not None and option is not None and argument != option:
        fail(f"HEAD is {argument} as the second argument and {option} by --head: name it once")
    named = option if argument is None else argument
    return WORKTREE if named is None else named


def _refuse_early(parameters: ValidationParameters, wanted: Sequence[tuple[str | None, Path | None]], host: HostSettings) -> None:
    """Before anything is built: names that are not there, and a checkpoint where the head's engine can be asked already."""
    from flows.admission import refuse_unfit
    from flows.build import open_build
    from flows.compare import commit_of
    from flows.revisions import WORKTREE

    for name, build in wanted:
        if build is not None:
            open_build(build)
        elif name != WORKTREE:
            commit_of(name, host)
    head, build = wanted[1]
    if build is not None or head == WORKTREE:
        refuse_unfit(parameters, host.model_copy(update={"build": build}))


def _comparison(sides: Any, parameters: ValidationParameters, legs: Legs, margin: float) -> Any:
    from flows.compare import Comparison
    from flows.plan import MODES

    modes = MODES if legs is Legs.both else tuple(mode for mode in MODES if mode == legs.value)
    base, head = sides
    return Comparison(base, head, parameters, modes, margin)
