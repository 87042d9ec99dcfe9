"""The validation: plan -> build -> measure -> aggregate -> report -> site. Read from top to bottom.

Annotations are real ones here and in every module with a flow: served runs fail with postponed ones.
"""

from collections.abc import Collection
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.client.schemas.objects import State, StateType
from prefect.states import Completed, Failed

from flows import aggregate, artifacts, preflight, summary
from flows.attempt import Run
from flows.beside import measure_beside
from flows.build import Build, BuildError, build_asked, open_build, source_under_test
from flows.commit_builds import need_tools, recorded
from flows.deadlines import Expectations
from flows.folders import RunFolder, new_run_id
from flows.native_build import toolchain
from flows.own_tests import run_own_tests
from flows.parameters import ValidationParameters
from flows.plan import Plan, PlanError, make_plan, read_plan, write_plan
from flows.progress import logger, report
from flows.settings import HostSettings, current_host
from flows.site import draw_site
from flows.stages import measure_stages
from flows.verdicts.judge import Verdict
from flows.verdicts.targets import keep_targets, load_targets
from storage.records import Source


@flow(name="validate", flow_run_name="{parameters.workload} tp{parameters.tp} {parameters.checkpoint}", persist_result=False)
def validate(parameters: ValidationParameters) -> State[Any]:
    """Measure serial against batched decode and say what was found."""
    host = current_host()
    folder = RunFolder(Path(parameters.results).absolute(), parameters.run or new_run_id())
    course = summary.Course(datetime.now(UTC))
    source = source_under_test(host)
    plan = lay_out(parameters, source, folder, host)
    begin(folder, plan, source, course)
    try:
        built = build.with_options(task_run_name=f"build {_short(source)}")(host, folder)
    except BuildError:
        end_without_engine(folder, host)
        raise
    course.notes += own_tests(host, folder, built, source) if host.own_tests else []
    run = Run(folder, built, source, known_durations(plan, folder))
    disturbed = check_machine(plan, folder, host)
    try:
        measure_beside(plan.checks, run)
        course.notes += measure_stages(plan, run, lambda: _undecided(folder, plan))
        measure_beside(plan.others, run)
    finally:
        course.notes += keep(folder, course, host)  # whatever ended us, what was measured is in the store
    course.notes += disturbed
    verdicts = judge(folder, plan, course)
    found = tell(folder, plan, run, verdicts, course)
    draw_site(folder.results)
    return final_state(found)


@task(name="plan", task_run_name="plan", persist_result=False)
def lay_out(parameters: ValidationParameters, source: Source, folder: RunFolder, host: HostSettings) -> Plan:
    """Write the plan down, or hold it against the one that is resumed. The targets beside it are those of this start.

    Raises PlanError where the plans differ, TargetError.
    """
    plan = make_plan(parameters, source.tree)
    load_targets(host.targets)
    folder.create()
    for reason in aggregate.reconcile(folder):
        report().note(f"set aside: {reason}")
    if folder.plan.exists():
        _refuse_other_plan(read_plan(folder.plan), plan, folder)
        report().note(f"run {folder.run_id}: resumed, {len(folder.measured())} measurements are there already")
    else:
        write_plan(plan, folder.plan)
        report().note(f"run {folder.run_id}: {_extent(plan)}")
    keep_targets(host.targets, folder.targets)
    return plan


def begin(folder: RunFolder, plan: Plan, source: Source, course: summary.Course) -> None:
    """Note the run in the store, so that it is known there however it ends. A run that is taken up began when it first did."""
    from storage.runs import RUN_FILE, store_run

    store_run(
        folder.store,
        folder.run_id,
        commit=source.commit,
        workload=plan.parameters.workload,
        plan=plan.model_dump(mode="json"),
        started_at=None if (folder.root / RUN_FILE).exists() else course.started_at,
    )


def end_without_engine(folder: RunFolder, host: HostSettings) -> None:
    """Note that the run is over and broken: its engine does not build. The failure has its commit's place all the same."""
    from storage.runs import store_run

    place_commits(folder, host)
    store_run(folder.store, folder.run_id, finished_at=datetime.now(UTC), exit_code=2)


@task(name="build", persist_result=False)
def build(host: HostSettings, folder: RunFolder) -> Build:
    """Build the engine, or find it built; either is kept as a result. Raises BuildError with the compiler's last lines."""
    if host.build:
        return open_build(host.build)
    log = folder.logs / "build.log"
    need_tools(host)
    report().note("building the native engine (once for each state of its sources)")
    waiting = partial(report().note, "waiting: an engine is being built elsewhere")
    built = recorded(folder, source_under_test(host), toolchain(host).text, lambda: build_asked(host, log, waiting)[0])
    report().note(f"engine {built.how}: {built.folder}")
    return built


@task(name="own tests", task_run_name="own tests", persist_result=False)
def own_tests(host: HostSettings, folder: RunFolder, built: Build, source: Source) -> list[str]:
    """The commit's own tests, in words; their result stands in tests.json and decides nothing. Raises SourceError."""
    if source.dirty or source.commit == "unknown":
        return ["Its own tests were not run: they are run on commits, and this is a tree with changes of its own."]
    return [run_own_tests(built, source, folder, host.repo, str(host.own_tests), host.build_minutes).describe()]


@task(name="preflight", task_run_name="preflight", persist_result=False)
def check_machine(plan: Plan, folder: RunFolder, host: HostSettings) -> list[str]:
    """Wait for a machine that is fit and quiet. Returns what disturbs all the same; raises NotReadyError for what prevents."""
    wait = preflight.Wait(host.wait_minutes, report().note)
    return preflight.ready(plan.parameters, (folder.results, host.cache), wait)


def keep(folder: RunFolder, course: summary.Course, host: HostSettings) -> list[str]:
    """Bring all records into the store. Returns what was set aside, with reasons."""
    from storage.ingest import store_run

    course.finished_at = datetime.now(UTC)
    rejected = aggregate.keep_records(folder)
    place_commits(folder, host)
    store_run(folder.store, folder.run_id, finished_at=course.finished_at)
    return [f"Set aside: {reason}" for reason in rejected]


def place_commits(folder: RunFolder, host: HostSettings) -> None:
    """Tell the store where the measured commits stand in history, where there is a repository to ask."""
    from storage.commits import fill_commits
    from storage.errors import StoreError

    try:
        fill_commits(folder.store, host.repo or Path.cwd())
    except StoreError as error:  # no repository, no git: the trend says that the commits have no place
        logger.info("commits are not placed: %s", error)


@task(name="verdicts", task_run_name="verdicts", persist_result=False)
def judge(folder: RunFolder, plan: Plan, course: summary.Course) -> list[Verdict]:
    """Judge every target and keep the verdicts, and with them the changes of the trend that this run brings to light."""
    verdicts = aggregate.judge_run(folder.snapshot, folder.run_id, plan.parameters, folder.targets)
    aggregate.store_judged(folder, verdicts, plan.parameters.workload)
    course.notes += aggregate.judged_targets(plan.parameters, folder.targets)[1]
    if plan.parameters.with_canary:
        course.notes.append(aggregate.canary_of(folder.snapshot, folder.run_id).reason)
    course.alerts = aggregate.tell_changes(folder.store, folder.run_id)
    return verdicts


@task(name="report", task_run_name="report", persist_result=False)
def tell(folder: RunFolder, plan: Plan, run: Run, verdicts: list[Verdict], course: summary.Course) -> dict[str, Any]:
    """Write summary.json, summary.md and the page."""
    from dashboards.report import write_page
    from storage.ingest import store_run

    report().note("drawing the charts and the page")
    found = summary.summarise(folder, plan, run.build, run.source, verdicts, course)
    summary.write_summary(folder, found)
    store_run(folder.store, folder.run_id, exit_code=found["exit_code"])
    write_page(folder.snapshot, folder.run_id, folder.root)
    artifacts.publish(found, folder)
    return found


def final_state(found: dict[str, Any]) -> State[Any]:
    """The flow's last word: a missed target is never mistaken for a crash, nor an open question for either."""
    headline = found["headline"]
    match found["exit_code"]:
        case 0:
            return Completed(message="All targets met")
        case 1:
            missed = (t for t in found["targets"] if t["status"] == "FAIL" and not t["waived"])
            return Failed(message="TargetsMissed: " + ", ".join(map(_missed, missed)))
        case 3:
            return State(type=StateType.COMPLETED, name="Inconclusive", message=headline)
        case _:
            return Failed(name="NoVerdict", message=headline)


def _missed(target: dict[str, Any]) -> str:
    """x8 3.9 < 4.5 [3.8, 4.0]"""
    relation = "<" if target["direction"] == ">=" else ">"
    return (
        f"x{target['level']} {target['ratio']:.3g} {relation} {target['bound']:.3g} [{target['low']:.3g}, {target['high']:.3g}]"
    )


def known_durations(plan: Plan, folder: RunFolder) -> Expectations:
    """What is known of durations: from a run that is resumed, else nothing."""
    expectations = Expectations(longest_s=60 * plan.parameters.deadline_minutes)
    expectations.recall(folder.read_records())
    return expectations


def _undecided(folder: RunFolder, plan: Plan) -> Collection[int]:
    return aggregate.open_levels(folder.snapshot, folder.run_id, plan.parameters, folder.targets)


def _refuse_other_plan(earlier: Plan, plan: Plan, folder: RunFolder) -> None:
    if earlier.identity == plan.identity:
        return
    old, new = earlier.parameters.model_dump(), plan.parameters.model_dump()
    differing = [f"{name} {old[name]} there, {new[name]} here" for name in old if old[name] != new[name]]
    differing += [f"engine {earlier.tree[:10]} there, {plan.tree[:10]} here"] if earlier.tree != plan.tree else []
    differing = differing or ["it was laid out by an earlier version"]
    raise PlanError(
        f"run {folder.run_id} cannot be resumed, its plan differs: {'; '.join(differing)}. Leave out --run for a new run"
    )


def _extent(plan: Plan) -> str:
    levels = ", ".join(map(str, plan.parameters.measured_levels))
    most = plan.stages[-1]
    pairs = f"{most} pair{'s' if most > 1 else ''}" if len(plan.stages) == 1 else f"up to {most} pairs"
    return f"levels {levels}, {pairs} of serial and batch at each"


def _short(source: Source) -> str:
    return (source.commit if source.commit != "unknown" else source.tree)[:7]
