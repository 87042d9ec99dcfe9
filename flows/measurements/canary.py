"""One arm of the A/A canary: the same build, twice, so that what differs is the machine's noise.

    python -P -m flows.measurements.canary request.json result.json

Rounds as latency and throughput have them, at any level. spec.extra: `arm`, a or b, which is all that sets two of them apart.
"""

import sys
from typing import Literal

from flows.measurements import closed_loop
from flows.measurements.bench import Bench
from flows.measurements.program import Kind, main
from flows.measurements.request import EngineExtra


class CanaryExtra(EngineExtra):
    """Options of the canary."""

    arm: Literal["a", "b"]


def measure(bench: Bench[CanaryExtra]) -> None:
    """Warm-up and kept rounds of `level` requests."""
    closed_loop.measure(bench)  # type: ignore[arg-type]  # it reads options of EngineExtra alone


KIND = Kind("canary", CanaryExtra, measure)

if __name__ == "__main__":
    sys.exit(main(KIND))
