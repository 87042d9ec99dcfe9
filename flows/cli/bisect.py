"""paceline bisect: the commit that a loss came with."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.errors import stoppable, told
from flows.cli.options import split, with_fields
from flows.parameters import ValidationParameters
from flows.settings import HostSettings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(bisect)


_LEFT_OUT = ("build", "commit", "levels", "canary", "quick", "kinds", "rate_per_s")


@with_fields(ValidationParameters, HostSettings, leave_out=_LEFT_OUT)
def bisect(
    given: dict[str, Any],
    good: Annotated[str, typer.Argument(help="Commit, branch or tag without the loss.")],
    bad: Annotated[str, typer.Argument(help="Commit, branch or tag with it.")],
    *,
    target: Annotated[
        str, typer.Option("--target", help="x8 or 'batch at 8', 'serial at 8', or a target's name: what was lost.")
    ] = "x8",
    margin: Annotated[
        float, typer.Option("--margin", min=0.0, max=0.9, help="Loss of BAD, as a fraction, from which on it is searched for.")
    ] = 0.03,
    retry: Annotated[bool, typer.Option("--retry", help="Build commits again that are known not to build.")] = False,
) -> None:
    """Measure GOOD against suspects in turn until one commit is left. Looks and budget are those of each comparison.

    Exit codes: 0 one commit found, 1 BAD has not lost, 3 undecided or several commits left, 2 something broke.
    """
    from flows import bisection_report as say
    from flows.bisection import LOOKS, MINUTES, Asked, parse_target
    from flows.bisection import bisect as search
    from flows.commit_range import between
    from flows.folders import RunFolder, new_run_id
    from flows.progress import on_terminal
    from flows.resume import owned
    from flows.settings import load_host, load_parameters, use_host
    from flows.source import find_repo
    from flows.tables import print_comparison

    for_host, for_run = split(given, HostSettings)
    with told(), on_terminal():
        for_run = {"looks": LOOKS, "budget_minutes": MINUTES} | for_run
        parameters, host = load_parameters(for_run), load_host(for_host)
        parse_target(target, host.targets)
        between(find_repo(host.repo), good, bad)  # names that are not there are refused before anything is
        folder = RunFolder(Path(parameters.results).absolute(), parameters.run or new_run_id())
        folder.create()
        goes_on = f"the same command with --run {folder.run_id} goes on where it was"
        with use_host(host), owned(folder), stoppable(lambda: goes_on):
            state = search(Asked(good, bad, target, margin, retry), parameters, host, folder)
    print_comparison(say.rows(state), say.HEADINGS, say.lines(state), f"{state.target}: suspects against GOOD")
    print(f"search    {folder.root / 'bisect.md'}")
    print(say.headline(state, find_repo(host.repo)) + ".")
    sys.exit(state.exit_code)
