"""One measurement: a process of its own, watched, ended at its deadline, and a record of it whatever happens."""

import json
import sys
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from flows.build import Build
from flows.deadlines import Expectations
from flows.folders import RunFolder
from flows.measurements.child import Outcome, run_supervised
from flows.plan import Measurement
from flows.progress import report
from flows.settings import child_environment
from storage.records import Failure, Record, RecordError, Source, Spec, Status, dump, load

REQUEST_VERSION = 1
_TAIL_LINES = 12
_HARNESS = Path(__file__).resolve().parent.parent  # the child imports the harness that the parent runs


class MeasurementFailed(RuntimeError):
    """A measurement without a usable result; its record and log are kept. The message says how it ended."""


@dataclass(frozen=True)
class Run:
    """What the measurements of one run share."""

    folder: RunFolder
    build: Build
    source: Source
    expectations: Expectations


@task(name="measure", task_run_name="{measurement.label}", retries=1, cache_policy=NO_CACHE, persist_result=False)
def measure(measurement: Measurement, run: Run) -> Record:
    """Measure once, and once more where that failed. Raises MeasurementFailed; the run goes on without it."""
    record = attempt(measurement, run)
    if record.status not in ("ok", "invalid"):
        raise MeasurementFailed(f"{measurement.label}: {failure_line(record)}")
    return record


def attempt(measurement: Measurement, run: Run) -> Record:
    """Run the program; return its record, or one that says how it died."""
    number = run.folder.next_attempt(measurement.file_stem)
    spec = measurement.spec.model_copy(update={"attempt": number})
    name = f"{measurement.file_stem}.attempt{number}"
    request, result = run.folder.requests / f"{name}.json", run.folder.records / f"{name}.json"
    log = run.folder.logs / f"{name}.log"
    _write_request(request, measurement, spec, run, log)
    report().started(measurement.label, number, run.expectations.expected_s(spec))
    started = datetime.now(UTC)
    command = [sys.executable, "-P", "-m", f"flows.measurements.{spec.kind}", request.resolve(), result.resolve()]
    outcome = run_supervised(command, log, run.expectations.deadline_s(spec), env=child_environment({"PYTHONPATH": str(_HARNESS)}))
    record = _record_of(result, outcome) or _died(measurement, spec, run, started, outcome, log)
    if not result.exists() or record.status != load(result).status:
        dump(record, result)
    if record.status == "ok":
        run.expectations.observe(spec, outcome.wall_s)
    report().finished(measurement.label, record, outcome.wall_s)
    return record


def failure_line(record: Record) -> str:
    """How it ended, in one line with the log's place."""
    failure = record.failure
    if failure is None:
        return record.status
    first = failure.message.strip().partition("\n")[0]
    return f"{record.status}: {first}" + (f" (log: {failure.log})" if failure.log else "")


def _write_request(path: Path, measurement: Measurement, spec: Spec, run: Run, log: Path) -> None:
    body = {
        "request_version": REQUEST_VERSION,
        "run_id": run.folder.run_id,
        "measurement": measurement.name,
        "spec": spec.model_dump(mode="json"),
        "build": str(run.build.folder),
        "source": run.source.model_dump(mode="json"),
        "log": log.relative_to(run.folder.root).as_posix(),
    }
    path.write_text(json.dumps(body, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _record_of(result: Path, outcome: Outcome) -> Record | None:
    """The record that the program left, held against how the program ended; None where it left none that can be read."""
    try:
        record = load(result)
    except RecordError:
        result.unlink(missing_ok=True)
        return None
    if outcome.ok or record.status not in ("ok", "invalid"):
        return record
    failure = Failure(type="ProcessEnded", message=f"it wrote its record, then {outcome.describe()}")
    return record.model_copy(update={"status": _status(outcome), "failure": failure})


def _died(
    measurement: Measurement, spec: Spec, run: Run, started: datetime, outcome: Outcome, log: Path
) -> Record:
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
