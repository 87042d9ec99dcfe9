"""The skeleton every kind shares: read the request, import the build, measure, write the record, tell by the exit code.

    python -P -m flows.measurements.<kind> request.json result.json [--turns PLACE]

PLACE: where it stands in a pair that measures in turns (flows/measurements/turns.py). Exit codes: 0 the record says ok (or
invalid, with its reasons); 1 the measurement failed, and its record says why; 2 there is no record: wrong usage, an unreadable
request, or a result that could not be written.
"""

import socket
import sys
import traceback
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic

from flows.measurements import nvml, telemetry
from flows.measurements.bench import Bench, say
from flows.measurements.request import ExtraT, Request, RequestError, load_request, parse_extra
from flows.measurements.turns import Place, Turns
from flows.measurements.under_test import load_under_test
from storage import records
from storage.records import Environment, Failure, Record, Status

OK, FAILED, NO_RECORD = 0, 1, 2


@dataclass(frozen=True)
class Kind(Generic[ExtraT]):
    """A kind of measurement: its name, its own options in spec.extra, and what it does."""

    name: str
    extra: type[ExtraT]
    measure: Callable[[Bench[ExtraT]], None]


def main(kind: Kind[Any], argv: Sequence[str] | None = None) -> int:
    """Carry out one request; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        turns = _turns(arguments[2:]) if len(arguments) in (2, 4) else None
    except (ValueError, OSError) as error:
        print(f"paceline: --turns: {error}", file=sys.stderr)
        return NO_RECORD
    if turns is None:
        print(f"usage: python -P -m flows.measurements.{kind.name} request.json result.json [--turns PLACE]", file=sys.stderr)
        return NO_RECORD
    try:
        request = load_request(Path(arguments[0]))
        _check_kind(kind, request, arguments[0])
    except RequestError as error:
        print(f"paceline: {error}", file=sys.stderr)
        return NO_RECORD
    record = run(kind, request, turns)
    try:
        records.dump(record, Path(arguments[1]))
    except (OSError, ValueError) as error:
        print(f"paceline: {arguments[1]}: the record cannot be written: {error}", file=sys.stderr)
        return NO_RECORD
    return OK if record.failure is None else FAILED


def run(kind: Kind[ExtraT], request: Request, turns: Turns | None = None) -> Record:
    """Measure. Whatever goes wrong, KeyboardInterrupt included, comes back as a failed record with what was seen until then."""
    draft = _Draft(kind, request, turns or Turns())
    say(f"{request.measurement} (attempt {request.spec.attempt}): {request.spec.model_dump_json()}")
    try:
        draft.measure()
    except KeyboardInterrupt as error:
        return draft.record("killed", error)
    except Exception as error:
        traceback.print_exc()
        return draft.record("failed", error)
    return draft.record("invalid" if draft.invalid_because else "ok")


class _Draft(Generic[ExtraT]):
    """The record while it is made."""

    def __init__(self, kind: Kind[ExtraT], request: Request, turns: Turns) -> None:
        self._turns = turns
        self._kind = kind
        self._request = request
        self._started = datetime.now(UTC)
        self._before: dict[str, float] = telemetry.look()
        self._machine: dict[str, Any] = {}
        self._gpu_after: dict[str, float] = {}
        self._bench: Bench[ExtraT] | None = None

    @property
    def invalid_because(self) -> list[str]:
        return self._bench.invalid_because if self._bench else []

    def measure(self) -> None:
        request = self._request
        self._machine = telemetry.machine_facts({})
        extra = parse_extra(self._kind.extra, request.spec.extra)
        gpus = nvml.open_gpus(request.spec.devices)
        with closing(gpus) if gpus else nullcontext():
            if gpus:
                self._before |= gpus.look()
                self._machine |= gpus.facts()
            under_test = load_under_test(request.build)
            self._machine = telemetry.machine_facts(under_test.build_info, gpus.facts() if gpus else None)
            self._bench = Bench(request, extra, under_test, gpus, self._turns)
            try:
                self._kind.measure(self._bench)
            finally:
                self._gpu_after = gpus.look() if gpus else {}

    def record(self, status: Status, error: BaseException | None = None) -> Record:
        request, bench = self._request, self._bench
        failure = None
        if error is not None:
            failure = Failure(type=type(error).__name__, message=str(error) or type(error).__name__, log=request.log)
        return Record(
            record_id=uuid.uuid4().hex,
            run_id=request.run_id,
            measurement=request.measurement,
            status=status,
            started_at=self._started,
            finished_at=datetime.now(UTC),
            spec=request.spec,
            source=request.source,
            environment=self._environment(),
            engine=bench.engine_facts if bench else None,
            rounds=bench.rounds if bench else [],
            occupancy=bench.occupancy if bench else None,
            values=bench.values if bench else {},
            details=bench.details if bench else {},
            invalid_because=self.invalid_because,
            failure=failure,
        )

    def _environment(self) -> Environment:
        return Environment(
            hostname=socket.gethostname(),
            fingerprint=telemetry.fingerprint(self._machine),
            machine=self._machine,
            packages=telemetry.package_versions(),
            before=self._before,
            after=telemetry.look() | self._gpu_after,
        )


def _turns(words: Sequence[str]) -> Turns | None:
    """From what follows the two files; None where that is no option of ours. Raises ValueError, OSError."""
    if not words:
        return Turns()
    return Turns(Place.parse(words[1])) if words[0] == "--turns" else None


def _check_kind(kind: Kind[Any], request: Request, path: str) -> None:
    if request.spec.kind != kind.name:
        raise RequestError(
            f"{path}: field spec.kind: found {request.spec.kind!r}: this program measures {kind.name!r}; "
            f"run python -P -m flows.measurements.{request.spec.kind}"
        )
