"""Validity before statistics: whether a pair may be compared at all, and if not, why.

A disturbed pair (load, throttling, a clock that moved, slots not filled) is set aside and may be replaced. A broken one (a leg
that failed, token totals that differ, parity lost) is not the machine's fault: it makes the verdict an ERROR.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class LegFacts:
    """What a leg's record says about itself. None where the machine or the record could not say: nothing is held against it."""

    mode: Literal["serial", "batch"]
    level: int  # requests sent at once
    slots: int
    status: str  # of the record: "ok" or what went wrong
    requests_completed: int  # over the kept rounds
    requests_expected: int  # level x kept rounds
    output_tokens: int  # over the kept rounds
    peak_running: int | None = None
    throttled: bool | None = None
    foreign_load: float | None = None  # runnable tasks beside ours when the leg began
    clock_mhz: float | None = None  # at the end of the work
    parity_held: bool | None = None  # tokens equal to the reference's
    left_alone: bool = False  # its partner in a pair that takes turns was lost, so both may have worked at once


@dataclass(frozen=True)
class Limits:
    """Bounds of a calm machine."""

    foreign_load: float = 0.5  # runnable tasks
    clock_ratio: float = 1.1  # faster clock of the legs / slower one


@dataclass(frozen=True)
class PairValidity:
    valid: bool
    broken: bool
    reason: str  # every objection, joined by "; "; empty for a valid pair


def check_pair(
    serial: LegFacts | None,
    batch: LegFacts | None,
    limits: Limits | None = None,
    *,
    names: tuple[str, str] = ("serial", "batch"),
) -> PairValidity:
    """Check the legs of one pair, None for a leg without a record. names: what messages call them, as base and head."""
    first, second = names
    broken = [*_broken(first, serial), *_broken(second, batch)]
    disturbed: list[str] = []
    if serial is not None and batch is not None:
        if serial.output_tokens != batch.output_tokens and not broken:
            broken.append(f"token totals differ: {first} {serial.output_tokens}, {second} {batch.output_tokens}")
        bounds = limits or Limits()
        disturbed = [
            *_disturbed(first, serial, bounds),
            *_disturbed(second, batch, bounds),
            *_clocks(names, serial, batch, bounds),
        ]
    reasons = [*broken, *disturbed]
    return PairValidity(valid=not reasons, broken=bool(broken), reason="; ".join(reasons))


def _broken(name: str, leg: LegFacts | None) -> list[str]:
    if leg is None:
        return [f"the {name} leg has no record"]
    if leg.status != "ok":
        return [f"the {name} leg ended {leg.status!r}"]
    if leg.requests_completed == 0:
        return [f"every request of the {name} leg failed"]
    if leg.requests_completed != leg.requests_expected:
        return [f"the {name} leg completed {leg.requests_completed} of {leg.requests_expected} requests"]
    if leg.output_tokens == 0:
        return [f"the {name} leg generated no token"]
    if leg.parity_held is False:
        return [f"the {name} leg's tokens differ from the reference's"]
    return []


def _disturbed(name: str, leg: LegFacts, limits: Limits) -> list[str]:
    reasons = []
    if leg.left_alone:
        reasons.append(f"the {name} leg lost its partner, with which it took turns")
    if leg.throttled:
        reasons.append(f"the machine throttled during the {name} leg")
    if leg.foreign_load is not None and leg.foreign_load > limits.foreign_load:
        reasons.append(f"foreign load {leg.foreign_load:.2f} before the {name} leg, above {limits.foreign_load:g}")
    if leg.mode == "batch" and leg.peak_running is not None and leg.peak_running < min(leg.level, leg.slots):
        reasons.append(f"slots of the {name} leg not filled: {leg.peak_running} of {min(leg.level, leg.slots)} ran at once")
    if leg.mode == "serial" and leg.peak_running is not None and leg.peak_running > 1:
        reasons.append(f"the {name} leg ran {leg.peak_running} requests at once in serial mode")
    return reasons


def _clocks(names: tuple[str, str], serial: LegFacts, batch: LegFacts, limits: Limits) -> list[str]:
    if not serial.clock_mhz or not batch.clock_mhz:
        return []
    low, high = sorted((serial.clock_mhz, batch.clock_mhz))
    if high / low <= limits.clock_ratio:
        return []
    return [f"the clock moved between the legs: {serial.clock_mhz:.0f} MHz {names[0]}, {batch.clock_mhz:.0f} MHz {names[1]}"]
