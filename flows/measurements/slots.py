"""Whether the slots were really filled: evidence kept with every figure, and the reasons for which a record is invalid."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from storage.records import Occupancy, RoundSample, Spec

if TYPE_CHECKING:
    from engine import Stats

LEAST_FILL = 0.8  # of the decode steps that full slots would need; the rest is joining and leaving


def occupancy_between(before: "Stats", after: "Stats") -> Occupancy:
    """What happened since `before`, which was taken right after reset_peaks()."""
    return Occupancy(
        peak_running=after.peak_running,
        peak_waiting=after.peak_waiting,
        steps=after.steps - before.steps,
        rows_per_step={str(rows): count for rows, count in sorted(after.rows_per_step.items()) if count},
        prefill_s=max(after.prefill_seconds - before.prefill_seconds, 0.0),
        decode_s=max(after.decode_seconds - before.decode_seconds, 0.0),
    )


def merge(rounds: Sequence[Occupancy]) -> Occupancy:
    """Of several rounds: the highest peaks, the sums of all else."""
    rows: Counter[str] = Counter()
    for one in rounds:
        rows.update(one.rows_per_step)
    return Occupancy(
        peak_running=max(o.peak_running for o in rounds),
        peak_waiting=max(o.peak_waiting for o in rounds),
        steps=sum(o.steps for o in rounds),
        rows_per_step=dict(sorted(rows.items(), key=lambda item: int(item[0]))),
        prefill_s=sum(o.prefill_s for o in rounds),
        decode_s=sum(o.decode_s for o in rounds),
    )


def running_limit(spec: Spec) -> int:
    """Requests that should run at once: one in serial mode, else the level or the slots, whichever is less."""
    return 1 if spec.mode == "serial" else min(spec.level, spec.slots)


def decode_steps(occupancy: Occupancy) -> int:
    """Decode steps, whatever their width."""
    return sum(occupancy.rows_per_step.values())


def slot_fill(spec: Spec, occupancy: Occupancy) -> float | None:
    """Decode steps that full slots would have needed in the kept rounds, over the steps taken; None without decode steps."""
    turns = -(-spec.level // running_limit(spec))
    needed = turns * (spec.new_tokens - 1) * spec.runs  # prefill gives a request its first token
    taken = decode_steps(occupancy)
    return needed / taken if needed and taken else None


def occupancy_faults(spec: Spec, occupancy: Occupancy) -> list[str]:
    """Reasons for which the occupancy makes a record invalid."""
    faults = []
    limit = running_limit(spec)
    if occupancy.peak_running != limit:
        faults.append(
            f"occupancy: peak running {occupancy.peak_running}, must be {limit} (level {spec.level}, slots {spec.slots})"
        )
    fill = slot_fill(spec, occupancy)
    if spec.new_tokens > 1 and fill is None:
        faults.append("occupancy: no decode step was counted")
    if fill is not None and fill < LEAST_FILL:
        rows = ", ".join(f"{rows} rows x{count}" for rows, count in occupancy.rows_per_step.items())
        faults.append(f"occupancy: slots filled {fill:.2f} of the time, must be {LEAST_FILL} at least (decode steps: {rows})")
    return faults


def token_faults(spec: Spec, rounds: list[RoundSample]) -> list[str]:
    """Reasons for which the kept rounds are not what was asked for: rounds, requests, tokens."""
    kept = [r for r in rounds if not r.warmup]
    faults = []
    if len(kept) != spec.runs:
        faults.append(f"rounds: {len(kept)} kept, {spec.runs} asked for")
    for round_sample in kept:
        if len(round_sample.requests) != spec.level:
            faults.append(f"round {round_sample.index}: {len(round_sample.requests)} requests, {spec.level} asked for")
        found = [sum(q.prompt_tokens for q in round_sample.requests), sum(q.output_tokens for q in round_sample.requests)]
        asked = [spec.level * spec.prompt_tokens, spec.level * spec.new_tokens]
        if found != asked:
            faults.append(
                f"round {round_sample.index}: prompt and output tokens {found[0]} + {found[1]}, asked for {asked[0]} + {asked[1]}"
            )
    return faults
