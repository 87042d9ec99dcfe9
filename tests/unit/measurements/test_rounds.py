"""Samples from the engine's timestamps, and the occupancy's verdict on them. The engine's own types, no engine."""

import dataclasses
import gc
import hashlib
import struct
from typing import Any

import pytest

from engine.handle import Generation
from engine.session import Stats
from flows.measurements import slots
from flows.measurements.rounds import quiet_collector, sample_round, tokens_digest
from storage.records import Occupancy, RoundSample, Spec


def generation(submitted: float, admitted: float | None, times: tuple[float, ...], reason: str = "length") -> Generation:
    finished = times[-1] if times else submitted + 9
    return Generation(tuple(range(len(times))), reason, submitted, admitted, finished, times)


def spec(**overrides: Any) -> Spec:
    fields: dict[str, Any] = {
        "kind": "throughput",
        "workload": "report",
        "mode": "batch",
        "level": 2,
        "tp": 1,
        "slots": 8,
        "context": 64,
        "prompt_tokens": 4,
        "new_tokens": 3,
        "warmup": 0,
        "runs": 1,
        "seed": 0,
        "checkpoint": "synthetic:tiny",
    }
    return Spec(**(fields | overrides))


def test_a_round_from_its_timestamps() -> None:
    """Serial: the second request was sent 0.5 s later than the first and waited for its turn, which is inside its figures."""
    sample = sample_round(
        [generation(10.0, 10.0, (11.0, 11.5, 12.5)), generation(10.5, 12.5, (13.0, 14.0))],
        [(1, 2, 3), (4,)],
        index=3,
        warmup=False,
    )
    first, second = sample.requests
    assert sample.wall_s == 4.0
    assert (first.e2el_s, first.ttft_s, first.queue_s, first.itl_s) == (2.5, 1.0, 0.0, [0.5, 1.0])
    assert (second.e2el_s, second.ttft_s, second.queue_s, second.itl_s) == (3.5, 2.5, 2.0, [1.0])
    assert (first.prompt_tokens, second.prompt_tokens) == (3, 1)
    assert (first.output_tokens, second.output_tokens) == (3, 2)
    assert (sample.index, sample.warmup, [q.index for q in sample.requests]) == (3, False, [0, 1])


def test_no_token_means_no_boundary_never_zero() -> None:
    sample = sample_round([generation(1.0, None, (), "stop")], [(1,)], index=0, warmup=True)
    assert sample.requests[0].ttft_s is None
    assert sample.requests[0].queue_s is None
    assert sample.requests[0].e2el_s == 9.0


def test_the_digest_of_tokens_is_their_little_endian_int64() -> None:
    assert tokens_digest((1, 250_000)) == hashlib.sha256(struct.pack("<qq", 1, 250_000)).hexdigest()
    assert tokens_digest(()) == hashlib.sha256(b"").hexdigest()


def test_the_collector_is_quiet_inside_only() -> None:
    with quiet_collector():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def stats(**overrides: Any) -> Stats:
    counters = {field.name: 0 for field in dataclasses.fields(Stats)}
    fields: dict[str, Any] = {**counters, "rows_per_step": {}, "prefill_seconds": 0.0, "decode_seconds": 0.0}
    return Stats(**(fields | overrides))


def test_occupancy_is_what_happened_in_between() -> None:
    before = stats(steps=10, prefill_seconds=1.0, decode_seconds=2.0)
    after = stats(steps=45, peak_running=8, peak_waiting=7, rows_per_step={8: 30, 1: 4}, prefill_seconds=1.25, decode_seconds=4.0)
    assert slots.occupancy_between(before, after) == Occupancy(
        peak_running=8, peak_waiting=7, steps=35, rows_per_step={"1": 4, "8": 30}, prefill_s=0.25, decode_s=2.0
    )


def test_merged_occupancy() -> None:
    one = Occupancy(peak_running=8, peak_waiting=1, steps=9, rows_per_step={"8": 8}, prefill_s=0.5, decode_s=1)
    two = Occupancy(peak_running=7, peak_waiting=3, steps=9, rows_per_step={"10": 1, "8": 7}, prefill_s=0.25, decode_s=2)
    assert slots.merge([one, two]) == Occupancy(
        peak_running=8, peak_waiting=3, steps=18, rows_per_step={"8": 15, "10": 1}, prefill_s=0.75, decode_s=3
    )


def occupancy(peak: int, **rows: int) -> Occupancy:
    histogram = {name.removeprefix("r"): count for name, count in rows.items()}
    return Occupancy(peak_running=peak, peak_waiting=0, steps=1, rows_per_step=histogram, prefill_s=0, decode_s=1)


@pytest.mark.parametrize(
    ("asked", "seen", "fill"),
    [
        ({"level": 8, "new_tokens": 32}, occupancy(8, r8=31), 1.0),
        ({"level": 8, "new_tokens": 32, "runs": 2}, occupancy(8, r8=60, r1=2, r7=2), 62 / 64),
        ({"level": 12, "slots": 8, "new_tokens": 32}, occupancy(8, r8=31, r4=31), 1.0),
        ({"level": 8, "mode": "serial", "new_tokens": 32}, occupancy(1, r1=248), 1.0),
        ({"level": 1, "new_tokens": 32}, occupancy(1, r1=31), 1.0),
    ],
)
def test_filled_slots_are_valid(asked: dict[str, Any], seen: Occupancy, fill: float) -> None:
    assert slots.slot_fill(spec(**asked), seen) == pytest.approx(fill)
    assert slots.occupancy_faults(spec(**asked), seen) == []


@pytest.mark.parametrize(
    ("asked", "seen", "says"),
    [
        ({"level": 8, "new_tokens": 32}, occupancy(1, r1=248), "peak running 1, must be 8 (level 8, slots 8)"),
        ({"level": 8, "new_tokens": 32}, occupancy(8, r4=61, r8=1), "slots filled 0.50 of the time, must be 0.8 at least"),
        ({"level": 8, "mode": "serial"}, occupancy(8, r8=2), "peak running 8, must be 1"),
        ({"level": 2, "new_tokens": 32}, occupancy(2), "no decode step was counted"),
    ],
)
def test_slots_that_were_not_filled_make_it_invalid(asked: dict[str, Any], seen: Occupancy, says: str) -> None:
    assert says in "; ".join(slots.occupancy_faults(spec(**asked), seen))


def test_one_new_token_has_no_decode_steps_and_is_valid() -> None:
    assert slots.occupancy_faults(spec(level=2, new_tokens=1), occupancy(2)) == []


def rounds_of(*requests: tuple[int, int]) -> list[RoundSample]:
    generations = [generation(0.0, 0.0, tuple(1.0 + i for i in range(output))) for _, output in requests]
    return [sample_round(generations, [(0,) * prompt for prompt, _ in requests], index=0, warmup=False)]


def test_token_totals_as_asked() -> None:
    assert slots.token_faults(spec(), rounds_of((4, 3), (4, 3))) == []


@pytest.mark.parametrize(
    ("rounds", "says"),
    [
        (rounds_of((4, 3), (4, 2)), "round 0: prompt and output tokens 8 + 5, asked for 8 + 6"),
        (rounds_of((4, 3), (3, 3)), "round 0: prompt and output tokens 7 + 6, asked for 8 + 6"),
        (rounds_of((8, 6)), "round 0: 1 requests, 2 asked for"),
        ([], "rounds: 0 kept, 1 asked for"),
    ],
)
def test_wrong_totals_make_it_invalid(rounds: list[RoundSample], says: str) -> None:
    assert slots.token_faults(spec(), rounds) == [says]
