"""From records to verdicts: ingest, judge, store what was said."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flows.evidence import facts_of
from flows.folders import RunFolder, unfinished_records
from flows.history import (
    Accepted,
    Decisions,
    Night,
    accepted_states,
    decisions_before,
    find_alerts,
    find_night,
    present,
    rows_to_samples,
    today_of,
)
from flows.parameters import ValidationParameters
from flows.plan import read_plan
from flows.verdicts.accept import apply_waivers
from flows.verdicts.canary import Canary, read_canary, withhold
from flows.verdicts.hints import hints
from flows.verdicts.judge import PairSample, Verdict
from flows.verdicts.legs import LegState, flag_legs, split_change
from flows.verdicts.looks import LookPlan, judge_night
from flows.verdicts.metrics import find_metric
from flows.verdicts.series import cannot_differ
from flows.verdicts.targets import Target, load_targets
from storage.records import TARGETS_FILE


def keep_records(folder: RunFolder) -> list[str]:
    """Bring this run's records into the store; return what was set aside, each with its reason. Raises StoreError."""
    from storage.ingest import ingest

    return [reason for _, reason in ingest(folder.store, folder.record_files()).rejected]


def reconcile(folder: RunFolder) -> list[str]:
    """Bring in what runs that were killed have left behind. Returns what was set aside. Raises StoreError."""
    from storage.ingest import ingest

    return [reason for _, reason in ingest(folder.store, unfinished_records(folder.results)).rejected]


@dataclass(frozen=True)
class _Case:
    """All that a run is judged on."""

    targets: tuple[Target, ...]
    samples: Mapping[str, Sequence[PairSample]]  # by target
    night: Night | None
    decisions: Decisions
    accepted: Mapping[str, Accepted]  # by target


def judge_run(store: Path, run_id: str, parameters: ValidationParameters, targets_file: Path | None) -> list[Verdict]:
    """Verdicts on every target whose level this run measures, from a store or its snapshot. Raises StoreError, TargetError."""
    case = _case(store, run_id, parameters, targets_file)
    verdicts = [_against_its_own_binary(verdict, case) for verdict in _judged(case, parameters)]
    canary = canary_of(store, run_id)
    verdicts = withhold(verdicts, canary)
    verdicts = [_with_legs(verdict, case, canary) for verdict in verdicts]
    if case.night is not None:
        verdicts = apply_waivers(verdicts, case.decisions.waivers, today_of(case.night))
    return [_with_hints(verdict, store, run_id, case) for verdict in verdicts]


def open_levels(store: Path, run_id: str, parameters: ValidationParameters, targets_file: Path | None) -> set[int]:
    """Levels that more pairs could still decide. What the canary or a person says of a verdict buys no pair."""
    return undecided_levels(_judged(_case(store, run_id, parameters, targets_file), parameters))


def undecided_levels(verdicts: Iterable[Verdict]) -> set[int]:
    """Levels that more pairs could still decide: a target with nothing to be held against is none of them."""
    return {v.target.level for v in verdicts if v.status == "INCONCLUSIVE" and v.bound is not None}


def judged_targets(parameters: ValidationParameters, targets_file: Path | None) -> tuple[tuple[Target, ...], list[str]]:
    """The targets whose level is measured, and a note on those whose level is not. Raises TargetError."""
    targets = load_targets(targets_file)
    mine = tuple(target for target in targets if target.level in parameters.measured_levels)
    left = [target.describe() for target in targets if target not in mine]
    return mine, [f"Not judged, their levels are not measured: {', '.join(left)}."] if left else []


def canary_of(store: Path, run_id: str) -> Canary:
    """What the build against itself showed in this run."""
    from storage.queries import canary_pairs

    samples: dict[str, list[PairSample]] = {}
    for row in canary_pairs(store, run_id).to_dict("records"):
        pair = PairSample(pair=int(row["pair"]), serial=present(row["a"]), batch=present(row["b"]))
        samples.setdefault(f"{row['mode']} at {row['level']}", []).append(pair)
    return read_canary(samples)


def judge_again(store: Path, run: Path, run_id: str, targets_file: Path | None) -> list[dict[str, Any]]:
    """What a rebuild of the store puts down for a run: nothing where its folder has no plan, or one without
    looks. Raises PlanError, TargetError.

    The run is judged by the targets kept in its folder; `targets_file` is for runs of versions that kept none. The changes that
    the run told of are put down too.
    """
    if not (run / "plan.json").exists():
        return []
    plan = read_plan(run / "plan.json")
    if not plan.stages:  # a night of the canary alone
        return []
    parameters = plan.parameters
    tell_changes(store, run_id)
    said = {"workload": parameters.workload}
    if (run / TARGETS_FILE).exists():
        targets_file = run / TARGETS_FILE
    return [row | said for row in _rows(store, run_id, judge_run(store, run_id, parameters, targets_file))]


def store_judged(folder: RunFolder, verdicts: Sequence[Verdict], workload: str) -> None:
    """Keep the verdicts as rows of the store. Raises StoreError."""
    from storage.ingest import store_verdicts

    store_verdicts(folder.store, folder.run_id, _rows(folder.store, folder.run_id, verdicts), workload=workload)


def _rows(store: Path, run_id: str, verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """Verdicts as the store keeps them, each with what the canary of its night said, where there was one."""
    from storage.queries import canary_pairs

    canary = {} if canary_pairs(store, run_id).empty else {"canary": canary_of(store, run_id).reason}
    return [verdict.to_dict() | canary for verdict in verdicts]


def tell_changes(store: Path, run_id: str) -> list[dict[str, Any]]:
    """Find the changes of the trend that this run brings to light, keep them as told, and return them."""
    from storage.runs import store_changes

    night = find_night(store, run_id)
    alerts = find_alerts(store, night) if night is not None else []
    store_changes(store, run_id, alerts)
    return alerts


def _case(store: Path, run_id: str, parameters: ValidationParameters, targets_file: Path | None) -> _Case:
    from storage.queries import pair_metrics, target_ratios

    targets, _ = judged_targets(parameters, targets_file)
    pairs = target_ratios(store, run_id).to_dict("records")
    metrics = pair_metrics(store, run_id).to_dict("records")
    samples = {target.name: _samples(pairs, metrics, target) for target in targets}
    night = find_night(store, run_id)
    decisions = decisions_before(store, night) if night else Decisions()
    accepted = accepted_states(store, night, targets, decisions) if night else {}
    return _Case(targets, samples, night, decisions, accepted)


def _judged(case: _Case, parameters: ValidationParameters) -> list[Verdict]:
    """The looks alone."""
    stages = parameters.stages
    plan = LookPlan(looks=stages) if len(stages) > 1 else LookPlan.fixed(stages[0])
    baselines = {name: accepted.baseline.summary for name, accepted in case.accepted.items()}
    return judge_night(case.targets, case.samples, plan, baselines)


def _samples(pairs: Iterable[Mapping[Any, Any]], metrics: Iterable[Mapping[Any, Any]], target: Target) -> list[PairSample]:
    """Every pair of the target's level with its legs' values of the metric, which a pair without them lacks."""
    values = {row["pair"]: row for row in metrics if row["metric"] == target.metric and row["level"] == target.level}
    nothing = {"serial": None, "batch": None}
    merged = [
        {**row, **{leg: values.get(row["pair"], nothing)[leg] for leg in nothing}}
        for row in pairs
        if row["level"] == target.level
    ]
    return rows_to_samples(merged)


def _against_its_own_binary(verdict: Verdict, case: _Case) -> Verdict:
    """A relative bound rests on a baseline; where that has this run's own binary, a difference is noise."""
    accepted = case.accepted.get(verdict.target.name)
    if not verdict.target.relative or accepted is None or not accepted.same_binary or not verdict.decided:
        return verdict
    return cannot_differ(verdict)


def _with_legs(verdict: Verdict, case: _Case, canary: Canary) -> Verdict:
    """Which leg moved since the accepted state, as text and, where a ratio hides something, as a flag."""
    accepted = case.accepted.get(verdict.target.name)
    now = LegState.of(case.samples[verdict.target.name])
    if accepted is None or accepted.legs is None or now is None or verdict.status == "ERROR":
        return verdict
    split = split_change(now, accepted.legs, _legs_better(verdict.target), floor=canary.floor or 0.0)
    if split is None:
        return verdict
    commit = accepted.baseline.commit[:10]
    told = replace(verdict, change=split.describe().replace("the accepted state", f"{commit} ({accepted.baseline.why})"))
    if accepted.same_binary or verdict.target.leg != "ratio":
        return told  # one binary: what moved is the machine; one leg's own target says itself what happened to it
    return flag_legs(told, split, accepted.legs)


def _legs_better(target: Target) -> Any:
    """Which way the legs' own values are good: the legs of a latency ratio are seconds, those of a speedup requests a second."""
    metric = find_metric(target.metric)
    return metric.better if metric is not None else target.direction


def _with_hints(verdict: Verdict, store: Path, run_id: str, case: _Case) -> Verdict:
    if verdict.status != "FAIL":
        return verdict
    facts = facts_of(store, run_id, verdict.target.level)
    accepted, now = case.accepted.get(verdict.target.name), LegState.of(case.samples[verdict.target.name])
    legs = accepted.legs if accepted is not None else None
    split = split_change(now, legs, _legs_better(verdict.target)) if now is not None and legs is not None else None
    found = hints(facts, split) if facts is not None else []
    return replace(verdict, hints=tuple(str(hint) for hint in found))
