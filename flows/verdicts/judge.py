"""One target, its pairs, one verdict. PASS is earned by a whole interval on the right side of the bound and by nothing else."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from flows.verdicts.intervals import Interval, Scatter, Summary, interval, minimum_detectable_effect
from flows.verdicts.targets import Target, quantity

Status = Literal["PASS", "FAIL", "INCONCLUSIVE", "ERROR"]

POINT = "point without an interval"
WIDE = 4  # an interval that reaches further than this factor to both sides is told as such: its ends are figures of no use
BEYOND = f"beyond {WIDE}x either way"
_NO_BASELINE = "The series has no accepted baseline"


@dataclass(frozen=True)
class PairSample:
    """One pair of processes: each leg's value of the target's metric, None where missing.

    valid is False for a pair kept but set aside, with the reason. broken is True where something failed that no restless
    machine explains (all requests failed, token totals differ): one such pair makes the verdict an ERROR.
    """

    pair: int
    serial: float | None
    batch: float | None
    valid: bool = True
    reason: str = ""
    broken: bool = False


@dataclass(frozen=True)
class Verdict:
    """What is said of one target. ratio, low, high and bound are in the target's unit; mde is relative (0.05 is 5 %)."""

    target: Target
    status: Status
    ratio: float | None
    low: float | None
    high: float | None
    mde: float | None
    pairs: int
    reason: str
    point: bool = False
    confidence: float | None = None
    bound: float | None = None
    excluded: tuple[str, ...] = ()  # each pair set aside, with why
    flags: tuple[str, ...] = ()  # what a reader must know beside the status
    waived: str = ""  # because of what and until when, where a person waived a FAIL
    change: str = ""  # against the accepted state: the ratio and its legs
    hints: tuple[str, ...] = ()  # for a FAIL: what stands out in its record, with the section of docs/troubleshooting.md

    def with_flag(self, flag: str) -> "Verdict":
        return replace(self, flags=(*self.flags, flag))

    @property
    def decided(self) -> bool:
        return self.status in ("PASS", "FAIL")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as the store keeps them."""
        row = asdict(self)
        row["target"] = asdict(self.target)
        return row


def judge(
    target: Target,
    samples: Sequence[PairSample],
    *,
    confidence: float = 0.95,
    baseline: Summary | None = None,
    scatter: Scatter | None = None,
) -> Verdict:
    """Judge one target on its pairs at one two-sided confidence.

    baseline is the series' accepted state of the same metric (logs), needed where the bound is relative. scatter is what the
    night's other levels know of the noise (flows.verdicts.scatter).
    Raises ValueError for a confidence outside (0, 1) and for two samples of one pair.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence!r} must lie between 0 and 1")
    _refuse_duplicates(samples)
    excluded = tuple(f"pair {s.pair}: {s.reason or 'invalid'}" for s in samples if not s.valid)
    kept = [s for s in samples if s.valid]
    blank = Verdict(target, "ERROR", None, None, None, None, len(kept), "", excluded=excluded)
    if why := trouble(target, samples):
        return replace(blank, reason=why)
    if not kept:
        why = (
            f"none of {len(samples)} pairs is valid ({excluded[0]})"
            if samples
            else f"nothing was measured at level {target.level}"
        )
        return replace(blank, status="INCONCLUSIVE" if samples else "ERROR", reason=f"No verdict: {why}.")
    values = [value for s in kept if (value := judged_value(target, s)) is not None]
    bound = target.absolute_bound(baseline.value if baseline else None)
    sample = Summary.of(values)
    shown = replace(blank, status="INCONCLUSIVE", ratio=sample.value, bound=bound)
    if bound is None:
        return replace(shown, point=sample.count == 1, reason=f"{_NO_BASELINE} yet, so nothing can be held against it.")
    if sample.count == 1:
        return replace(shown, point=True, reason=_point_reason(target, sample.value, bound))
    held_against = baseline if target.relative else None
    if held_against is not None and held_against.count < 2:
        return replace(shown, reason=f"{_NO_BASELINE} but one single pair, a {POINT}, so nothing can be held against it.")
    if scatter is not None:
        sample = sample.moderated(scatter)
    found = interval(sample, confidence, held_against)
    mde = minimum_detectable_effect(sample, 1 - confidence, held_against)
    status = _status(target, found, bound)
    reason = _reason(target, status, found, bound, mde)
    verdict = replace(shown, status=status, low=found.low, high=found.high, mde=mde, confidence=confidence, reason=reason)
    reference = baseline.value if target.relative and baseline else target.reference
    return _flag_short_of(verdict, found, reference)


def usable(value: float | None) -> bool:
    """Whether a leg's value can be judged: there, finite and above 0."""
    return value is not None and math.isfinite(value) and value > 0


def _status(target: Target, found: Interval, bound: float) -> Status:
    meets = [target.meets(edge, bound) for edge in (found.low, found.high)]
    if all(meets):
        return "PASS"
    return "INCONCLUSIVE" if any(meets) else "FAIL"


def _flag_short_of(verdict: Verdict, found: Interval, reference: float | None) -> Verdict:
    """A loss within the bound is still a loss: say so when the interval leaves no doubt of it."""
    target = verdict.target
    if verdict.status == "FAIL" or reference is None or _status(target, found, reference) != "FAIL":
        return verdict
    loss = abs(found.value / reference - 1)
    return verdict.with_flag(
        f"measurably worse than {quantity(reference, target.unit)}, by {loss:.1%}, though not surely beyond the bound."
    )


def _legs(target: Target, sample: PairSample) -> dict[str, float | None]:
    """The legs that the target needs."""
    legs = {"serial": sample.serial, "batch": sample.batch}
    return legs if target.leg == "ratio" else {target.leg: legs[target.leg]}


def judged_value(target: Target, sample: PairSample) -> float | None:
    """The figure of one pair that the target is about, in its unit; None where a leg it needs is not usable."""
    legs = {leg: value for leg, value in _legs(target, sample).items() if value is not None and usable(value)}
    if target.leg != "ratio":
        return legs.get(target.leg)
    if len(legs) < 2:
        return None
    ratio = legs["batch"] / legs["serial"] * target.scale
    return ratio if usable(ratio) else None  # two finite values can have a ratio beyond floating point


def trouble(target: Target, samples: Sequence[PairSample]) -> str:
    """What makes a verdict impossible (a broken pair, a leg missing, zero or NaN), in a sentence; empty where nothing does."""
    if samples and not any(sample.broken for sample in samples) and not any(_has_a_value(target, sample) for sample in samples):
        return f"No verdict: this run recorded no {target.metric} at level {target.level}."
    for sample in samples:
        if sample.broken:
            return f"No verdict: pair {sample.pair} is broken: {sample.reason or 'no reason recorded'}."
        for leg, value in _legs(target, sample).items():
            if not usable(value):
                what = "is missing" if value is None else f"reads {value!r}"
                why = f" ({sample.reason})" if sample.reason else ""
                return f"No verdict: the {leg} leg of pair {sample.pair} {what}{why}."
        if judged_value(target, sample) is None:
            return f"No verdict: the legs of pair {sample.pair} ({sample.batch!r} and {sample.serial!r}) have no ratio."
    return ""


def _has_a_value(target: Target, sample: PairSample) -> bool:
    return any(value is not None for value in _legs(target, sample).values())


def _refuse_duplicates(samples: Sequence[PairSample]) -> None:
    seen: set[int] = set()
    for sample in samples:
        if sample.pair in seen:
            raise ValueError(f"pair {sample.pair} stands twice: give the last attempt of each pair only")
        seen.add(sample.pair)


def _point_reason(target: Target, value: float, bound: float) -> str:
    side = "on the right side of" if target.meets(value, bound) else "short of"
    return (
        f"A {POINT}: one pair reads {quantity(value, target.unit)}, {side} {quantity(bound, target.unit)}, "
        "but one pair cannot say how sure that is."
    )


def too_wide(low: float, high: float) -> bool:
    """Whether an interval of positive figures reaches beyond WIDE times its middle, the geometric one, and as far below it."""
    return high > WIDE**2 * low


def _reason(target: Target, status: Status, found: Interval, bound: float, mde: float) -> str:
    """One sentence: what was seen, how surely, and against what."""
    limit = quantity(bound, target.unit)
    if target.relative:
        limit += f" ({target.describe_bound()})"
    spread = f"{quantity(found.low, target.unit)} to {quantity(found.high, target.unit)}"
    if status == "INCONCLUSIVE":
        finds = f"this many pairs find a distance of {mde:.1%} or more" if mde < 1 else "so few pairs can miss even a doubling"
        if too_wide(found.low, found.high):
            spread = f"({BEYOND})"
        return f"The interval {spread} straddles {limit}: {finds}."
    if status == "PASS":
        return f"The whole interval {spread} lies {'at or above' if target.direction == '>=' else 'at or below'} {limit}."
    return f"The whole interval {spread} lies {'below' if target.direction == '>=' else 'above'} {limit}."
