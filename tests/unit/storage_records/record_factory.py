"""Records as measuring processes write them, with times from a simple model and noise from a seed.

Other tests load this file by its path: `importlib.util.spec_from_file_location("record_factory", .../record_factory.py)`.
The model: one request alone takes REQUEST_S; a serial round of N takes N times that and its requests finish one after the other;
a batch round takes N * REQUEST_S / ratio and its requests finish together. At level 1 the ratio is batch over serial latency.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import numpy as np

from storage.records import (
    EngineFacts,
    Environment,
    Failure,
    Occupancy,
    Record,
    RequestSample,
    RoundSample,
    Source,
    Spec,
)

REQUEST_S = 0.672  # one request alone: the predecessor's figure
PREFILL_S = 0.02
STARTED = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
COMMIT = "c8c3b15" + "0" * 33
Mode = Literal["serial", "batch"]


def make_spec(**overrides: Any) -> Spec:
    """The report's workload at level 2, serial."""
    fields: dict[str, Any] = {
        "kind": "throughput",
        "workload": "report",
        "mode": "serial",
        "level": 2,
        "tp": 4,
        "slots": 8,
        "context": 64,
        "prompt_tokens": 16,
        "new_tokens": 32,
        "warmup": 1,
        "runs": 5,
        "seed": 20260301,
        "checkpoint": "synthetic:small",
    }
    if "level" in overrides and "kind" not in overrides:
        fields["kind"] = "latency" if overrides["level"] == 1 else "throughput"
    return Spec(**(fields | overrides))


def make_source(**overrides: Any) -> Source:
    """A clean commit."""
    fields: dict[str, Any] = {"commit": COMMIT, "dirty": False, "tree": hashlib.sha256(b"tree").hexdigest()}
    return Source(**(fields | overrides))


def make_environment(**overrides: Any) -> Environment:
    """A quiet machine of two cores; another `fingerprint` is another series."""
    look = {"load_1m": 0.2, "available_memory_bytes": 20e9, "processes": 120.0, "threads": 260.0, "cpu_mhz": 2600.0}
    fields: dict[str, Any] = {
        "hostname": "bench",
        "fingerprint": hashlib.sha256(b"bench").hexdigest()[:16],
        "machine": {
            "cpu_model": "Example CPU",
            "cores": 2,
            "quota": 2.0,
            "memory_bytes": 24 * 2**30,
            "kernel": "6.1.0",
            "compiler": "g++ 12.2.0",
            "flags": "-O3",
        },
        "packages": {"python": "3.11.9", "numpy": "2.4.6", "pydantic": "2.14.4"},
        "before": dict(look),
        "after": look | {"load_1m": 1.7},
    }
    return Environment(**(fields | overrides))


def make_engine(**overrides: Any) -> EngineFacts:
    """Facts of a CPU build."""
    fields: dict[str, Any] = {
        "api_version": 1,
        "build": {"compiler": "g++ 12.2.0", "flags": "-O3", "build_type": "Release"},
        "module_sha256": hashlib.sha256(b"module").hexdigest(),
        "isa": "avx512_bf16",
        "memory": {"weights": 250_000_000, "kv_cache": 8_000_000, "state": 0, "scratch": 1_000_000},
        "checkpoint_digest": hashlib.sha256(b"checkpoint").hexdigest(),
        "load_s": 1.5,
    }
    return EngineFacts(**(fields | overrides))


def make_round(spec: Spec, index: int, wall_s: float) -> RoundSample:
    """One round of spec.level requests that takes `wall_s`, as the model above has it."""
    level = spec.level
    each = wall_s / level if spec.mode == "serial" else wall_s
    requests = []
    for i in range(level):
        queue = i * each if spec.mode == "serial" else 0.0
        gap = (each - PREFILL_S) / max(spec.new_tokens - 1, 1)
        requests.append(
            RequestSample(
                index=i,
                prompt_tokens=spec.prompt_tokens,
                output_tokens=spec.new_tokens,
                e2el_s=queue + each,
                ttft_s=queue + PREFILL_S,
                queue_s=queue,
                itl_s=[gap] * (spec.new_tokens - 1),
                finish_reason="length",
                tokens_sha256=hashlib.sha256(f"{spec.seed}/{index}/{i}".encode()).hexdigest(),
            )
        )
    return RoundSample(index=index, warmup=index < spec.warmup, wall_s=wall_s, requests=requests)


def make_occupancy(spec: Spec) -> Occupancy:
    """All slots filled in batch mode, one in serial mode."""
    running = min(spec.level, spec.slots) if spec.mode == "batch" else 1
    steps = spec.runs * (spec.new_tokens - 1) * (1 if spec.mode == "batch" else spec.level)
    return Occupancy(
        peak_running=running,
        peak_waiting=spec.level - running,
        steps=steps + spec.runs,
        rows_per_step={str(running): steps},
        prefill_s=PREFILL_S * spec.runs,
        decode_s=REQUEST_S * spec.runs,
    )


def measurement_name(spec: Spec) -> str:
    """The plan's name for a measurement."""
    return f"{spec.workload}/{spec.kind}-x{spec.level}-{spec.mode}/pair{spec.pair:02d}"


def make_record(*, wall_s: float | None = None, **overrides: Any) -> Record:
    """One ok record. `overrides` are fields of Record; `spec` may be a dict of Spec's fields. `wall_s`: of every round."""
    spec = overrides.pop("spec", {})
    spec = spec if isinstance(spec, Spec) else make_spec(**spec)
    wall = REQUEST_S * spec.level if wall_s is None else wall_s
    name = measurement_name(spec)
    fields: dict[str, Any] = {
        "run_id": "20260301T020000Z-aaaaaa",
        "measurement": name,
        "status": "ok",
        "started_at": STARTED + timedelta(minutes=spec.order),
        "finished_at": STARTED + timedelta(minutes=spec.order, seconds=wall * (spec.runs + spec.warmup)),
        "spec": spec,
        "source": make_source(),
        "environment": make_environment(),
        "engine": make_engine(),
        "rounds": [make_round(spec, i, wall) for i in range(spec.warmup + spec.runs)],
        "occupancy": make_occupancy(spec),
    }
    fields |= overrides
    identity = f"{fields['run_id']}/{name}/{spec.attempt}"
    fields.setdefault("record_id", hashlib.md5(identity.encode(), usedforsecurity=False).hexdigest())
    return Record(**fields)


def make_failed(*, status: str = "failed", message: str = "the engine gave up", **overrides: Any) -> Record:
    """A record of a measurement that did not come to its end: no rounds, no occupancy."""
    failure = Failure(type="RequestFailed", message=message, log="logs/example.attempt1.log")
    return make_record(status=status, failure=failure, **({"rounds": [], "occupancy": None} | overrides))


def make_pair(
    level: int,
    ratio: float,
    *,
    pair: int = 0,
    order: int = 0,
    seed: int = 0,
    cv: float = 0.01,
    spec: dict[str, Any] | None = None,
    **overrides: Any,
) -> tuple[Record, Record]:
    """(serial, batch) of one level, whose true ratio is `ratio`; each process is off by noise of the given `cv`.

    At level 1 the ratio is latency(batch) / latency(serial), above that throughput(batch) / throughput(serial).
    """
    noise = np.random.default_rng([seed, level, pair]).normal(1.0, cv, size=2)
    serial_wall = level * REQUEST_S
    walls = {"serial": serial_wall * noise[0], "batch": (serial_wall * ratio if level == 1 else serial_wall / ratio) * noise[1]}
    made = []
    for position, mode in enumerate(("serial", "batch")):
        fields = {"level": level, "mode": mode, "pair": pair, "block": pair, "order": order + position} | (spec or {})
        made.append(make_record(wall_s=float(walls[mode]), spec=fields, **overrides))
    return made[0], made[1]


def make_run(ratios: dict[int, float], *, pairs: int = 5, seed: int = 0, cv: float = 0.01, **overrides: Any) -> list[Record]:
    """All records of a run: `pairs` pairs at each level, whose true ratios are given, in the order of execution."""
    records: list[Record] = []
    for pair in range(pairs):
        for level, ratio in ratios.items():
            records.extend(make_pair(level, ratio, pair=pair, order=len(records), seed=seed, cv=cv, **overrides))
    return records
