"""What a loaded engine costs while it has nothing to do: CPU seconds of this process over a window.

    python -P -m flows.measurements.idle request.json result.json

The window begins after the rounds of the spec, so that whatever parks has had work first. The process does nothing else in it.
"""

import resource
import sys
import time

from pydantic import Field

from flows.measurements.bench import Bench, say
from flows.measurements.program import Kind, main
from flows.measurements.request import EngineExtra


class IdleExtra(EngineExtra):
    """Options of idle."""

    window_s: float = Field(default=10.0, gt=0, le=3600)
    settle_s: float = Field(default=0.5, ge=0, le=3600)  # between the last round and the window


def measure(bench: Bench[IdleExtra]) -> None:
    """Rounds, then the window; `idle_cpu_fraction` is of one core."""
    extra = bench.extra
    with bench.session() as session:
        bench.warm_up(session)
        bench.kept_rounds(session)
        steps = session.stats().steps
        time.sleep(extra.settle_s)
        wall, cpu, switches = time.monotonic(), time.process_time(), _switches()
        time.sleep(extra.window_s)
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        switches = _switches() - switches
        stepped = session.stats().steps - steps
    bench.values |= {
        "idle_cpu_s": cpu,
        "idle_window_s": wall,
        "idle_cpu_fraction": cpu / wall,
        "idle_context_switches_per_s": switches / wall,
    }
    if stepped:
        bench.invalid([f"idle: the engine took {stepped} steps in the window, with no request"])
    say(f"idle: {cpu:.6f} s of CPU in {wall:.2f} s, {100 * cpu / wall:.4f} % of a core, {switches} context switches")


def _switches() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw + usage.ru_nivcsw


KIND = Kind("idle", IdleExtra, measure)

if __name__ == "__main__":
    sys.exit(main(KIND))
