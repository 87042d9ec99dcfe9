"""paceline show, replay, profile and diff: one measurement, again or in detail, and two runs side by side."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.errors import told
from flows.cli.options import with_fields
from flows.settings import HostSettings

_FAILED = 2
_Record = Annotated[str, typer.Argument(help="Record: its file, or the beginning of its id.")]
_Results = Annotated[Path, typer.Option("--results", help="Results folder, store or snapshot.")]
_RESULTS = Path("results")
_LEFT_OUT = (
    "commit",
    "targets",
)


class Profiler(StrEnum):
    """Programs that show where time goes."""

    perf = "perf"
    py_spy = "py-spy"
    ncu = "ncu"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (show, replay, profile, diff):
        app.command()(command)


def show(record: _Record, results: _Results = _RESULTS) -> None:
    """Everything known about one measurement, and the command that replays it."""
    from storage.queries import record as look_up

    with told():
        found = look_up(results, _id_of(record))
    for name, value in found.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            print(f"{name}:")
            for row in value:
                print("  " + ", ".join(f"{key} {_plain(part)}" for key, part in row.items() if part is not None))
        elif isinstance(value, dict):
            print(f"{name}:")
            for key, part in value.items():
                print(f"  {key:<18} {_plain(part)}")
        elif value not in (None, []):
            print(f"{name:<20} {_plain(value)}")
    print(f"replay: paceline replay {found['record_id'][:12]} --results '{results}'")


@with_fields(HostSettings, leave_out=_LEFT_OUT)
def replay(given: dict[str, Any], record: _Record, *, results: _Results = _RESULTS) -> None:
    """Measure the same once more, in a build of the same sources, and print both results. Joins no run and no series."""
    from flows.alone import result_lines
    from flows.progress import describe
    from flows.replay import find_record
    from flows.replay import replay as measure_again
    from flows.settings import load_host

    with told():
        before = find_record(results, record)
        after, folder = measure_again(before, results, load_host(given))
    for title, found in (("then", before), ("now", after)):
        print(f"{title} {found.started_at:%Y-%m-%d %H:%M} {found.measurement}: {found.status}")
        for line in result_lines(found) or [describe(found, 0.0)]:
            print(f"  {line}")
    print(f"records {folder.records}")
    if after.status != "ok":
        sys.exit(_FAILED)


@with_fields(HostSettings, leave_out=_LEFT_OUT)
def profile(
    given: dict[str, Any],
    record: _Record,
    *,
    tool: Annotated[Profiler | None, typer.Option("--tool", help="Left out: ncu for a GPU's record, else perf, py-spy.")] = None,
    results: _Results = _RESULTS,
) -> None:
    """Replay the measurement under the profiler that is there. Exit code 2 where none is."""
    from flows.replay import find_record
    from flows.replay import profile as run_profiler
    from flows.settings import load_host

    with told():
        found = find_record(results, record)
        made = run_profiler(found, results, load_host(given), tool.value if tool else None)
    print(f"{made.profiler} saw {found.measurement}: {made.file}\nlook at it: {made.show}")


def diff(
    first: Annotated[str, typer.Argument(help="Run.")],
    second: Annotated[str, typer.Argument(help="Another run.")],
    results: _Results = _RESULTS,
) -> None:
    """Configurations and environments where two runs differ, and their figures side by side."""
    from flows.differences import configurations, figures

    with told():
        parts = {"differs": configurations(results, first, second), "figures": figures(results, first, second)}
    for title, rows in parts.items():
        print(f"{title:<36} {first:<28} {second}")
        for row in rows:
            print(f"  {row.what:<34} {row.first:<28} {row.second}")
        if not rows:
            print("  nothing")


def _id_of(record: str) -> str:
    """The id that a record's file holds, or what was given."""
    if not Path(record).is_file():
        return record
    from storage.records import load

    return load(Path(record)).record_id


def _plain(value: Any) -> str:
    return json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)
