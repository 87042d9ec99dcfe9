"""The measuring part of a run: stages of blocks of pairs, within the budget, one measurement at a time on this host."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from flows.aggregate import keep_records
from flows.attempt import Run
from flows.locks import exclusive, measuring_lock
from flows.measure import measure_apart, measure_in_turns
from flows.plan import Pair, Plan, missing
from flows.progress import duration, report
from storage.errors import StoreError


@dataclass
class Budget:
    """Minutes for measuring, counted from its making; waiting for others who measure is given back."""

    limit_s: float
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._began = time.monotonic()

    @property
    def left_s(self) -> float:
        return self.limit_s - (time.monotonic() - self._began)


def measure_stages(plan: Plan, run: Run, levels_open: Callable[[], Collection[int]]) -> list[str]:
    """Measure every stage; between stages only levels that `levels_open` names go on.

    Pairs that have records are left alone. The first block always runs. A later pair runs only where it fits the budget, so that
    the time in which a long one no longer fits buys more of the short ones. Returns what a reader must know.
    """
    budget = Budget(60 * plan.parameters.budget_minutes)
    levels: Collection[int] = plan.parameters.measured_levels
    done = run.folder.measured()
    skipped: list[Pair] = []
    for stage, pairs in enumerate(plan.stages):
        todo = missing([pair for block in plan.stage_blocks(stage) for pair in block.pairs if _wanted(pair, levels)], done)
        skipped = []
        for position, pair in enumerate(todo):
            if pair.pair > 1 and _expected_s([pair], run) > budget.left_s:
                skipped.append(pair)
                continue
            _announce(todo[position:], plan.stage_total(stage, levels), run, budget)
            budget.limit_s += measure_pair(pair, run, in_turns=plan.parameters.in_turns)
        levels = levels_open() if pairs != plan.stages[-1] else ()
        if not levels:
            break
    return [_cut(plan, skipped, run)] if skipped else []


def measure_pair(pair: Pair, run: Run, *, in_turns: bool) -> float:
    """Both legs, in turns or one right after the other, with nothing else measured on this host; then into the store. Returns
    the seconds for which others were waited for.

    A leg that fails is kept as a failed record and stops nothing. A pair with an invalid leg (slots not filled, clocks throttled)
    is kept too, and measured once more as a pair; so is one that measures in turns and lost a leg.
    """
    began = time.monotonic()
    with exclusive(measuring_lock(), lambda: report().note("waiting: another measurement is running on this machine")):
        waited_s = time.monotonic() - began
        measure = measure_in_turns if in_turns else measure_apart
        if not measure(pair.measurements, run):
            report().note(f"x{pair.level} pair {pair.pair}: set aside, measured once more")
            measure(pair.measurements, run)
    try:
        for reason in keep_records(run.folder):
            report().note(f"set aside: {reason}")
    except StoreError as error:  # the records are on disk; the ingest at the end tries again, and fails loudly
        report().note(f"not in the store yet: {error}")
    return waited_s


def _wanted(pair: Pair, levels: Collection[int]) -> bool:
    """Whether a stage that is about these levels measures the pair; the canary watches every block."""
    return pair.canary or pair.level in levels


def _announce(later: Sequence[Pair], total: int, run: Run, budget: Budget) -> None:
    report().remaining(total - 2 * len(later), total, min(_expected_s(later, run), max(budget.left_s, 0.0)))


def _expected_s(pairs: Sequence[Pair], run: Run) -> float:
    return sum(run.expectations.expected_s(measurement.spec) for pair in pairs for measurement in pair.measurements)


def _cut(plan: Plan, skipped: Sequence[Pair], run: Run) -> str:
    """Names what was measured, and the shortest pair that found no room."""
    done = run.folder.measured()
    counts = [
        f"{sum(not pair.canary and pair.level == level and not missing([pair], done) for pair in plan.pairs())} at level {level}"
        for level in plan.parameters.measured_levels
    ]
    shortest = min(_expected_s([pair], run) for pair in skipped)
    return (
        f"Cut by the budget of {plan.parameters.budget_minutes:g} minutes: of {plan.stages[-1]} pairs {', '.join(counts)} "
        f"were measured, and the next would take {duration(shortest)}; --budget-minutes gives more."
    )
