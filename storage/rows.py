"""Turns a record into rows, one dictionary of lists of rows by table. Pure: nothing here speaks to a database."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from storage.records import Environment, Record, Spec, digest

Row = dict[str, Any]

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)

DEFAULT_SLOTS = 8  # the rule is max(this, level)
RATIO_KINDS = ("latency", "throughput")  # the kinds whose pairs make the targets' ratios

# Fields of a spec that say which repetition this is, or that other columns of a series stand for.
_NOT_OF_SERIES = {"kind", "mode", "level", "slots", "seed", "checkpoint", "pair", "block", "order", "attempt", "extra"}
_SERIES_FIELDS = ("workload", "tp", "devices", "threads", "context", "prompt_tokens", "new_tokens", "warmup", "runs")


def rows_of(record: Record, record_digest: str, source_file: str) -> dict[str, list[Row]]:
    """The rows of one record: environments, series, records, rounds, requests, step_rows, named_values."""
    environment = [] if record.environment is None else [_environment_row(record.environment)]
    series = series_row(record)
    occupancy = record.occupancy
    return {
        "environments": environment,
        "series": [series],
        "records": [
            _record_row(
                record, record_digest, source_file, series["series_id"], environment[0]["environment_id"] if environment else None
            )
        ],
        "rounds": [
            {"record_id": record.record_id, "round": item.index, "warmup": item.warmup, "wall_s": item.wall_s}
            for item in record.rounds
        ],
        "requests": _request_rows(record),
        "step_rows": [
            {"record_id": record.record_id, "rows": int(rows), "steps": steps}
            for rows, steps in sorted((occupancy.rows_per_step if occupancy else {}).items(), key=lambda item: int(item[0]))
        ],
        "named_values": [
            {"record_id": record.record_id, "name": name, "value": value} for name, value in sorted(record.values.items())
        ],
    }


def series_row(record: Record) -> Row:
    """What a record may be drawn in one line with. An option that is new to the spec joins where it differs from its default,
    so that a new dimension neither mixes with old rows nor renames their series.
    """
    spec = record.spec
    options = {f"extra.{name}": value for name, value in spec.extra.items()}
    for name, field in Spec.model_fields.items():
        value = getattr(spec, name)
        if name not in _NOT_OF_SERIES and name not in _SERIES_FIELDS and value != field.default:
            options[name] = value
    by_rule = spec.mode == "serial" or spec.slots == max(DEFAULT_SLOTS, spec.level)
    row: Row = {
        "fingerprint": record.environment.fingerprint if record.environment else "unknown",
        "checkpoint_digest": record.engine.checkpoint_digest if record.engine else spec.checkpoint,
        **{name: getattr(spec, name) for name in _SERIES_FIELDS},
        "slots": None if by_rule else spec.slots,
        "options": canonical(options),
    }
    return {"series_id": digest(row)[:16], **row}


def _environment_row(environment: Environment) -> Row:
    row: Row = {
        "hostname": environment.hostname,
        "fingerprint": environment.fingerprint,
        "machine": canonical(environment.machine),
        "packages": canonical(environment.packages),
    }
    return {"environment_id": digest(row)[:16], **row}


def _record_row(record: Record, record_digest: str, source_file: str, series_id: str, environment_id: str | None) -> Row:
    spec, engine, occupancy, failure = record.spec, record.engine, record.occupancy, record.failure
    environment = record.environment
    return {
        "record_id": record.record_id,
        "digest": record_digest,
        "run_id": record.run_id,
        "measurement": record.measurement,
        "status": record.status,
        **{
            name: getattr(spec, name)
            for name in ("kind", "workload", "mode", "level", "pair", "block", "attempt", "slots", "seed", "checkpoint")
        },
        "run_order": spec.order,
        "options": canonical(spec.extra),
        "spec": canonical(spec.model_dump(mode="json")),
        "series_id": series_id,
        "environment_id": environment_id,
        "commit": record.source.commit,
        "dirty": record.source.dirty,
        "tree": record.source.tree,
        "started_at": timestamp(record.started_at),
        "finished_at": timestamp(record.finished_at),
        "api_version": engine.api_version if engine else None,
        "build": canonical(engine.build) if engine else None,
        "module_sha256": engine.module_sha256 if engine else None,
        "isa": engine.isa if engine else None,
        "checkpoint_digest": engine.checkpoint_digest if engine else None,
        "load_s": engine.load_s if engine else None,
        "memory": canonical(engine.memory) if engine else None,
        **{
            name: getattr(occupancy, name) if occupancy else None
            for name in ("peak_running", "peak_waiting", "steps", "prefill_s", "decode_s")
        },
        "host_before": canonical(environment.before) if environment else None,
        "host_after": canonical(environment.after) if environment else None,
        "invalid_because": record.invalid_because,
        "failure_type": failure.type if failure else None,
        "failure_message": failure.message if failure else None,
        "failure_log": failure.log if failure else None,
        "source_file": source_file,
    }


def _request_rows(record: Record) -> list[Row]:
    rows = []
    for item in record.rounds:
        for request in item.requests:
            tpot = None
            if request.ttft_s is not None and request.output_tokens >= 2 and request.e2el_s >= request.ttft_s:
                tpot = (request.e2el_s - request.ttft_s) / (request.output_tokens - 1)
            rows.append(
                {
                    "record_id": record.record_id,
                    "round": item.index,
                    "warmup": item.warmup,
                    "request": request.index,
                    "prompt_tokens": request.prompt_tokens,
                    "output_tokens": request.output_tokens,
                    "e2el_s": request.e2el_s,
                    "ttft_s": request.ttft_s,
                    "tpot_s": tpot,
                    "queue_s": request.queue_s,
                    "itl_s": request.itl_s,
                    "finish_reason": request.finish_reason,
                    "tokens_sha256": request.tokens_sha256,
                }
            )
    return rows


def timestamp(instant: datetime | str | None) -> str | None:
    """UTC without a zone, as the store keeps instants. A naive instant is taken for UTC."""
    if instant is None:
        return None
    if isinstance(instant, str):
        instant = datetime.fromisoformat(instant)
    if instant.tzinfo is not None:
        instant = instant.astimezone(UTC).replace(tzinfo=None)
    return instant.isoformat(sep=" ", timespec="microseconds")


def canonical(value: Any) -> str:
    """One text for equal values; strict JSON. Raises ValueError for NaN and infinity."""
    return _CANONICAL.encode(value)


def short_digest(value: Any) -> str:
    """16 hex digits that name a value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]
