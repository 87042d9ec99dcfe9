"""The truth table of one verdict, and what holds for every sample."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.verdicts.intervals import Summary
from flows.verdicts.judge import POINT, PairSample, judge
from flows.verdicts.targets import Target

SPEEDUP = Target("2 concurrent", "speedup_vs_serial", 2, ">=", 1.7, "x")
LATENCY = Target("single-request latency", "single_latency_ratio", 1, "<=", 1.05, "x")
positive = st.floats(0.05, 50.0)
samples_of = st.lists(st.tuples(positive, positive), min_size=2, max_size=12)


def as_pairs(values: list[tuple[float, float]]) -> list[PairSample]:
    return [PairSample(number, serial, batch) for number, (serial, batch) in enumerate(values)]


@pytest.mark.parametrize(
    ("target", "ratios", "status"),
    [
        (SPEEDUP, [1.90, 1.88, 1.91, 1.89, 1.90], "PASS"),
        (SPEEDUP, [1.00, 1.01, 0.99, 1.00, 1.01], "FAIL"),
        (SPEEDUP, [1.60, 1.85, 1.70, 1.75, 1.65], "INCONCLUSIVE"),
        (LATENCY, [1.00, 1.01, 1.00, 1.01, 1.00], "PASS"),
        (LATENCY, [1.17, 1.16, 1.18, 1.17, 1.17], "FAIL"),
        (LATENCY, [1.00, 1.10, 1.04, 1.06, 1.05], "INCONCLUSIVE"),
        (SPEEDUP, [1.7, 1.7, 1.7], "PASS"),  # no scatter, on the bound: it is met
    ],
)
def test_status(target: Target, ratios: list[float], status: str) -> None:
    verdict = judge(target, as_pairs([(1.0, r) for r in ratios]))
    assert verdict.status == status
    assert verdict.pairs == len(ratios)
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.mde is not None
    assert verdict.low <= verdict.ratio <= verdict.high  # type: ignore[operator]
    assert verdict.reason.endswith(".")
    assert verdict.reason.count(". ") == 0


@pytest.mark.parametrize("bad", [None, 0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("leg", ["serial", "batch"])
def test_a_zero_nan_or_missing_leg_is_error(bad: float | None, leg: str) -> None:  # case 19
    good = [PairSample(number, 1.0, 1.9) for number in range(9)]
    spoilt = PairSample(9, bad, 1.9) if leg == "serial" else PairSample(9, 1.0, bad)
    verdict = judge(SPEEDUP, [*good, spoilt])
    assert verdict.status == "ERROR"
    assert f"the {leg} leg of pair 9" in verdict.reason
    assert verdict.low is verdict.high is verdict.ratio is None


def test_every_request_failed_is_error() -> None:  # case 20
    failed = [
        PairSample(n, None, None, valid=False, reason="every request of the batch leg failed", broken=True) for n in range(5)
    ]
    verdict = judge(SPEEDUP, failed)
    assert verdict.status == "ERROR"
    assert "every request of the batch leg failed" in verdict.reason


def test_token_totals_that_differ_are_error_even_beside_good_pairs() -> None:  # case 21
    good = [PairSample(n, 1.0, 1.9) for n in range(5)]
    verdict = judge(
        SPEEDUP, [*good, PairSample(5, 1.0, 2.5, valid=False, reason="token totals differ: serial 64, batch 32", broken=True)]
    )
    assert verdict.status == "ERROR"
    assert "token totals differ" in verdict.reason


def test_nothing_measured_is_error_and_nothing_valid_is_undecided() -> None:
    assert judge(SPEEDUP, []).status == "ERROR"
    disturbed = [PairSample(0, 1.0, 1.9, valid=False, reason="throttled")]
    verdict = judge(SPEEDUP, disturbed)
    assert verdict.status == "INCONCLUSIVE"  # a restless machine is no fault of the build: more pairs may decide it
    assert "none of 1 pairs is valid (pair 0: throttled)" in verdict.reason


def test_a_straddling_ratio_is_inconclusive_not_fail() -> None:  # case 18
    verdict = judge(SPEEDUP, as_pairs([(1.0, r) for r in (1.62, 1.71, 1.66, 1.74, 1.68)]))
    assert verdict.ratio is not None
    assert verdict.ratio < 1.7
    assert verdict.status == "INCONCLUSIVE"
    assert "straddles 1.7x" in verdict.reason


def test_an_interval_of_no_use_is_told_without_its_ends() -> None:
    verdict = judge(SPEEDUP, as_pairs([(1.0, 0.4), (1.0, 6.0)]))
    assert verdict.reason.startswith("The interval (beyond 4x either way) straddles 1.7x")


def test_an_excluded_pair_is_named_and_does_not_count() -> None:  # case 22
    pairs = [*as_pairs([(1.0, r) for r in (1.9, 1.88, 1.91)]), PairSample(3, 1.0, 0.5, valid=False, reason="throttled")]
    verdict = judge(SPEEDUP, pairs)
    assert verdict.status == "PASS"
    assert verdict.pairs == 3
    assert verdict.excluded == ("pair 3: throttled",)


@pytest.mark.parametrize(("ratio", "side"), [(1.9, "on the right side of"), (1.0, "short of")])
def test_one_pair_is_a_point_and_decides_nothing(ratio: float, side: str) -> None:
    verdict = judge(SPEEDUP, [PairSample(0, 1.0, ratio)])
    assert verdict.point
    assert verdict.status == "INCONCLUSIVE"
    assert verdict.ratio == pytest.approx(ratio)
    assert verdict.low is verdict.high is verdict.mde is None
    assert POINT in verdict.reason
    assert side in verdict.reason


def test_the_predecessors_values() -> None:
    """1.002x and 1.00 / 0.99 / 0.99x as the predecessor read them, with a half per cent of scatter."""
    scatter = (-0.004, 0.002, 0.0, 0.005, -0.003)
    bounds = [(LATENCY, 1.002, "PASS"), (SPEEDUP, 1.00, "FAIL")]
    for target, ratio, status in bounds:
        assert judge(target, as_pairs([(1.0, ratio + s) for s in scatter])).status == status


def test_relative_bound_carries_the_baselines_uncertainty() -> None:
    target = Target("no worse", "speedup_vs_serial", 8, ">=", 0.97, "x", relative=True)
    now = as_pairs([(1.0, r) for r in (4.00, 4.04, 3.97, 4.02, 3.99)])
    sharp = Summary.of([4.0, 4.01, 3.99, 4.0, 4.01, 3.99])
    vague = Summary.of([3.0, 5.0, 4.0, 3.2, 4.9, 4.2])
    assert judge(target, now, baseline=sharp).status == "PASS"
    assert judge(target, now, baseline=vague).status == "INCONCLUSIVE"
    slower = as_pairs([(1.0, r) for r in (3.70, 3.72, 3.69, 3.71, 3.70)])
    verdict = judge(target, slower, baseline=sharp)
    assert verdict.status == "FAIL"
    assert verdict.bound == pytest.approx(4.0 * 0.97, rel=1e-3)
    assert "the baseline - 3 %" in verdict.reason


def test_a_relative_bound_without_a_usable_baseline_decides_nothing() -> None:
    target = Target("no worse", "speedup_vs_serial", 8, ">=", 0.97, "x", relative=True)
    now = as_pairs([(1.0, 4.0), (1.0, 4.1)])
    for baseline in (None, Summary.of([4.0])):
        verdict = judge(target, now, baseline=baseline)
        assert verdict.status == "INCONCLUSIVE"
        assert "no accepted baseline" in verdict.reason


def test_a_loss_within_the_bound_is_flagged() -> None:
    target = Target("no worse", "request_throughput", 8, ">=", 0.97, "x", reference=1.0)
    assert (
        judge(target, as_pairs([(1.0, r) for r in (0.985, 0.986, 0.984, 0.985)]))
        .flags[0]
        .startswith("measurably worse than 1x, by 1.5%")
    )
    assert judge(target, as_pairs([(1.0, r) for r in (0.99, 1.01, 1.0, 1.0)])).flags == ()


def test_a_single_leg_is_judged_in_its_own_unit() -> None:
    target = Target("TPOT tail", "tpot_p99_s", 8, "<=", 0.05, "s", leg="batch")
    pairs = [PairSample(n, None, value) for n, value in enumerate((0.041, 0.042, 0.041))]
    verdict = judge(target, pairs)
    assert verdict.status == "PASS"
    assert verdict.ratio == pytest.approx(0.0413, rel=0.01)
    assert "0.05 s" in verdict.reason


def test_scaling_efficiency_is_the_ratio_over_the_level() -> None:
    target = Target("efficiency", "scaling_efficiency", 4, ">=", 0.7, "fraction")
    assert judge(target, as_pairs([(1.0, 3.2), (1.0, 3.22)])).ratio == pytest.approx(0.8025, rel=1e-3)


def test_a_pair_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="pair 1 stands twice"):
        judge(SPEEDUP, [PairSample(1, 1.0, 1.9), PairSample(1, 1.0, 1.8)])


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, math.nan])
def test_a_confidence_out_of_range_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        judge(SPEEDUP, [PairSample(0, 1.0, 1.9)], confidence=confidence)


def test_a_verdict_is_strict_json() -> None:
    row = judge(SPEEDUP, as_pairs([(1.0, 1.9), (1.0, 1.8)])).to_dict()
    assert json.loads(json.dumps(row, allow_nan=False))["target"]["metric"] == "speedup_vs_serial"


@given(samples_of, st.floats(0.1, 10.0), st.floats(1.0, 3.0))
def test_monotone_in_the_bound(values: list[tuple[float, float]], bound: float, harder: float) -> None:
    """A harder bound never turns a verdict towards PASS."""
    rank = {"FAIL": 0, "INCONCLUSIVE": 1, "PASS": 2}
    for direction, metric, level, step in ((">=", "speedup_vs_serial", 2, harder), ("<=", "single_latency_ratio", 1, 1 / harder)):
        easy, hard = (Target("t", metric, level, direction, b, "x") for b in (bound, bound * step))  # type: ignore[arg-type]
        assert rank[judge(hard, as_pairs(values)).status] <= rank[judge(easy, as_pairs(values)).status]


@given(samples_of, st.sampled_from([2.0**k for k in range(-20, 21, 5)]))
def test_invariant_to_the_unit_of_the_legs(values: list[tuple[float, float]], scale: float) -> None:
    """Seconds or milliseconds, the verdict is one (powers of two scale exactly)."""
    assert judge(SPEEDUP, as_pairs(values)) == judge(SPEEDUP, as_pairs([(s * scale, b * scale) for s, b in values]))


@settings(max_examples=60)
@given(samples_of, st.data(), st.sampled_from([None, 0.0, math.nan, math.inf, -2.0]), st.booleans(), st.booleans())
def test_never_pass_with_a_missing_leg(
    values: list[tuple[float, float]], data: st.DataObject, bad: float | None, serial: bool, valid: bool
) -> None:
    pairs = as_pairs(values)
    at = data.draw(st.integers(0, len(pairs) - 1))
    whole = pairs[at]
    pairs[at] = PairSample(at, bad if serial else whole.serial, whole.batch if serial else bad, valid=valid)
    assert judge(SPEEDUP, pairs).status == "ERROR"


@given(samples_of, st.randoms(use_true_random=False))
def test_the_order_of_pairs_does_not_matter(values: list[tuple[float, float]], random: object) -> None:
    pairs = as_pairs(values)
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert judge(SPEEDUP, pairs) == judge(SPEEDUP, shuffled)


@given(samples_of)
def test_swapping_legs_mirrors_the_interval(values: list[tuple[float, float]]) -> None:
    there = judge(SPEEDUP, as_pairs(values))
    back = judge(SPEEDUP, as_pairs([(b, s) for s, b in values]))
    assert there.low == pytest.approx(1 / back.high, rel=1e-9)  # type: ignore[operator]
