"""The A/A canary: the same build against itself. What it shows is the night's noise floor; where it moves, the machine lied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flows.verdicts.intervals import Interval, Summary, interval
from flows.verdicts.judge import PairSample, Verdict, usable
from flows.verdicts.looks import NIGHT_ALPHA


@dataclass(frozen=True)
class Canary:
    """floor is relative (0.013: differences within 1.3 % are this night's noise); None where it could not be measured."""

    floor: float | None
    moved: bool
    readings: Mapping[str, Interval]  # by what was measured (a level, a leg): second / first run of one build
    reason: str


def read_canary(samples: Mapping[str, Sequence[PairSample]], alpha: float = NIGHT_ALPHA) -> Canary:
    """Judge the A/A pairs of a night; in each PairSample `serial` is the first arm and `batch` the second, of one build.

    The readings share `alpha`. Readings below two valid pairs have no interval and are left out, by name.
    """
    usable_pairs = {name: _ratios(pairs) for name, pairs in samples.items()}
    enough = {name: ratios for name, ratios in usable_pairs.items() if len(ratios) >= 2}
    left_out = [name for name in samples if name not in enough]
    if not enough:
        return Canary(None, False, {}, "No noise floor: the canary has no reading with two valid pairs.")
    readings = {name: interval(Summary.of(ratios), 1 - alpha / len(enough)) for name, ratios in enough.items()}
    floor = max(max(found.high, 1 / found.low) - 1 for found in readings.values())
    moved = {name: found for name, found in readings.items() if not found.low <= 1 <= found.high}
    missing = f" (no reading of {', '.join(left_out)})" if left_out else ""
    if not moved:
        return Canary(
            floor, False, readings, f"The same build against itself stayed within {floor:.1%}: the noise floor{missing}."
        )
    worst, found = max(moved.items(), key=lambda item: max(item[1].value, 1 / item[1].value))
    spread = f"{found.low - 1:+.1%} to {found.high - 1:+.1%}"
    return Canary(
        floor, True, readings, f"The same build against itself moved by {found.value - 1:+.1%} ({spread}) on {worst}{missing}."
    )


def withhold(verdicts: Sequence[Verdict], canary: Canary) -> list[Verdict]:
    """On a night when the canary moved: FAIL becomes INCONCLUSIVE with the reason, and a PASS carries a flag."""
    if not canary.moved:
        return list(verdicts)
    return [_withheld(verdict, canary) for verdict in verdicts]


def _withheld(verdict: Verdict, canary: Canary) -> Verdict:
    if verdict.status == "FAIL":
        reason = f"FAIL withheld, the night is not to be trusted. {canary.reason} It read: {verdict.reason}"
        return replace(verdict, status="INCONCLUSIVE", reason=reason)
    return verdict.with_flag(canary.reason) if verdict.status == "PASS" else verdict


def _ratios(pairs: Sequence[PairSample]) -> list[float]:
    kept = [(pair.serial, pair.batch) for pair in pairs if pair.valid and not pair.broken]
    return [
        second / first for first, second in kept if first is not None and second is not None and usable(first) and usable(second)
    ]
