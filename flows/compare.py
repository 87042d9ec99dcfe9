"""Two builds head to head: the same leg of both, interleaved in random order, in blocks, with looks and a budget.

What a night does for serial against batch is done here for base against head. Records go into the store under their own kind,
so that no trend and no baseline ever rests on them.
"""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from flows.attempt import Run, attempt
from flows.build import Build, build_commit, build_engine, open_build, source_of
from flows.deadlines import Expectations
from flows.folders import RunFolder
from flows.in_turns import attempt_in_turns
from flows.locks import exclusive, measuring_lock
from flows.parameters import ValidationParameters
from flows.plan import Measurement, Mode, measurement_of
from flows.progress import report
from flows.revisions import WORKTREE, merge_base, require_reached, resolve
from flows.settings import HostSettings
from flows.source import find_repo
from flows.stages import Budget
from flows.verdicts.judge import PairSample, Verdict
from flows.verdicts.looks import NIGHT_ALPHA, LookPlan, judge_night, undecided
from flows.verdicts.overall import EXIT_PASS, Overall, overall
from flows.verdicts.series import cannot_differ
from flows.verdicts.targets import Target, comparison_targets
from flows.verdicts.validity import LegFacts, check_pair
from storage.records import Record, Source

Arm = Literal["base", "head"]
ARMS: tuple[Arm, ...] = get_args(Arm)


@dataclass(frozen=True)
class Side:
    """One of the two: what it was called, what it was built from, and the build."""

    name: str
    build: Build
    source: Source

    @property
    def label(self) -> str:
        """For people: the name and the commit."""
        changes = " with uncommitted changes" if self.source.dirty else ""
        return f"{self.name} ({self.source.commit[:10]}{changes})"


@dataclass(frozen=True)
class Comparison:
    """What is compared and on what."""

    base: Side
    head: Side
    parameters: ValidationParameters
    modes: tuple[Mode, ...]
    margin: float  # 0.03: a loss beyond 3 % is a FAIL
    only: str | None = None  # the one target that is of interest, by name
    alpha: float = NIGHT_ALPHA  # two-sided, over all looks and targets

    @property
    def targets(self) -> tuple[Target, ...]:
        found = comparison_targets(self.parameters.measured_levels, self.modes, self.margin)
        return tuple(target for target in found if self.only in (None, target.name))

    @property
    def same_binary(self) -> bool:
        return self.base.build.content == self.head.build.content


@dataclass(frozen=True)
class Compared:
    """The verdicts on head, and what a reader must know beside them."""

    verdicts: list[Verdict]
    samples: dict[str, list[PairSample]]  # by target; serial is the base's value, batch the head's
    notes: list[str]
    wall_s: float


def open_side(name: str | None, existing: Path | None, host: HostSettings, log: Path) -> Side:
    """A side from an existing build folder, a commit's name, the word `worktree`, or None: where the branch left the main line.

    Raises BuildError, SourceError.
    """
    if existing is not None:
        build = open_build(existing)
        return Side(existing.name if name in (None, WORKTREE) else str(name), build, source_of(build))
    repo = find_repo(host.repo)
    if name == WORKTREE:
        build, source = build_engine(repo, host, log)
        return Side(name, build, source)
    commit = commit_of(name, host)
    report().note(f"engine of {name or 'the merge base'} ({commit[:10]})")
    build, source = build_commit(repo, commit, host, log)
    return Side(name or "merge base", build, source)


def commit_of(name: str | None, host: HostSettings) -> str:
    """The commit of a name, if it is there and reached; None is where the branch left the main line. Raises SourceError."""
    repo = find_repo(host.repo)
    commit = merge_base(repo) if name is None else resolve(repo, name)
    require_reached(repo, commit)
    return commit


def compare(comparison: Comparison, folder: RunFolder) -> Compared:
    """Measure within the budget until every target is decided, then judge. Failed processes become ERROR verdicts.

    Whatever ends it before, what was measured is in the store, unless that cannot be written either, which is said.
    """
    try:
        return _compare(comparison, folder)
    except BaseException:
        _ingest_what_is_there(folder)
        raise


def _ingest_what_is_there(folder: RunFolder) -> None:
    from storage.errors import StoreError
    from storage.ingest import ingest

    try:
        ingest(folder.store, folder.record_files())
    except StoreError as error:
        report().note(f"the records are not in the store: {error}")


def _compare(comparison: Comparison, folder: RunFolder) -> Compared:
    began, parameters = datetime.now(UTC), comparison.parameters
    expectations = Expectations(longest_s=60 * parameters.deadline_minutes)
    runs = {
        arm: Run(folder, side.build, side.source, expectations)
        for arm, side in zip(ARMS, (comparison.base, comparison.head), strict=True)
    }
    budget, plan = Budget(60 * parameters.budget_minutes), _look_plan(comparison)
    samples: dict[str, list[PairSample]] = {target.name: [] for target in comparison.targets}
    open_targets: Sequence[Target] = comparison.targets
    verdicts: list[Verdict] = []
    notes: list[str] = []
    first = 1
    for look in plan.looks:
        notes = _measure(comparison, open_targets, range(first, look + 1), runs, (budget, samples))
        verdicts = judge_night(comparison.targets, samples, plan)
        open_targets, first = undecided(verdicts), look + 1
        if not open_targets or comparison.same_binary:  # then the first look shows the noise, and more shows nothing more
            break
    if comparison.same_binary:
        verdicts = [cannot_differ(verdict) for verdict in verdicts]
    return Compared(verdicts, samples, notes, (datetime.now(UTC) - began).total_seconds())


def conclude(comparison: Comparison, verdicts: Sequence[Verdict]) -> Overall:
    """The exit code and the headline: those of any night, but that one binary on both sides has nothing to answer for."""
    if comparison.same_binary and not any(verdict.status == "ERROR" for verdict in verdicts):
        return Overall(
            EXIT_PASS, "SAME: both builds are one binary, so the head cannot be slower; the table shows this machine's noise."
        )
    return overall(verdicts)


def keep(comparison: Comparison, compared: Compared, folder: RunFolder, exit_code: int, began: datetime) -> list[str]:
    """Records and the run into the store, verdicts into comparison.json. Returns what was set aside. Raises StoreError."""
    from storage.ingest import ingest, store_run

    content = {
        "parameters": comparison.parameters.model_dump(mode="json", exclude={"results"}),
        "base": comparison.base.source.model_dump() | {"name": comparison.base.name},
        "head": comparison.head.source.model_dump() | {"name": comparison.head.name},
        "same_binary": comparison.same_binary,
        "exit_code": exit_code,
        "verdicts": [verdict.to_dict() for verdict in compared.verdicts],
        "notes": compared.notes,
    }
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    (folder.root / "comparison.json").write_text(text, encoding="utf-8")
    rejected = ingest(folder.store, folder.record_files()).rejected
    commit, workload = comparison.head.source.commit, comparison.parameters.workload
    store_run(
        folder.store,
        folder.run_id,
        commit=commit,
        workload=workload,
        exit_code=exit_code,
        started_at=began,
        finished_at=datetime.now(UTC),
    )
    return [reason for _, reason in rejected]


def arm_of(comparison: Comparison, target: Target, number: int, arm: Arm, order: int) -> Measurement:
    """One process: the target's leg in the build of one side."""
    mode = mode_of(target)
    spec = measurement_of(comparison.parameters, number, target.level, mode, order).spec
    return Measurement(
        name=f"{comparison.parameters.workload}/comparison-x{target.level}-{mode}-{arm}/pair{number:02d}",
        label=f"{arm} {mode} x{target.level} pair {number}",
        spec=spec.model_copy(update={"kind": "comparison", "extra": {"arm": arm}}),
    )


def mode_of(target: Target) -> Mode:
    """The leg that a comparison's target is about; its name begins with it."""
    return "serial" if target.name.startswith("serial") else "batch"


def _measure(
    comparison: Comparison,
    targets: Sequence[Target],
    numbers: range,
    runs: dict[Arm, Run],
    into: tuple[Budget, dict[str, list[PairSample]]],
) -> list[str]:
    """Blocks of pairs, one for each target, as far as the budget reaches. Returns what found no room."""
    budget, samples = into
    skipped: list[str] = []
    done, total = report().done, report().done + 2 * len(targets) * len(numbers)
    seed = comparison.parameters.seed
    for number in numbers:
        for target in sorted(targets, key=lambda t: _digest(seed, number, t.name)):
            arms = sorted(ARMS, key=lambda arm: _digest(seed, number, target.name, arm))
            pair = [arm_of(comparison, target, number, arm, 2 * number + place) for place, arm in enumerate(arms)]
            needed = sum(runs["base"].expectations.expected_s(measurement.spec) for measurement in pair)
            if number > 1 and needed > budget.left_s:
                skipped.append(target.name)
                continue
            rest = (total - done) / 2 * needed
            report().remaining(done, total, min(rest, max(budget.left_s, needed)))
            done += 2
            began = time.monotonic()
            with exclusive(measuring_lock(), lambda: report().note("waiting: another measurement is running on this machine")):
                budget.limit_s += time.monotonic() - began  # what others took is given back
                records = _measure_pair(arms, pair, runs, in_turns=comparison.parameters.in_turns)
            samples[target.name].append(_sample(target, number, records))
    names = ", ".join(dict.fromkeys(skipped))
    limit = f"{comparison.parameters.budget_minutes:g} minutes"
    return [f"Cut by the budget of {limit}: no more pairs of {names}; --budget-minutes gives more."] if skipped else []


def _measure_pair(arms: Sequence[Arm], pair: Sequence[Measurement], runs: dict[Arm, Run], *, in_turns: bool) -> dict[Arm, Record]:
    if in_turns:
        first, second = arms
        records: Sequence[Record] = attempt_in_turns((pair[0], pair[1]), (runs[first], runs[second]))
    else:
        records = [attempt(measurement, runs[arm]) for arm, measurement in zip(arms, pair, strict=True)]
    return dict(zip(arms, records, strict=True))


def _sample(target: Target, number: int, records: dict[Arm, Record]) -> PairSample:
    validity = check_pair(_facts(records["base"]), _facts(records["head"]), names=("base", "head"))
    base, head = (figure(target, records[arm]) for arm in ARMS)
    return PairSample(number, base, head, valid=validity.valid, reason=validity.reason, broken=validity.broken)


def figure(target: Target, record: Record) -> float | None:
    """Mean request latency in seconds at level 1, requests a second above; None where nothing was measured."""
    rounds = record.kept_rounds()
    requests = [request for sample in rounds for request in sample.requests]
    wall_s = sum(sample.wall_s for sample in rounds)
    if record.status not in ("ok", "invalid") or not requests or wall_s <= 0:
        return None
    if target.metric == "e2el_s":
        return sum(request.e2el_s for request in requests) / len(requests)
    return len(requests) / wall_s


def _facts(record: Record) -> LegFacts:
    rounds = record.kept_rounds()
    complete = [q for r in rounds for q in r.requests if q.finish_reason in ("length", "stop")]
    spec = record.spec
    return LegFacts(
        mode=spec.mode,
        level=spec.level,
        slots=spec.slots,
        status="ok" if record.status == "invalid" else record.status,  # what disturbed it stands in the facts below
        requests_completed=len(complete),
        requests_expected=spec.level * spec.runs,
        output_tokens=record.output_tokens(),
        peak_running=record.occupancy.peak_running if record.occupancy else None,
        throttled=any(sample.throttled for sample in rounds),
        left_alone=any(reason.startswith("turns:") for reason in record.invalid_because),
    )


def _look_plan(comparison: Comparison) -> LookPlan:
    return LookPlan(looks=comparison.parameters.stages, alpha=comparison.alpha)


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
