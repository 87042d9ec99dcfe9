"""A night in one exit code and one line."""

from dataclasses import replace

import pytest

from flows.verdicts.judge import PairSample, Status, Verdict, judge
from flows.verdicts.overall import overall
from flows.verdicts.targets import Target


def verdict(status: Status, name: str = "2 concurrent") -> Verdict:
    target = Target(name, "speedup_vs_serial", 2, ">=", 1.7, "x")
    return Verdict(target, status, 1.8, 1.7, 1.9, 0.02, 5, f"Because of {status}.")


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["PASS", "PASS"], 0),
        (["PASS", "FAIL"], 1),
        (["PASS", "INCONCLUSIVE"], 3),
        (["INCONCLUSIVE", "FAIL"], 1),
        (["FAIL", "ERROR"], 2),
        (["PASS", "ERROR"], 2),
        ([], 2),
    ],
)
def test_the_worst_decides(statuses: list[Status], code: int) -> None:
    found = overall([verdict(status) for status in statuses])
    assert found.exit_code == code
    assert "\n" not in found.headline
    assert found.headline.startswith({0: "PASS", 1: "FAIL", 2: "ERROR", 3: "INCONCLUSIVE"}[code])


def test_the_headline_counts_and_names() -> None:
    line = overall([verdict("PASS"), verdict("FAIL", "8 concurrent")]).headline
    assert line == "FAIL: 1 of 2 targets pass, 1 fail. 8 concurrent: Because of FAIL."


def test_a_waived_fail_counts_as_seen_only() -> None:
    waived = replace(verdict("FAIL"), waived="until 2030-01-01: known")
    found = overall([verdict("PASS"), waived])
    assert found.exit_code == 0
    assert "waived: 2 concurrent (until 2030-01-01: known)" in found.headline
    alone = overall([waived])
    assert alone.exit_code == 0
    assert alone.headline.startswith("WAIVED: 0 of 1 targets pass, 1 fail")


def test_a_waiver_does_not_cover_an_error() -> None:
    assert overall([replace(verdict("ERROR"), waived="until 2030-01-01: known")]).exit_code == 2


def test_flags_reach_the_exit_message() -> None:
    found = overall([verdict("PASS").with_flag("the serial leg is slower.")])
    assert found.exit_code == 0
    assert "beware: 2 concurrent: the serial leg is slower." in found.headline


def test_all_failed_requests_leave_with_a_non_zero_code() -> None:  # case 20
    target = Target("2 concurrent", "speedup_vs_serial", 2, ">=", 1.7, "x")
    broken = [PairSample(0, None, None, valid=False, reason="every request of the serial leg failed", broken=True)]
    assert overall([judge(target, broken)]).exit_code == 2
