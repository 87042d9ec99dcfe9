"""The measuring part of a run: stages of blocks of pairs, within the budget, one measurement at a time on this host."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from flows.aggregate import keep_records
from flows.attempt import Run
from flows.locks import exclusive, measuring_lock
from flows.measure import measure
from flows.plan import Block, Pair, Plan, missing
from flows.progress import duration, report
from storage.errors import StoreError
from storage.records import Record


@dataclass
class Budget:
    """Minutes for measuring, counted from its making."""

    limit_s: float
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._began = time.monotonic()

    @property
    def left_s(self) -> float:
        return self.limit_s - (time.monotonic() - self._began)


def measure_stages(plan: Plan, run: Run, levels_open: Callable[[], Collection[int]]) -> list[str]:
    """Measure every stage; between stages only levels that `levels_open` names go on.

    Pairs that have records are left alone. The first block always runs; a later one only where it fits the budget as a whole, so
    that every level has as many pairs. Returns what a reader must know.
    """
    budget = Budget(60 * plan.parameters.budget_minutes)
    levels: Collection[int] = plan.parameters.measured_levels
    done = run.folder.measured()
    for stage, pairs in enumerate(plan.stages):
        todo = [(block, _open_pairs(block, levels, done)) for block in plan.stage_blocks(stage)]
        for place, (block, waiting) in enumerate(todo):
            needed_s = _expected_s(waiting, run)
            if waiting and block.block > 1 and needed_s > budget.left_s:
                return [_cut(plan, block, needed_s)]
            for position, pair in enumerate(waiting):
                later = [*waiting[position:], *(other for _, pairs_after in todo[place + 1 :] for other in pairs_after)]
                _announce(later, plan, run, stage, levels)
                measure_pair(pair, run)
        levels = levels_open() if pairs != plan.stages[-1] else ()
        if not levels:
            break
    return []


def measure_pair(pair: Pair, run: Run) -> None:
    """Both legs, one right after the other, with nothing else measured on this host; then into the store.

    A leg that fails is kept as a failed record and stops nothing. A pair with an invalid leg (slots not filled, clocks throttled)
    is kept too, and measured once more as a pair.
    """
    with exclusive(measuring_lock(), lambda: report().note("waiting: another measurement is running on this machine")):
        if not _measure_legs(pair, run):
            report().note(f"x{pair.level} pair {pair.pair}: set aside as invalid, measured once more")
            _measure_legs(pair, run)
    try:
        for reason in keep_records(run.folder):
            report().note(f"set aside: {reason}")
    except StoreError as error:  # the records are on disk; the ingest at the end tries again, and fails loudly
        report().note(f"not in the store yet: {error}")


def _measure_legs(pair: Pair, run: Run) -> bool:
    """Whether no leg was invalid."""
    states = [measure(measurement, run, return_state=True) for measurement in pair.measurements]
    records = [state.result(raise_on_failure=False) for state in states]
    return not any(isinstance(record, Record) and record.status == "invalid" for record in records)


def _open_pairs(block: Block, levels: Collection[int], done: Collection[str]) -> Sequence[Pair]:
    return missing([pair for pair in block.pairs if pair.level in levels], done)


def _announce(later: Sequence[Pair], plan: Plan, run: Run, stage: int, levels: Collection[int]) -> None:
    total = sum(
        2 for s in range(stage + 1) for block in plan.stage_blocks(s) for pair in block.pairs if not s or pair.level in levels
    )
    report().remaining(total - 2 * len(later), total, _expected_s(later, run))


def _expected_s(pairs: Sequence[Pair], run: Run) -> float:
    return sum(run.expectations.expected_s(measurement.spec) for pair in pairs for measurement in pair.measurements)


def _cut(plan: Plan, block: Block, needed_s: float) -> str:
    measured = f"{block.block - 1} of {plan.stages[-1]} pairs a level were measured"
    return (
        f"Cut by the budget of {plan.parameters.budget_minutes:g} minutes: {measured}, "
        f"and the next would take {duration(needed_s)}; --budget-minutes gives more."
    )
