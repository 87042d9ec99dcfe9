"""One arm of a comparison of two builds: the same leg of each, so that what differs is the code.

    python -P -m flows.measurements.comparison request.json result.json

Rounds as latency and throughput have them, at any level. spec.extra: `arm`, base or head.
"""

import sys
from typing import Literal

from flows.measurements import closed_loop
from flows.measurements.bench import Bench
from flows.measurements.program import Kind, main
from flows.measurements.request import EngineExtra


class ComparisonExtra(EngineExtra):
    """Options of a comparison."""

    arm: Literal["base", "head"]


def measure(bench: Bench[ComparisonExtra]) -> None:
    """Warm-up and kept rounds of `level` requests."""
    closed_loop.measure(bench)  # type: ignore[arg-type]  # it reads options of EngineExtra alone


KIND = Kind("comparison", ComparisonExtra, measure)

if __name__ == "__main__":
    sys.exit(main(KIND))
