"""The versioned JSON record of one measurement: the contract between the measuring process and everything after it.

Imports nothing but the standard library and pydantic, so that a GPU host without Prefect or DuckDB can write records.
All durations are seconds, all sizes bytes, all instants UTC.
"""

import hashlib
import json
import math
import os
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

RECORD_VERSION = 1
TARGETS_FILE = "targets.toml"  # in a run's folder: what it is judged by
_SHOWN = 120  # characters of a wrong value in a message

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Instant = Annotated[AwareDatetime, AfterValidator(lambda instant: instant.astimezone(UTC))]
Status = Literal["ok", "failed", "timeout", "killed", "invalid"]


class Part(BaseModel):
    """Frozen, strict about unknown fields and about NaN (which is refused on the way out too, not written as null)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, ser_json_inf_nan="constants")


class Spec(Part):
    """What was asked for. Two records with equal specs but for pair, order and attempt repeat one measurement."""

    kind: str
    workload: str
    mode: Literal["serial", "batch"]
    level: Annotated[int, Field(ge=1)]  # requests sent at once in a round
    tp: Annotated[int, Field(ge=1)]
    slots: Annotated[int, Field(ge=1)]
    context: Annotated[int, Field(ge=2)]  # positions a slot can hold
    prompt_tokens: Annotated[int, Field(ge=1)]
    new_tokens: Annotated[int, Field(ge=1)]
    warmup: Count  # rounds dropped
    runs: Annotated[int, Field(ge=1)]  # rounds kept
    seed: int
    checkpoint: str
    devices: str = "cpu"
    threads: Count = 0
    pair: Count = 0  # process pair (serial and batch at one level) this one belongs to
    block: Count = 0  # block of pairs over the levels
    order: Count = 0  # position within the run, as executed
    attempt: Annotated[int, Field(ge=1)] = 1
    extra: dict[str, Any] = Field(default_factory=dict)  # options of kinds beside latency and throughput


class RequestSample(Part):
    index: Count
    prompt_tokens: Count
    output_tokens: Count
    e2el_s: Seconds  # sent to last token
    ttft_s: Seconds | None  # sent to first token; None where there is no boundary, never 0
    queue_s: Seconds | None  # sent to admission
    itl_s: list[Seconds] = Field(default_factory=list)  # gaps between tokens
    finish_reason: str
    tokens_sha256: str  # of the generated ids, so that legs can be held against each other


class RoundSample(Part):
    index: Count
    warmup: bool
    wall_s: Seconds  # first request sent to last token of the round
    requests: list[RequestSample]
    energy_j: Annotated[float, Field(ge=0)] | None = (
        None  # of all devices over the round; None where the device does not report it
    )
    throttled: list[str] = Field(default_factory=list)  # reasons for which a device ran below its clocks during the round


class Occupancy(Part):
    peak_running: Count
    peak_waiting: Count
    steps: Count
    rows_per_step: dict[str, Count]  # rows -> decode steps with that many rows
    prefill_s: Seconds
    decode_s: Seconds


class EngineFacts(Part):
    api_version: int
    build: dict[str, Any]
    module_sha256: str
    isa: str
    memory: dict[str, int]
    checkpoint_digest: str
    load_s: Seconds


class Source(Part):
    commit: str  # 40 hex digits, or "unknown"
    dirty: bool
    tree: str  # digest of engine/ and native/ as built


class Environment(Part):
    hostname: str
    fingerprint: str  # digest of what makes a series: CPU or GPU model and count, driver, memory, compiler, flags
    machine: dict[str, Any]  # cpu_model, cores, quota, memory_bytes, kernel, compiler, flags, gpus...
    packages: dict[str, str]
    before: dict[str, float]  # load_1m, available_memory_bytes, processes, threads, cpu_mhz
    after: dict[str, float]


class Failure(Part):
    type: str
    message: str
    log: str | None = None  # path, relative to the run's folder


class Record(Part):
    record_version: Literal[1] = 1
    record_id: str  # uuid4 hex
    run_id: str  # the flow run (or suite) it belongs to
    measurement: str  # the plan's name for it, unique in the run but for the attempt
    status: Status
    started_at: Instant
    finished_at: Instant
    spec: Spec
    source: Source
    environment: Environment | None  # None where the process died before it could look
    engine: EngineFacts | None = None
    rounds: list[RoundSample] = Field(default_factory=list)
    occupancy: Occupancy | None = None
    values: dict[str, float] = Field(default_factory=dict)  # named figures of other kinds, units in the names
    details: dict[str, Any] = Field(default_factory=dict)  # tables behind the values, for people and for later questions
    invalid_because: list[str] = Field(default_factory=list)
    failure: Failure | None = None

    @model_validator(mode="after")
    def _status_has_its_reason(self) -> Self:
        if (self.failure is not None) != (self.status in ("failed", "timeout", "killed")):
            raise ValueError(
                f"status {self.status!r} with failure {self.failure!r}: a failure stands with failed, timeout or killed"
            )
        if self.status == "ok" and self.invalid_because:
            raise ValueError(f"status 'ok' with invalid_because {self.invalid_because!r}: must be 'invalid'")
        if self.status == "invalid" and not self.invalid_because:
            raise ValueError("status 'invalid' with invalid_because []: must say why")
        return self

    def kept_rounds(self) -> list[RoundSample]:
        """Rounds after the warm-up."""
        return [r for r in self.rounds if not r.warmup]

    def output_tokens(self) -> int:
        """Tokens generated in the kept rounds."""
        return sum(q.output_tokens for r in self.kept_rounds() for q in r.requests)


class RecordError(ValueError):
    """A file that is not a record this version reads. The message names file, field, value and what would be right."""


def dump(record: Record, path: Path) -> None:
    """Write atomically: a reader sees the whole record or none. The digest of the body stands in the file."""
    body = record.model_dump(mode="json")
    body["digest"] = digest(body)
    text = json.dumps(body, indent=1, allow_nan=False)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def load(path: Path) -> Record:
    """Read a record. Raises RecordError for a truncated, altered, foreign or newer file."""
    return load_with_digest(path)[0]


def load_with_digest(path: Path) -> tuple[Record, str]:
    """Read a record, and the digest that its file states: that of the body as it was written, without fields that later
    versions add. Raises as `load` does.
    """
    try:
        text = path.read_text(encoding="utf-8")
        body = json.loads(text, parse_constant=_refuse_constant)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: not strict JSON (cut short, or another kind of file): {error}") from error
    if not isinstance(body, dict) or "record_version" not in body:
        raise RecordError(f"{path}: not a paceline record: field 'record_version' is missing")
    version = body["record_version"]
    if version != RECORD_VERSION:
        advice = (
            "install a newer paceline"
            if isinstance(version, int) and version > RECORD_VERSION
            else "not a version there ever was"
        )
        raise RecordError(f"{path}: record_version {version!r}: this version reads {RECORD_VERSION}; {advice}")
    stated = body.pop("digest", None)
    try:
        found = digest(body)
    except ValueError as error:  # a number that was read as infinity
        raise RecordError(f"{path}: not strict JSON: {_too_large(text)} does not fit a float64") from error
    if stated != found:
        raise RecordError(f"{path}: digest {stated!r} does not match the content: the file was altered")
    try:
        return Record.model_validate(body), found
    except ValidationError as error:
        raise RecordError(f"{path}: {first_fault(error)}") from error


def first_fault(error: ValidationError) -> str:
    """One line for the first of pydantic's faults: field, value found, what would be right."""
    fault = error.errors()[0]
    field = ".".join(str(part) for part in fault["loc"]) or "(whole)"
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "missing" or not fault["loc"]:
        return f"field {field}: {message}"
    found = repr(fault["input"])
    return f"field {field}: found {found if len(found) <= _SHOWN else found[:_SHOWN] + '...'}: {message}"


def digest(body: dict[str, Any]) -> str:
    """sha256 over the canonical JSON of a record's body without its digest."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _too_large(text: str) -> str:
    """The first number of a JSON text that is infinity as a float64."""
    numbers: list[str] = []
    json.loads(text, parse_float=numbers.append)
    return next(number for number in numbers if math.isinf(float(number)))
