"""What a run measures beside its pairs, from the parameters alone: the checks before them, and the other kinds after them.

Pure: no plan, no file. `flows/plan.py` makes measurements of these.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from flows.parameters import CHECKS, KindName, ValidationParameters

_PARITY_TOKENS = 8  # enough for a row to take its place in every step, few enough to cost seconds
_REFERENCE_TOKENS = 4
_ARRIVALS = 40  # of steady_state


@dataclass(frozen=True)
class Other:
    """One measurement. `changes` are fields of the spec that differ from those of a leg at this mode and level."""

    kind: KindName
    name: str  # unique among the others
    label: str  # for people
    mode: Literal["serial", "batch"]
    level: int
    changes: dict[str, Any] = field(default_factory=dict)


def checks_of(parameters: ValidationParameters) -> list[Other]:
    """What must hold before anything is timed."""
    return [other for kind in CHECKS if kind in parameters.kinds for other in _OF[kind](parameters)]


def others_of(parameters: ValidationParameters) -> list[Other]:
    """What is measured after the pairs."""
    return [other for kind in parameters.kinds if kind not in CHECKS for other in _OF[kind](parameters)]


def _parity(parameters: ValidationParameters) -> Iterator[Other]:
    levels = parameters.measured_levels
    extra = {"levels": list(levels), "mixed_lengths": True}
    tokens = min(_PARITY_TOKENS, parameters.new_tokens)
    changes = {"new_tokens": tokens, "warmup": 0, "runs": 1, "extra": extra}
    yield Other("parity", "parity", "parity of serial and batch", "batch", levels[-1], changes)


def _reference(parameters: ValidationParameters) -> Iterator[Other]:
    changes = {"new_tokens": min(_REFERENCE_TOKENS, parameters.new_tokens), "warmup": 0, "runs": 1}
    yield Other("reference", "reference", "parity with the torch reference", "batch", 1, changes)


def _occupancy(parameters: ValidationParameters) -> Iterator[Other]:
    level = parameters.measured_levels[-1]
    yield Other("occupancy", f"occupancy-x{level}", f"occupancy x{level}", "batch", level, {"runs": min(2, parameters.runs)})


def _idle(parameters: ValidationParameters) -> Iterator[Other]:
    """Both modes, each after work: a lone request in turn, or as many at once as are measured."""
    legs: tuple[tuple[Literal["serial", "batch"], int], ...] = (("serial", 1), ("batch", parameters.measured_levels[-1]))
    for mode, level in legs:
        yield Other("idle", f"idle-{mode}", f"idle after {mode} work", mode, level, {"warmup": 0, "runs": 1})


def _build_order(parameters: ValidationParameters) -> Iterator[Other]:
    """Four engines in one process, in either order of modes, a lone request at a time."""
    orders: tuple[tuple[Literal["serial", "batch"], str], ...] = (("serial", "batch"), ("batch", "serial"))
    for first, second in orders:
        changes = {"extra": {"sequence": [first, second, first, second]}}
        yield Other("build_order", f"build-order-{first}-first", f"four engines in turn, {first} first", first, 1, changes)


def _steady_state(parameters: ValidationParameters) -> Iterator[Other]:
    """Full, short-prompted and short-answered requests, in equal parts."""
    prompt, new = parameters.prompt_tokens, parameters.new_tokens
    shapes = [(prompt, new), (-(-prompt // 4), new), (prompt, -(-new // 4))]
    lengths = [{"prompt_tokens": p, "new_tokens": n, "weight": 1.0} for p, n in shapes]
    extra = {"rate_per_s": parameters.rate_per_s, "requests": _ARRIVALS, "lengths": lengths}
    level = parameters.measured_levels[-1]
    label = f"steady state at {parameters.rate_per_s:g} requests a second"
    yield Other("steady_state", "steady-state", label, "batch", level, {"runs": 1, "extra": extra})


_OF = {
    "parity": _parity,
    "reference": _reference,
    "occupancy": _occupancy,
    "idle": _idle,
    "build_order": _build_order,
    "steady_state": _steady_state,
}
