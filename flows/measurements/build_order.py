"""Engines built one after the other in ONE process: is a later one slower?

    python -P -m flows.measurements.build_order request.json result.json

The predecessor's second engine was about 10 % slower, whichever its mode. spec.extra.sequence lists the engines in order, such as
["serial", "serial", "batch:8", "batch:2"] (mode and slots); each does the spec's warm-up and runs, rounds of `level` requests.
`position<N>_wall_s` is the mean round; the table in details.engines has clocks, thread and child counts and memory beside it.
"""

import gc
import re
import sys
import time
from dataclasses import dataclass
from typing import Any

from pydantic import Field, field_validator

from flows.measurements import slots, telemetry
from flows.measurements.bench import Bench, say
from flows.measurements.program import Kind, main
from flows.measurements.request import EngineExtra
from flows.measurements.rounds import quiet_collector

_ENTRY = re.compile(r"(serial|batch)(?::([1-9]\d{0,3}))?")


class BuildOrderExtra(EngineExtra):
    """Options of build_order."""

    sequence: tuple[str, ...] = Field(default=("serial", "batch", "serial", "batch"), min_length=1, max_length=64)
    pause_s: float = Field(default=0.0, ge=0, le=3600)  # between closing an engine and building the next

    @field_validator("sequence")
    @classmethod
    def _entries(cls, sequence: tuple[str, ...]) -> tuple[str, ...]:
        for entry in sequence:
            if not _ENTRY.fullmatch(entry):
                raise ValueError(f"{entry!r} must be serial or batch, with the slots after a colon where they are not the spec's")
        return sequence


@dataclass(frozen=True)
class _Engine:
    mode: str
    slots: int


def measure(bench: Bench[BuildOrderExtra]) -> None:
    """Fill the table; `worst_position_ratio` holds each engine against the first of its own mode and slots."""
    table: list[dict[str, Any]] = []
    firsts: dict[_Engine, float] = {}
    ratios: list[float] = []
    for position, engine in enumerate(_engines(bench), start=1):
        if position > 1 and bench.extra.pause_s:
            time.sleep(bench.extra.pause_s)
        row = _measure_one(bench, position, engine)
        first = firsts.setdefault(engine, row["wall_s"])
        row["ratio_to_first"] = row["wall_s"] / first
        ratios.append(row["ratio_to_first"])
        table.append(row)
        bench.values[f"position{position}_wall_s"] = row["wall_s"]
        share = f"{row['ratio_to_first']:.4f} of the first"
        say(f"position {position} ({engine.mode}, {engine.slots} slots): {row['wall_s']:.4f} s, {share}")
    bench.details["engines"] = table
    bench.values["worst_position_ratio"] = max(ratios)


def _measure_one(bench: Bench[BuildOrderExtra], position: int, engine: _Engine) -> dict[str, Any]:
    """Build an engine, run its rounds, close it; the row of the table."""
    spec = bench.spec
    each = spec.warmup + spec.runs
    base = (position - 1) * each  # rounds are numbered through; the prompts are the same at every position
    before = telemetry.look()
    started = time.monotonic()
    with bench.session(mode=engine.mode, slot_count=engine.slots) as session:
        built_s = time.monotonic() - started
        during = telemetry.look()
        with quiet_collector():
            samples = [bench.round(session, base + i, warmup=i < spec.warmup, prompts_of=i) for i in range(each)]
        memory = session.memory()
    gc.collect()
    after = telemetry.look()
    kept = samples[spec.warmup :]
    bench.invalid(slots.token_faults(spec, kept))
    return {
        "position": position,
        "mode": engine.mode,
        "slots": engine.slots,
        "wall_s": sum(r.wall_s for r in kept) / len(kept),
        "walls_s": [r.wall_s for r in kept],
        "built_s": built_s,
        "engine_memory_bytes": sum(memory.values()),
        "before": before,
        "loaded": during,
        "closed": after,
    }


def _engines(bench: Bench[BuildOrderExtra]) -> list[_Engine]:
    found = []
    for entry in bench.extra.sequence:
        mode, _, count = entry.partition(":")
        found.append(_Engine(mode, int(count) if count else bench.spec.slots))
    return found


KIND = Kind("build_order", BuildOrderExtra, measure)

if __name__ == "__main__":
    sys.exit(main(KIND))
