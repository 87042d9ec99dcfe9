"""One benchmark alone: no plan, no store, no verdict; a record, a log and a printed result."""

from dataclasses import dataclass
from pathlib import Path

from flows.attempt import Run, attempt
from flows.build import build_asked
from flows.deadlines import Expectations
from flows.folders import RunFolder, new_run_id
from flows.locks import exclusive, measuring_lock
from flows.parameters import ValidationParameters
from flows.plan import Measurement, Mode, measurement_of
from flows.progress import report
from flows.settings import HostSettings, use_host
from storage.records import Record


@dataclass(frozen=True)
class Result:
    """A record and where its files are."""

    record: Record
    folder: RunFolder


def measure_alone(mode: Mode, level: int, parameters: ValidationParameters, host: HostSettings) -> Result:
    """Run one process at one level. Raises BuildError, SourceError; a measurement that fails comes back as its record."""
    folder = RunFolder(Path(parameters.results).absolute(), parameters.run or new_run_id())
    folder.create()
    build, source = build_asked(host, folder.logs / "build.log")
    run = Run(folder, build, source, Expectations(longest_s=60 * parameters.deadline_minutes))
    named = measurement_of(parameters, 0, level, mode, 0)
    alone = Measurement(name=named.name, label=f"{mode} x{level}", spec=named.spec)
    waiting = "waiting: another measurement is running on this machine"
    with use_host(host), exclusive(measuring_lock(), lambda: report().note(waiting)):
        return Result(attempt(alone, run), folder)


def result_lines(record: Record) -> list[str]:
    """The figures of a record, one a line, with units."""
    kept = record.kept_rounds()
    requests = [request for sample in kept for request in sample.requests]
    if not requests:
        return []
    wall_s = sum(sample.wall_s for sample in kept)
    firsts = [request.ttft_s for request in requests if request.ttft_s is not None]
    lines = [
        f"wall per round        {wall_s / len(kept):.4f} s (mean of {len(kept)} rounds)",
        f"avg request latency   {sum(request.e2el_s for request in requests) / len(requests):.4f} s",
        f"time to first token   {sum(firsts) / len(firsts):.4f} s" if firsts else "time to first token   none recorded",
        f"throughput            {len(requests) / wall_s:.3f} req/s, {record.output_tokens() / wall_s:.1f} tok/s",
    ]
    if record.occupancy:
        lines.append(
            f"occupancy             {record.occupancy.peak_running} running at most, {record.occupancy.peak_waiting} waiting"
        )
    return lines
