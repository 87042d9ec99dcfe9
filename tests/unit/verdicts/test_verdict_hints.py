"""Hints come from the record, and each leads to a section that exists."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from flows.verdicts.hints import Hint, RecordFacts, hints, mean_rows
from flows.verdicts.judge import PairSample
from flows.verdicts.legs import LegState, split_change

CALM = RecordFacts(
    level=8,
    slots=8,
    wall_s=1.0,
    prefill_s=0.1,
    decode_s=0.88,
    peak_running=8,
    rows_per_step={8: 31},
    bandwidth_fraction=0.9,
    utilisation=0.95,
)
TROUBLED = {
    "throttling": replace(CALM, throttled=True),
    "too-few-slots": replace(CALM, slots=4, peak_running=4, rows_per_step={4: 62}),
    "slots-not-filled": replace(CALM, rows_per_step={8: 10, 1: 60}),
    "prefill-is-the-bottleneck": replace(CALM, prefill_s=0.6, decode_s=0.38),
    "the-scheduler-sleeps": replace(CALM, decode_s=0.6),
    "low-bandwidth-fraction": replace(CALM, bandwidth_fraction=0.3),
    "the-gpu-is-underused": replace(CALM, utilisation=0.4),
}
TROUBLESHOOTING = Path(__file__).parents[3] / "docs" / "troubleshooting.md"


def test_a_calm_record_gives_no_hint() -> None:
    assert hints(CALM) == []
    assert hints(RecordFacts(level=8, slots=8)) == []


@pytest.mark.parametrize("section", TROUBLED)
def test_each_trouble_gives_its_hint(section: str) -> None:
    assert [hint.section for hint in hints(TROUBLED[section])] == [section]


def test_a_peak_below_the_slots() -> None:
    (hint,) = hints(replace(CALM, peak_running=5))
    assert "never more than 5 of 8" in hint.text


def test_a_slower_leg() -> None:
    before = LegState.of([PairSample(n, 1.0 + n / 1000, 4.0 + n / 1000) for n in range(6)])
    now = LegState.of([PairSample(n, 1.0 + n / 1000, 3.5 + n / 1000) for n in range(6)])
    assert before is not None
    assert now is not None
    (hint,) = hints(CALM, split_change(now, before, ">="))
    assert hint.section == "a-slower-leg"
    assert "batch 12.5% slower" in hint.text


def test_every_section_stands_in_the_docs() -> None:
    headings = re.findall(r"^#+ (.+)$", TROUBLESHOOTING.read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert {*TROUBLED, "a-slower-leg"} <= anchors


def test_mean_rows() -> None:
    assert mean_rows({8: 10, 4: 10}) == 6.0
    assert mean_rows({}) is None
    assert Hint("t", "s") == Hint("t", "s")
