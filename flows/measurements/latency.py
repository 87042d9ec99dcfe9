"""Latency of a lone request: one at a time, `runs` rounds. `python -P -m flows.measurements.latency request.json result.json`."""

import sys

from flows.measurements import closed_loop
from flows.measurements.bench import Bench
from flows.measurements.program import Kind, main
from flows.measurements.request import EngineExtra, RequestError


def measure(bench: Bench[EngineExtra]) -> None:
    """Rounds of one request each. Raises RequestError at another level."""
    if bench.spec.level != 1:
        raise RequestError(
            f"request: field spec.level: found {bench.spec.level}: latency measures level 1; use kind 'throughput'"
        )
    closed_loop.measure(bench)


KIND = Kind("latency", EngineExtra, measure)

if __name__ == "__main__":
    sys.exit(main(KIND))
