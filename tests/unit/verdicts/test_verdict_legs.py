"""Which leg moved, and the canary that can withhold a FAIL."""

import numpy as np
import pytest

from flows.verdicts.canary import read_canary, withhold
from flows.verdicts.judge import PairSample, Verdict, judge
from flows.verdicts.legs import LegSplit, LegState, flag_legs, split_change
from flows.verdicts.overall import overall
from flows.verdicts.targets import Target

SPEEDUP = Target("2 concurrent", "speedup_vs_serial", 2, ">=", 1.7, "x")
LATENCY = Target("single-request latency", "single_latency_ratio", 1, "<=", 1.05, "x")


def night(serial: float, batch: float, seed: int, count: int = 10, cv: float = 0.005) -> list[PairSample]:
    scatter = np.exp(np.random.default_rng(seed).normal(0, cv, (count, 2)))
    return [PairSample(n, serial * float(a), batch * float(b)) for n, (a, b) in enumerate(scatter)]


def judged(target: Target, serial: float, batch: float, accepted: tuple[float, float]) -> tuple[Verdict, LegSplit]:
    samples, before = night(serial, batch, 1), LegState.of(night(*accepted, 2))
    now = LegState.of(samples)
    assert before is not None
    assert now is not None
    split = split_change(now, before, target.direction)
    assert split is not None
    return flag_legs(judge(target, samples), split, before), split


def test_only_the_serial_leg_slows() -> None:  # case 17
    verdict, split = judged(SPEEDUP, serial=0.9, batch=1.65, accepted=(1.0, 1.65))
    assert verdict.status == "PASS"
    assert (split.serial.movement, split.batch.movement) == ("slower", "unmoved")
    assert split.ratio.low > 1
    (flag,) = verdict.flags
    assert "passes on a slower serial leg, not a faster batch" in flag
    assert "against the accepted serial leg the ratio would be 1.6" in flag
    assert "short of 1.7x" in flag
    assert "slower serial leg" in overall([verdict]).headline


def test_only_the_serial_leg_slows_in_seconds() -> None:
    verdict, split = judged(LATENCY, serial=1.2, batch=1.1, accepted=(1.0, 1.1))
    assert verdict.status == "PASS"
    assert split.serial.movement == "slower"
    assert "would be 1.099x" in verdict.flags[0]
    assert "short of 1.05x" in verdict.flags[0]


def test_a_faster_batch_leg_is_no_blame() -> None:
    verdict, split = judged(SPEEDUP, serial=1.0, batch=1.9, accepted=(1.0, 1.65))
    assert split.batch.movement == "faster"
    assert verdict.flags == ()


def test_a_slower_batch_leg_is_named_even_where_the_target_passes() -> None:
    verdict, split = judged(SPEEDUP, serial=1.0, batch=1.84, accepted=(1.0, 1.9))
    assert verdict.status == "PASS"
    assert split.batch.movement == "slower"
    assert "the batch leg is slower" in verdict.flags[0]


def test_both_legs_slower_cannot_hide_behind_the_ratio() -> None:
    verdict, split = judged(SPEEDUP, serial=0.9, batch=1.71, accepted=(1.0, 1.9))
    assert verdict.status == "PASS"
    assert split.ratio.low < 1 < split.ratio.high
    assert "both legs are slower, which a ratio cannot show" in verdict.flags[0]


def test_a_movement_within_the_noise_floor_is_none() -> None:
    now, before = LegState.of(night(0.98, 1.9, 1)), LegState.of(night(1.0, 1.9, 2))
    assert now is not None
    assert before is not None
    assert split_change(now, before, ">=").serial.movement == "slower"  # type: ignore[union-attr]
    assert split_change(now, before, ">=", floor=0.03).serial.movement == "unmoved"  # type: ignore[union-attr]


def test_the_legs_make_the_ratio() -> None:
    _, split = judged(SPEEDUP, serial=0.9, batch=1.8, accepted=(1.0, 1.9))
    assert split.ratio.value == pytest.approx(split.batch.factor.value / split.serial.factor.value)
    assert "serial" in split.describe()
    assert "slower" in split.describe()


def test_single_pairs_and_no_pairs_have_no_split() -> None:
    one, many = LegState.of(night(1.0, 1.9, 1, count=1)), LegState.of(night(1.0, 1.9, 1))
    assert one is not None
    assert many is not None
    assert split_change(one, many, ">=") is None
    assert LegState.of([PairSample(0, None, 1.0), PairSample(1, 1.0, 2.0, valid=False)]) is None
    verdict = judge(SPEEDUP, night(1.0, 1.9, 1))
    assert flag_legs(verdict, None, many) == verdict


def test_a_still_canary_gives_the_floor() -> None:
    canary = read_canary({"2": night(1.0, 1.0, 3), "8": night(1.0, 1.0, 4)})
    assert not canary.moved
    assert canary.floor is not None
    assert 0.001 < canary.floor < 0.02
    assert "noise floor" in canary.reason
    verdict = judge(SPEEDUP, night(1.0, 1.0, 1))
    assert withhold([verdict], canary) == [verdict]


def test_a_moving_canary_withholds_fail_and_flags_pass() -> None:
    canary = read_canary({"2": night(1.0, 1.0, 3), "8": night(1.0, 1.05, 4)})
    assert canary.moved
    assert "on 8" in canary.reason
    failed, passed = withhold([judge(SPEEDUP, night(1.0, 1.6, 1)), judge(SPEEDUP, night(1.0, 1.9, 1))], canary)
    assert failed.status == "INCONCLUSIVE"
    assert failed.reason.startswith("FAIL withheld")
    assert "against itself moved by +" in failed.reason
    assert passed.status == "PASS"
    assert passed.flags == (canary.reason,)


def test_a_canary_without_pairs_has_no_floor_and_withholds_nothing() -> None:
    canary = read_canary({"2": night(1.0, 1.0, 3, count=1), "4": []})
    assert canary.floor is None
    assert not canary.moved
    partly = read_canary({"2": night(1.0, 1.0, 3), "4": []})
    assert "no reading of 4" in partly.reason


def test_canaries_move_by_chance_on_few_nights() -> None:
    moved = [read_canary({str(k): night(1.0, 1.0, 10 * seed + k, count=5) for k in range(4)}).moved for seed in range(400)]
    assert sum(moved) / 400 <= 0.06


def test_a_slower_serial_leg_that_decides_nothing_is_flagged_all_the_same() -> None:
    verdict, _ = judged(SPEEDUP, serial=0.97, batch=1.9, accepted=(1.0, 1.9))
    assert verdict.status == "PASS"
    assert "the serial leg is slower, which flatters this PASS" in verdict.flags[0]
    assert "short of" not in verdict.flags[0]
