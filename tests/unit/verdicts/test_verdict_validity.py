"""Validity before statistics, and the series that nothing crosses."""

from dataclasses import replace

import pytest

from flows.verdicts.judge import PairSample, judge
from flows.verdicts.series import Series, SeriesError, cannot_differ, only_series, same_binary
from flows.verdicts.targets import Target
from flows.verdicts.validity import LegFacts, Limits, check_pair

SERIAL = LegFacts("serial", 8, 8, "ok", 40, 40, 1280, peak_running=1)
BATCH = LegFacts("batch", 8, 8, "ok", 40, 40, 1280, peak_running=8)
TARGET = Target("8 concurrent", "speedup_vs_serial", 8, ">=", 4.5, "x")


def test_a_good_pair() -> None:
    found = check_pair(SERIAL, BATCH)
    assert (found.valid, found.broken, found.reason) == (True, False, "")


@pytest.mark.parametrize(
    ("serial", "batch", "words"),
    [
        (SERIAL, replace(BATCH, output_tokens=1279), "token totals differ: serial 1280, batch 1279"),  # case 21
        (None, BATCH, "the serial leg has no record"),
        (SERIAL, None, "the batch leg has no record"),
        (SERIAL, replace(BATCH, requests_completed=0, output_tokens=0), "every request of the batch leg failed"),  # case 20
        (SERIAL, replace(BATCH, requests_completed=39), "completed 39 of 40"),
        (replace(SERIAL, status="timeout"), BATCH, "the serial leg ended 'timeout'"),
        (replace(SERIAL, output_tokens=0), replace(BATCH, output_tokens=0), "generated no token"),
        (SERIAL, replace(BATCH, parity_held=False), "tokens differ from the reference's"),
    ],
)
def test_broken_pairs_end_in_error(serial: LegFacts | None, batch: LegFacts | None, words: str) -> None:
    found = check_pair(serial, batch)
    assert not found.valid
    assert found.broken
    assert words in found.reason
    good = [PairSample(n, 1.0, 5.0) for n in range(5)]
    sample = PairSample(5, 1.0, 5.0, found.valid, found.reason, found.broken)
    verdict = judge(TARGET, [*good, sample])
    assert verdict.status == "ERROR"
    assert words in verdict.reason


@pytest.mark.parametrize(
    ("serial", "batch", "words"),
    [
        (SERIAL, replace(BATCH, throttled=True), "throttled during the batch leg"),
        (replace(SERIAL, foreign_load=1.2), BATCH, "foreign load 1.20 before the serial leg, above 0.5"),
        (SERIAL, replace(BATCH, peak_running=7), "slots of the batch leg not filled: 7 of 8"),
        (replace(SERIAL, peak_running=2), BATCH, "the serial leg ran 2 requests at once in serial mode"),
        (
            replace(SERIAL, clock_mhz=3000.0),
            replace(BATCH, clock_mhz=2500.0),
            "the clock moved between the legs: 3000 MHz serial",
        ),
    ],
)
def test_disturbed_pairs_are_set_aside_with_why(serial: LegFacts, batch: LegFacts, words: str) -> None:
    found = check_pair(serial, batch)
    assert not found.valid
    assert not found.broken
    assert words in found.reason
    good = [PairSample(n, 1.0, 5.0) for n in range(5)]
    verdict = judge(TARGET, [*good, PairSample(5, 1.0, 1.0, found.valid, found.reason, found.broken)])
    assert verdict.status == "PASS"
    assert words in verdict.excluded[0]


def test_fewer_slots_than_requests_are_full_when_the_slots_are() -> None:
    assert check_pair(SERIAL, replace(BATCH, slots=4, peak_running=4)).valid


def test_what_the_machine_cannot_say_is_not_held_against_it() -> None:
    assert check_pair(replace(SERIAL, peak_running=None), replace(BATCH, peak_running=None, clock_mhz=2500.0)).valid


def test_limits_are_the_callers() -> None:
    loaded = replace(SERIAL, foreign_load=1.2)
    assert check_pair(loaded, BATCH, Limits(foreign_load=2.0)).valid


def test_every_objection_is_named() -> None:
    found = check_pair(replace(SERIAL, foreign_load=3.0), replace(BATCH, throttled=True, output_tokens=7))
    assert found.broken
    assert found.reason.count(";") == 2


def test_two_machines_are_two_series() -> None:  # case 23
    here, there = Series("cpu-a", "ckpt", "seed"), Series("cpu-b", "ckpt", "seed")
    assert here.key != there.key
    assert only_series([here, here]) == here
    with pytest.raises(SeriesError, match=r"fingerprint is 'cpu-a' in .* and 'cpu-b'"):
        only_series([here, there])
    with pytest.raises(SeriesError, match="checkpoint_digest"):
        only_series([here, replace(here, checkpoint_digest="other")])
    with pytest.raises(SeriesError, match="no measurement"):
        only_series([])


def test_one_binary_cannot_differ_from_itself() -> None:
    assert same_binary("ab12", "ab12")
    assert not same_binary("ab12", "cd34")
    assert not same_binary("", "")
    target = Target("no worse", "request_throughput", 8, ">=", 1.0, "x")
    slow = judge(target, [PairSample(n, 1.0, 0.9) for n in range(5)])
    assert slow.status == "FAIL"
    verdict = cannot_differ(slow)
    assert verdict.status == "INCONCLUSIVE"
    assert "one binary and cannot differ" in verdict.reason
    equal = cannot_differ(judge(target, [PairSample(n, 1.0, 1.0) for n in range(5)]))
    assert equal.status == "PASS"
    assert equal.flags
