"""paceline plan and selfcheck: what would be measured, and how sure its verdicts would be."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.errors import told
from flows.cli.options import split, with_fields
from flows.parameters import ValidationParameters
from flows.settings import HostSettings

_LEFT_OUT = ("results", "run", "targets", "compiler", "flags", "build_minutes", "cache")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(plan)
    app.command()(selfcheck)


@with_fields(ValidationParameters, HostSettings, leave_out=_LEFT_OUT)
def plan(
    given: dict[str, Any],
    *,
    out: Annotated[Path | None, typer.Option("--out", help="Write plan.json there, for a host that measures alone.")] = None,
) -> None:
    """Print the measurements of a validation in their order, and measure nothing."""
    from flows.build import source_under_test
    from flows.deadlines import Expectations
    from flows.plan import make_plan, write_plan
    from flows.progress import duration
    from flows.settings import load_host, load_parameters

    for_host, for_run = split(given, HostSettings)
    with told():
        parameters, host = load_parameters(for_run), load_host(for_host)
        source = source_under_test(host)
        made = make_plan(parameters, source.tree).model_copy(update={"source": source})
        if out is not None:
            write_plan(made, out)
    guess = Expectations(longest_s=60 * parameters.deadline_minutes)
    for measurement in made.measurements():
        print(f"{measurement.name:<44} {measurement.label}")
    total = sum(guess.expected_s(measurement.spec) for measurement in made.measurements())
    looks = ", ".join(map(str, made.stages))
    print(f"plan {made.identity}: looks at {looks} pairs; a guess before any measurement: {duration(total)}")


def selfcheck(
    cv: Annotated[
        float, typer.Option("--cv", min=0.0001, max=1.0, help="Scatter of a process, as a fraction of its mean.")
    ] = 0.02,
    looks: Annotated[str, typer.Option("--looks", help="Planned looks, in pairs.")] = "5,10,20",
) -> None:
    """Simulate nights at your own noise: coverage, false verdicts, power. Exit code 1 where a promise is not kept."""
    from flows.cli.errors import fail
    from flows.verdicts.looks import LookPlan
    from flows.verdicts.selfcheck import as_markdown
    from flows.verdicts.selfcheck import selfcheck as simulate
    from flows.verdicts.simulate import Noise

    try:
        check = simulate(Noise(cv=cv), LookPlan(looks=tuple(int(part) for part in looks.split(","))))
    except ValueError as error:
        fail(f"--looks {looks}: {error}")
    print(as_markdown(check))
    sys.exit(0 if check.passed else 1)
