"""How the slots fill: peaks of running and waiting, rows per decode step, round by round.

    python -P -m flows.measurements.occupancy request.json result.json

The figures of a round of `level` requests over `slots` slots. Requests beyond the slots wait, and the record shows it.
"""

import sys

from flows.measurements import slots
from flows.measurements.bench import Bench, say
from flows.measurements.program import Kind, main
from flows.measurements.request import EngineExtra


def measure(bench: Bench[EngineExtra]) -> None:
    """Rounds, each with its own peaks and histogram in details.rounds; the totals in the record's occupancy."""
    spec = bench.spec
    with bench.session() as session:
        bench.warm_up(session)
        each = bench.kept_rounds(session)
    for index, one in enumerate(each, start=spec.warmup):
        say(f"round {index}: peak running {one.peak_running}, waiting {one.peak_waiting}, rows per step {one.rows_per_step}")
    bench.details["rounds"] = [{"round": i, **one.model_dump(mode="json")} for i, one in enumerate(each, start=spec.warmup)]
    occupancy = slots.merge(each)
    rows = sum(int(width) * count for width, count in occupancy.rows_per_step.items())
    steps = slots.decode_steps(occupancy)
    fill = slots.slot_fill(spec, occupancy)
    bench.values |= {
        "peak_running": float(occupancy.peak_running),
        "peak_waiting": float(occupancy.peak_waiting),
        "decode_steps": float(steps),
        "prefill_s": occupancy.prefill_s,
        "decode_s": occupancy.decode_s,
    }
    if fill is not None:
        bench.values |= {"mean_rows_per_decode_step": rows / steps, "slot_fill_fraction": fill}
    bench.invalid(slots.token_faults(spec, bench.rounds) + slots.occupancy_faults(spec, occupancy))


KIND = Kind("occupancy", EngineExtra, measure)

if __name__ == "__main__":
    sys.exit(main(KIND))
