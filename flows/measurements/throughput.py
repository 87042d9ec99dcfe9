"""Throughput of N requests sent at once. `python -P -m flows.measurements.throughput request.json result.json`."""

import sys

from flows.measurements import closed_loop
from flows.measurements.bench import Bench
from flows.measurements.program import Kind, main
from flows.measurements.request import EngineExtra, RequestError


def measure(bench: Bench[EngineExtra]) -> None:
    """Rounds of `level` requests each. Raises RequestError below level 2."""
    if bench.spec.level < 2:
        raise RequestError(
            f"request: field spec.level: found {bench.spec.level}: throughput measures level 2 and above; use 'latency'"
        )
    closed_loop.measure(bench)


KIND = Kind("throughput", EngineExtra, measure)

if __name__ == "__main__":
    sys.exit(main(KIND))
