"""One measurement: a process of its own, watched, ended at its deadline, and a record of it whatever happens."""

import socket
import sys
import threading
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from flows.build import Build
from flows.deadlines import Expectations, busy_s
from flows.folders import RunFolder
from flows.measurements.child import Outcome, run_supervised
from flows.measurements.request import Request, dump_request
from flows.measurements.turns import Place
from flows.plan import Measurement
from flows.progress import report
from flows.settings import current_host, harness_environment
from storage.records import Failure, Record, RecordError, Source, Spec, Status, dump, load

_TAIL_LINES = 12


@dataclass(frozen=True)
class Run:
    """What the measurements of one run share."""

    folder: RunFolder
    build: Build
    source: Source
    expectations: Expectations


class Seat:
    """A leg's place in a pair that measures in turns (flows/in_turns.py): its end of the socket, and the word to stop."""

    def __init__(self, end: socket.socket, place: int, partner_s: float, stop: threading.Event) -> None:
        self._end = end
        self.place = Place(end.fileno(), place, partner_s)
        self.stopped = stop.is_set

    def release(self) -> None:
        """Give up our copy of the socket, so that the partner sees the leg end."""
        self._end.close()


class Stopped(RuntimeError):
    """The pair's flow is being ended, and this leg with it; no record is made of that."""


def attempt(measurement: Measurement, run: Run, seat: Seat | None = None) -> Record:
    """Run the program; return its record, or one that says how it died. With a seat the deadline holds the partner's too, and
    the seat is given up as soon as the program has ended. Raises Stopped.
    """
    try:
        name, spec, started, outcome = _carry_out(measurement, run, seat)
    finally:
        if seat is not None:
            seat.release()
    if outcome.stopped:
        raise Stopped(f"{measurement.label}: {outcome.describe()}")
    result, log = run.folder.records / f"{name}.json", run.folder.logs / f"{name}.log"
    left = _left_behind(result)
    record = _died(measurement, spec, run, started, outcome, log) if left is None else _held_against(left, outcome)
    if record is not left:
        dump(record, result)
    busy = busy_s(record, outcome.wall_s)
    if record.status == "ok":
        run.expectations.observe(spec, busy)
    report().finished(measurement.label, record, busy)
    return record


def _carry_out(measurement: Measurement, run: Run, seat: Seat | None) -> tuple[str, Spec, datetime, Outcome]:
    """Write the request and run the program: the attempt's name, what was asked for, when it began, how it ended."""
    number = run.folder.next_attempt(measurement.file_stem)
    spec = measurement.spec.model_copy(update={"attempt": number})
    name = f"{measurement.file_stem}.attempt{number}"
    request, result = run.folder.requests / f"{name}.json", run.folder.records / f"{name}.json"
    log = run.folder.logs / f"{name}.log"
    told = log.relative_to(run.folder.root).as_posix()
    asked = Request(
        run_id=run.folder.run_id,
        measurement=measurement.name,
        spec=spec,
        build=run.build.folder,
        source=run.source,
        cache=current_host().cache,
        log=told,
    )
    dump_request(asked, request)
    report().started(measurement.label, number, run.expectations.expected_s(spec))
    started = datetime.now(UTC)
    command: list[str | Path] = [
        sys.executable,
        "-P",
        "-m",
        f"flows.measurements.{spec.kind}",
        request.resolve(),
        result.resolve(),
    ]
    deadline_s, environment = run.expectations.deadline_s(spec), harness_environment()
    if seat is None:
        outcome = run_supervised(command, log, deadline_s, env=environment)
    else:
        command += ["--turns", str(seat.place)]
        deadline_s += seat.place.patience_s
        outcome = run_supervised(command, log, deadline_s, seat.stopped, env=environment, keep=seat.place.descriptor)
    return name, spec, started, outcome


def _left_behind(result: Path) -> Record | None:
    """The record that the program left; None where there is none that can be read."""
    try:
        return load(result)
    except RecordError:
        result.unlink(missing_ok=True)
        return None


def _held_against(record: Record, outcome: Outcome) -> Record:
    """The record as it stands, unless the program ended otherwise than the record says."""
    if outcome.ok or record.status not in ("ok", "invalid"):
        return record
    failure = Failure(type="ProcessEnded", message=f"it wrote its record, then {outcome.describe()}")
    return record.model_copy(update={"status": _status(outcome), "failure": failure})


def _died(measurement: Measurement, spec: Spec, run: Run, started: datetime, outcome: Outcome, log: Path) -> Record:
    """The record of a process that could not write its own."""
    tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
    message = "\n".join([outcome.describe(), *tail])
    return Record(
        record_id=uuid.uuid4().hex,
        run_id=run.folder.run_id,
        measurement=measurement.name,
        status=_status(outcome),
        started_at=started,
        finished_at=datetime.now(UTC),
        spec=spec,
        source=run.source,
        environment=None,
        failure=Failure(type="ProcessEnded", message=message, log=log.relative_to(run.folder.root).as_posix()),
    )


def _status(outcome: Outcome) -> Status:
    if outcome.timed_out:
        return "timeout"
    return "killed" if outcome.returncode < 0 or outcome.stopped else "failed"
