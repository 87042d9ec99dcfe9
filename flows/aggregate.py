"""From records to verdicts: ingest, judge, store what was said."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.folders import RunFolder, unfinished_records
from flows.parameters import ValidationParameters
from flows.plan import read_plan
from flows.verdicts.judge import PairSample, Verdict
from flows.verdicts.looks import LookPlan, judge_night
from flows.verdicts.targets import Target, load_targets


def keep_records(folder: RunFolder) -> list[str]:
    """Bring this run's records into the store; return what was set aside, each with its reason. Raises StoreError."""
    from storage.ingest import ingest

    return [reason for _, reason in ingest(folder.store, folder.record_files()).rejected]


def reconcile(folder: RunFolder) -> list[str]:
    """Bring in what runs that were killed have left behind. Returns what was set aside. Raises StoreError."""
    from storage.ingest import ingest

    return [reason for _, reason in ingest(folder.store, unfinished_records(folder.results)).rejected]


def judge_run(store: Path, run_id: str, parameters: ValidationParameters, targets_file: Path | None) -> list[Verdict]:
    """Verdicts on every target whose level this run measures, from a store or its snapshot. Raises StoreError, TargetError."""
    from storage.queries import target_ratios

    targets = [target for target in load_targets(targets_file) if target.level in parameters.measured_levels]
    rows = target_ratios(store, run_id).to_dict("records")
    samples = {target.name: _samples(rows, target) for target in targets}
    stages = parameters.stages
    plan = LookPlan(looks=stages) if len(stages) > 1 else LookPlan.fixed(stages[0])
    return judge_night(targets, samples, plan)


def judge_again(store: Path, run: Path, run_id: str, targets_file: Path | None) -> list[dict[str, Any]]:
    """What a rebuild of the store puts down for a run: nothing where its folder has no plan. Raises PlanError, TargetError."""
    if not (run / "plan.json").exists():
        return []
    parameters = read_plan(run / "plan.json").parameters
    return [
        verdict.to_dict() | {"workload": parameters.workload} for verdict in judge_run(store, run_id, parameters, targets_file)
    ]


def store_judged(folder: RunFolder, verdicts: Sequence[Verdict], workload: str) -> None:
    """Keep the verdicts as rows of the store. Raises StoreError."""
    from storage.ingest import store_verdicts

    store_verdicts(folder.store, folder.run_id, [verdict.to_dict() for verdict in verdicts], workload=workload)


def undecided_levels(verdicts: Iterable[Verdict]) -> set[int]:
    """Levels that more pairs could still decide."""
    return {verdict.target.level for verdict in verdicts if verdict.status == "INCONCLUSIVE"}


def _samples(rows: Iterable[Mapping[Any, Any]], target: Target) -> list[PairSample]:
    """Each pair's legs in the metric of the target."""
    return [_sample(row) for row in rows if row["metric"] == target.metric and row["level"] == target.level]


def _sample(row: Mapping[Any, Any]) -> PairSample:
    return PairSample(
        pair=int(row["pair"]),
        serial=_present(row["serial"]),
        batch=_present(row["batch"]),
        valid=bool(row["valid"]),
        reason=str(row["reason"] or ""),
        broken=bool(row["broken"]),
    )


def _present(value: float | None) -> float | None:
    """In pandas NaN stands for what is absent."""
    return None if value is None or math.isnan(value) else float(value)
