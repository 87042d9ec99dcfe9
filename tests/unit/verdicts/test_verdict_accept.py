"""Baselines and waivers, which a person decided."""

from datetime import date

import pytest

from flows.verdicts.accept import Acceptance, PastNight, Waiver, apply_waivers, find_baseline
from flows.verdicts.judge import PairSample, Status, judge
from flows.verdicts.targets import Target

TARGET = Target("8 concurrent", "speedup_vs_serial", 8, ">=", 4.5, "x")
NAME = TARGET.name


def past(commit: str, position: int | None, status: Status, *values: float, binary: str = "") -> PastNight:
    return PastNight(commit, position, NAME, status, values or (4.6, 4.7), binary)


HISTORY = [past("a", 1, "PASS"), past("b", 2, "PASS", 4.8, 4.9), past("c", 3, "FAIL", 4.1, 4.2), past("d", 4, "INCONCLUSIVE")]


def test_the_last_commit_that_passed() -> None:
    found = find_baseline(NAME, HISTORY, [])
    assert found is not None
    assert (found.commit, found.why, found.summary.count) == ("b", "passed", 2)
    assert found.summary.value == pytest.approx(4.85, rel=1e-3)


def test_topological_order_counts_not_the_order_of_nights() -> None:
    assert find_baseline(NAME, list(reversed(HISTORY)), []) == find_baseline(NAME, HISTORY, [])


def test_an_accepted_loss_is_the_new_baseline() -> None:
    found = find_baseline(NAME, HISTORY, [Acceptance("c", "exact sums cost 10 %")])
    assert found is not None
    assert (found.commit, found.why) == ("c", "accepted: exact sums cost 10 %")
    other = find_baseline(NAME, HISTORY, [Acceptance("c", "only for latency", target="single-request latency")])
    assert other is not None
    assert other.commit == "b"


def test_before_a_commit_and_no_baseline_at_all() -> None:
    found = find_baseline(NAME, HISTORY, [], before=2)
    assert found is not None
    assert found.commit == "a"
    assert find_baseline(NAME, HISTORY, [], before=1) is None
    assert find_baseline("another", HISTORY, []) is None
    assert find_baseline(NAME, [], []) is None


def test_a_commit_without_a_place_is_no_baseline() -> None:  # case 32
    found = find_baseline(NAME, [*HISTORY, past("dirty", None, "PASS", 9.0, 9.0)], [])
    assert found is not None
    assert found.commit == "b"


def test_nights_on_one_binary_add_up() -> None:
    history = [
        past("a", 1, "PASS", 4.6, 4.7, binary="x"),
        past("b", 2, "PASS", 4.8, binary="x"),
        past("b", 2, "FAIL", 4.4, binary="x"),
    ]
    found = find_baseline(NAME, history, [])
    assert found is not None
    assert (found.commit, found.nights, found.summary.count) == ("b", 3, 4)


def test_a_waiver_lasts_until_its_date() -> None:
    failed = judge(TARGET, [PairSample(n, 1.0, 4.0) for n in range(5)])
    waiver = Waiver(NAME, date(2030, 1, 31), "the new kernel lands in January")
    (on_the_day,) = apply_waivers([failed], [waiver], date(2030, 1, 31))
    assert on_the_day.waived == "until 2030-01-31: the new kernel lands in January"
    assert on_the_day.status == "FAIL"
    (after,) = apply_waivers([failed], [waiver], date(2030, 2, 1))
    assert after.waived == ""
    assert "waiver ended on 2030-01-31" in after.flags[0]


def test_a_waiver_covers_its_own_fail_only() -> None:
    waiver = Waiver("2 concurrent", date(2030, 1, 31), "known")
    failed = judge(TARGET, [PairSample(n, 1.0, 4.0) for n in range(5)])
    error = judge(TARGET, [PairSample(0, 1.0, None)])
    assert apply_waivers([failed], [waiver], date(2030, 1, 1)) == [failed]
    assert apply_waivers([error], [Waiver(NAME, date(2030, 1, 31), "known")], date(2030, 1, 1)) == [error]


@pytest.mark.parametrize("because", ["", "  "])
def test_a_reason_is_needed(because: str) -> None:
    with pytest.raises(ValueError, match="because"):
        Acceptance("c", because)
    with pytest.raises(ValueError, match="because"):
        Waiver(NAME, date(2030, 1, 1), because)
