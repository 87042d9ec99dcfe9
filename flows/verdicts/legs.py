"""Which leg moved: a ratio's change since the accepted state, split into its numerator and its denominator.

The legs of two nights are not paired, so the machine's own drift between the nights is inside their changes; the ratio, whose
legs ran side by side, is nearly free of it. Both legs moving alike therefore reads "the machine, or code that both share".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from flows.verdicts.intervals import Interval, Summary, change
from flows.verdicts.judge import PairSample, Verdict, usable
from flows.verdicts.metrics import Direction
from flows.verdicts.targets import quantity

LEG_CONFIDENCE = 0.9955  # 2 legs at 4 levels share 3.6 %, half of it for "slower"

Movement = Literal["faster", "slower", "unmoved"]


@dataclass(frozen=True)
class LegState:
    """Both legs and their ratio on one night, each per process (pair), as logs."""

    serial: Summary
    batch: Summary
    ratio: Summary

    @classmethod
    def of(cls, samples: Sequence[PairSample]) -> "LegState | None":
        """The state of the valid pairs with two usable legs; None where there is none."""
        pairs = [(s.serial, s.batch) for s in samples if s.valid and s.serial is not None and s.batch is not None]
        kept = [(serial, batch) for serial, batch in pairs if usable(serial) and usable(batch) and usable(batch / serial)]
        if not kept:
            return None
        return cls(
            Summary.of([serial for serial, _ in kept]),
            Summary.of([batch for _, batch in kept]),
            Summary.of([batch / serial for serial, batch in kept]),
        )


@dataclass(frozen=True)
class LegChange:
    """new / accepted of one leg's value, with its interval, and what that means for speed."""

    leg: Literal["serial", "batch"]
    factor: Interval
    movement: Movement

    def describe(self) -> str:
        """`serial 4.1 % slower (2.9 % to 5.3 %)`, in the change of the leg's own value."""
        size = f"{abs(self.factor.value - 1):.1%}"
        spread = f"{self.factor.low - 1:+.1%} to {self.factor.high - 1:+.1%}"
        return f"{self.leg} {'unmoved' if self.movement == 'unmoved' else f'{size} {self.movement}'} ({spread})"


@dataclass(frozen=True)
class LegSplit:
    """A ratio's change and the changes of the legs that make it."""

    ratio: Interval
    serial: LegChange
    batch: LegChange

    @property
    def slower(self) -> tuple[LegChange, ...]:
        return tuple(leg for leg in (self.serial, self.batch) if leg.movement == "slower")

    def describe(self) -> str:
        """One sentence that names the leg that moved."""
        ratio = f"ratio {self.ratio.value - 1:+.1%} ({self.ratio.low - 1:+.1%} to {self.ratio.high - 1:+.1%})"
        return f"Against the accepted state: {ratio}; {self.serial.describe()}; {self.batch.describe()}."


def split_change(
    now: LegState, accepted: LegState, better: Direction, *, confidence: float = LEG_CONFIDENCE, floor: float = 0.0
) -> LegSplit | None:
    """Split the change since the accepted state; None where either rests on a single pair.

    better says which way the legs' values are good (>= for throughput, <= for seconds). A movement within `floor` (relative: the
    night's noise floor) counts as unmoved.
    """
    if min(now.ratio.count, accepted.ratio.count) < 2:
        return None
    return LegSplit(
        change(now.ratio, accepted.ratio, confidence),
        _leg("serial", change(now.serial, accepted.serial, confidence), better, floor),
        _leg("batch", change(now.batch, accepted.batch, confidence), better, floor),
    )


def flag_legs(verdict: Verdict, split: LegSplit | None, accepted: LegState | None) -> Verdict:
    """Put on the verdict what a ratio hides: a PASS through a slower serial leg, and both legs slower."""
    if split is None or accepted is None or verdict.ratio is None or not split.slower:
        return verdict
    if len(split.slower) == 2:
        legs = f"{split.serial.describe()}; {split.batch.describe()}"
        return verdict.with_flag(
            f"both legs are slower, which a ratio cannot show (the machine, or code that both share): {legs}."
        )
    if split.batch.movement == "slower":
        return verdict.with_flag(f"the batch leg is slower than in the accepted state: {split.batch.describe()}.")
    if verdict.status != "PASS":
        return verdict.with_flag(f"the serial leg is slower, which flatters the ratio: {split.serial.describe()}.")
    kept, text = _had_serial_stayed(verdict, split)
    how = "the serial leg is slower, which flatters this PASS" if kept else "it passes on a slower serial leg, not a faster batch"
    if split.batch.movement == "faster":
        how = "a slower serial leg is part of this PASS"
    return verdict.with_flag(f"{how}: {split.serial.describe()}; {text}.")


def _had_serial_stayed(verdict: Verdict, split: LegSplit) -> tuple[bool, str]:
    """Whether the ratio would pass against the accepted serial leg, and what it would be.

    verdict.ratio is batch / serial, so multiplying by the serial leg's own change puts the accepted leg back in.
    """
    ratio = (verdict.ratio or 0.0) * split.serial.factor.value
    unit = verdict.target.unit
    text = f"against the accepted serial leg the ratio would be {quantity(ratio, unit)}"
    if verdict.bound is None or verdict.target.meets(ratio, verdict.bound):
        return True, text
    return False, f"{text}, short of {quantity(verdict.bound, unit)}"


def _leg(leg: Literal["serial", "batch"], factor: Interval, better: Direction, floor: float) -> LegChange:
    rises, falls = factor.low > 1 + floor, factor.high < 1 / (1 + floor)
    if not rises and not falls:
        return LegChange(leg, factor, "unmoved")
    return LegChange(leg, factor, "faster" if rises == (better == ">=") else "slower")
