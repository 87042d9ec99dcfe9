"""What latency and throughput share: warm-up, kept rounds, the evidence that they are what was asked for, a summary."""

from typing import TYPE_CHECKING

from flows.measurements import slots
from flows.measurements.bench import Bench, say
from flows.measurements.request import EngineExtra
from flows.measurements.telemetry import StolenTime, stolen_faults
from storage.records import Occupancy

if TYPE_CHECKING:
    from engine import Session


def measure(bench: Bench[EngineExtra]) -> None:
    """Fill the record with rounds, occupancy and the figures of a decode step; state what makes them invalid."""
    bench.turns.take()  # not before then is the checkpoint loaded: that would disturb the partner's warm-up
    with bench.session() as session:
        bench.warm_up(session)
        bench.turns.hand_over()
        bench.turns.take()
        before = StolenTime.now()
        occupancy = slots.merge(bench.kept_rounds(session))
        bench.values |= StolenTime.now().since(before)
        bench.turns.finish()
        bench.values |= step_figures(bench, session, occupancy)
    if bench.turns.place is not None:
        bench.values["turns_waited_s"] = bench.turns.waited_s
    faults = slots.token_faults(bench.spec, bench.rounds) + slots.occupancy_faults(bench.spec, occupancy)
    faults += [f"turns: {bench.turns.left_alone}"] if bench.turns.left_alone else []
    bench.invalid(faults + stolen_faults(bench.values))
    summarise(bench)


def step_figures(bench: Bench[EngineExtra], session: "Session", occupancy: Occupancy) -> dict[str, float]:
    """Seconds of a mean decode step, bytes a full one must read in the middle of a generation, and how full the slots were."""
    spec = bench.spec
    figures: dict[str, float] = {}
    fill = slots.slot_fill(spec, occupancy)
    if fill is not None:
        middle = spec.prompt_tokens + spec.new_tokens // 2
        figures["slot_fill_fraction"] = fill
        figures["decode_step_s"] = occupancy.decode_s / slots.decode_steps(occupancy)
        figures["decode_step_bytes"] = float(session.step_bytes(slots.running_limit(spec), middle))
    return figures


def summarise(bench: Bench[EngineExtra]) -> None:
    """Say in the log what was found."""
    kept = [r for r in bench.rounds if not r.warmup]
    requests = [q for r in kept for q in r.requests]
    wall = sum(r.wall_s for r in kept)
    tokens = sum(q.output_tokens for q in requests)
    firsts = [q.ttft_s for q in requests if q.ttft_s is not None]
    say(f"wall per round       {wall / len(kept):.4f} s")
    say(f"mean request latency {sum(q.e2el_s for q in requests) / len(requests):.4f} s")
    if firsts:
        say(f"mean time to first   {sum(firsts) / len(firsts):.4f} s")
    say(f"throughput           {len(requests) / wall:.3f} req/s, {tokens / wall:.1f} tok/s")
