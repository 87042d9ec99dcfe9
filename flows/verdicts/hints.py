"""Why a FAIL may have failed, drawn from its own record: each hint with its figure and a section of docs/troubleshooting.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from flows.verdicts.legs import LegSplit

PREFILL_SHARE = 0.3  # of the step time
IDLE_SHARE = 0.05  # of the wall, outside prefill and decode steps
FILLED_SHARE = 0.9  # mean rows of a decode step / rows that could have run
BANDWIDTH_FRACTION = 0.6
UTILISATION = 0.7


@dataclass(frozen=True)
class RecordFacts:
    """The batch leg's record in figures; None where it does not say. Times are seconds over the kept rounds."""

    level: int
    slots: int
    wall_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    peak_running: int | None = None
    rows_per_step: Mapping[int, int] = field(default_factory=dict)  # rows -> decode steps
    bandwidth_fraction: float | None = None
    utilisation: float | None = None  # of the GPU, 0 to 1
    throttled: bool | None = None


@dataclass(frozen=True)
class Hint:
    text: str
    section: str  # anchor in docs/troubleshooting.md

    def __str__(self) -> str:
        return f"{self.text} (docs/troubleshooting.md#{self.section})"


def hints(facts: RecordFacts, split: LegSplit | None = None) -> list[Hint]:
    """What stands out, the likeliest cause first; an empty list means that the record holds nothing unusual."""
    found = [
        _throttled(facts),
        _too_few_slots(facts),
        _unfilled(facts),
        _prefill(facts),
        _idle(facts),
        _bandwidth(facts),
        _utilisation(facts),
        *_legs(split),
    ]
    return [hint for hint in found if hint is not None]


def mean_rows(rows_per_step: Mapping[int, int]) -> float | None:
    """Mean rows of a decode step; None without steps."""
    steps = sum(rows_per_step.values())
    return sum(rows * count for rows, count in rows_per_step.items()) / steps if steps else None


def _throttled(facts: RecordFacts) -> Hint | None:
    if not facts.throttled:
        return None
    return Hint("the machine throttled while this was measured: cool it or cap its clock, then measure again", "throttling")


def _too_few_slots(facts: RecordFacts) -> Hint | None:
    if facts.slots >= facts.level:
        return None
    return Hint(
        f"{facts.slots} slots for {facts.level} requests: {facts.level - facts.slots} of them always wait", "too-few-slots"
    )


def _unfilled(facts: RecordFacts) -> Hint | None:
    could = min(facts.level, facts.slots)
    if facts.peak_running is not None and facts.peak_running < could:
        return Hint(
            f"never more than {facts.peak_running} of {could} requests ran at once: slots were not filled", "slots-not-filled"
        )
    rows = mean_rows(facts.rows_per_step)
    if rows is not None and could > 1 and rows < FILLED_SHARE * could:
        return Hint(f"a decode step computed {rows:.1f} of {could} rows on average: slots were not filled", "slots-not-filled")
    return None


def _prefill(facts: RecordFacts) -> Hint | None:
    if facts.prefill_s is None or facts.decode_s is None or facts.prefill_s + facts.decode_s <= 0:
        return None
    share = facts.prefill_s / (facts.prefill_s + facts.decode_s)
    if share < PREFILL_SHARE:
        return None
    return Hint(f"prefill took {share:.0%} of the step time, and batching speeds up decode only", "prefill-is-the-bottleneck")


def _idle(facts: RecordFacts) -> Hint | None:
    if not facts.wall_s or facts.prefill_s is None or facts.decode_s is None:
        return None
    share = 1 - (facts.prefill_s + facts.decode_s) / facts.wall_s
    if share < IDLE_SHARE:
        return None
    return Hint(f"{share:.0%} of the wall time lies outside any step: the scheduler slept or waited", "the-scheduler-sleeps")


def _bandwidth(facts: RecordFacts) -> Hint | None:
    if facts.bandwidth_fraction is None or facts.bandwidth_fraction >= BANDWIDTH_FRACTION:
        return None
    return Hint(f"decode steps read at {facts.bandwidth_fraction:.0%} of the machine's bandwidth", "low-bandwidth-fraction")


def _utilisation(facts: RecordFacts) -> Hint | None:
    if facts.utilisation is None or facts.utilisation >= UTILISATION:
        return None
    return Hint(f"the GPU was busy {facts.utilisation:.0%} of the time", "the-gpu-is-underused")


def _legs(split: LegSplit | None) -> list[Hint | None]:
    return [Hint(f"against the accepted state: {leg.describe()}", "a-slower-leg") for leg in split.slower] if split else []
