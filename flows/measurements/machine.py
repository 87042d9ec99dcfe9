"""What the machine itself can do tonight: how fast all its cores together read memory. No engine runs.

    python -P -m flows.measurements.machine request.json result.json

`read_bandwidth_bytes_per_s` is the best of several passes over arrays far larger than any cache, a thread a core.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from pydantic import Field

from flows.measurements.bench import Bench, say
from flows.measurements.program import Kind, main
from flows.measurements.request import EngineExtra

_GIB = 2**30


class MachineExtra(EngineExtra):
    """Options of the probe."""

    gib: float = Field(default=1.0, gt=0, le=1024)  # read in one pass, over all threads
    passes: int = Field(default=5, ge=1, le=1000)


def measure(bench: Bench[MachineExtra]) -> None:
    """Read memory; the first pass, which faults the pages in, is dropped."""
    threads = bench.spec.threads or len(os.sched_getaffinity(0))
    each = int(bench.extra.gib * _GIB / threads / 8)
    with ThreadPoolExecutor(threads) as pool:
        arrays = list(pool.map(lambda fill: np.full(each, fill, np.int64), range(threads)))
        walls = [_pass(pool, arrays) for _ in range(bench.extra.passes + 1)][1:]
    read = threads * each * 8
    bench.values |= {"read_bandwidth_bytes_per_s": read / min(walls), "read_bandwidth_worst_bytes_per_s": read / max(walls)}
    say(f"machine: {threads} threads read {read / min(walls) / 1e9:.1f} GB/s at best, {read / max(walls) / 1e9:.1f} at worst")


def _pass(pool: ThreadPoolExecutor, arrays: list[np.ndarray]) -> float:
    """Seconds for every thread to read its array once. numpy lets go of the interpreter's lock meanwhile."""
    started = time.monotonic()
    for _ in pool.map(np.max, arrays):
        pass
    return time.monotonic() - started


KIND = Kind("machine", MachineExtra, measure)

if __name__ == "__main__":
    sys.exit(main(KIND))
