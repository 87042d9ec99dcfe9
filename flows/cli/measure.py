"""paceline measure: one benchmark alone."""

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from flows.cli.errors import told
from flows.cli.options import Mode, split, with_fields
from flows.parameters import ValidationParameters
from flows.settings import HostSettings

_FAILED = 2
_LEFT_OUT = ("pairs", "looks", "quick", "interleave", "budget_minutes", "targets")


class Kind(StrEnum):
    """What to measure."""

    latency = "latency"
    throughput = "throughput"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(measure)


@with_fields(ValidationParameters, HostSettings, leave_out=_LEFT_OUT)
def measure(
    given: dict[str, Any],
    kind: Annotated[Kind, typer.Argument(help="latency: one request at a time; throughput: the requests of each level at once.")],
    *,
    mode: Annotated[Mode, typer.Option("--mode", help="One request at a time, or the slot scheduler.")] = Mode.batch,
) -> None:
    """Run one benchmark alone, a process each level, and print its result. No store, no verdict.

    Left out, the workload is the one named like the benchmark: latency 32/128/3+10, throughput 32/128/1+3.
    """
    from flows.alone import measure_alone, result_lines
    from flows.progress import describe
    from flows.settings import load_host, load_parameters

    for_host, for_run = split(given, HostSettings)
    failed = False
    with told():
        parameters = load_parameters({"workload": kind.value, **for_run})
        host = load_host(for_host)
        for level in (1,) if kind is Kind.latency else parameters.levels:
            result = measure_alone(mode.value, level, parameters, host)
            record = result.record
            print(f"{kind.value} x{level} {mode.value}: {record.status}")
            for line in result_lines(record):
                print(f"  {line}")
            if record.failure is not None or record.invalid_because:
                print(f"  {describe(record)}", file=sys.stderr)
            print(f"  records {result.folder.records}")
            failed = failed or record.status != "ok"
    if failed:
        sys.exit(_FAILED)
