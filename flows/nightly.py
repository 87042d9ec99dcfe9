"""The nightly: every entry of the plan file is measured, unless this commit is decided; then only the machine is watched."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State, StateType
from prefect.states import Completed, Failed

from flows import artifacts, night_watch, summary, validation
from flows.attempt import Run
from flows.build import BuildError, source_under_test
from flows.folders import RunFolder
from flows.forms import NightParameters
from flows.native_build import toolchain
from flows.night_plan import NightEntry, read_night
from flows.night_queue import queue_bisects
from flows.parameters import ValidationParameters
from flows.plan import make_plan
from flows.progress import report
from flows.served import finish, folder_of, in_service, measuring, take_up
from flows.settings import HostSettings, current_host
from flows.up_settings import UpSettings, load_up
from storage.records import Source

QUIET, MISSED, BROKEN, OPEN = 0, 1, 2, 3  # as exit codes have it


@dataclass(frozen=True)
class Outcome:
    """What an entry of the night came to."""

    entry: str
    code: int
    message: str
    folder: RunFolder | None = None  # of a run with verdicts
    watched: str = ""  # what the canary said, where it alone ran


def _night_name() -> str:
    return f"night of {datetime.now().astimezone():%Y-%m-%d}"


@flow(name="nightly", flow_run_name=_night_name, persist_result=False)
def nightly(parameters: NightParameters) -> State[Any]:
    """Measure what the plan file says, and say by its last state what was found."""
    settings, host = load_up(), current_host()
    entries = [entry for entry in read_night(settings.plan) if not parameters.only or entry.name in parameters.only]
    with in_service(host):
        outcomes = [measure_entry(entry, settings, host, parameters.force) for entry in entries]
        for entry, outcome in zip(entries, outcomes, strict=True):
            if outcome.folder is not None:
                queue_bisects(entry, outcome.folder)
        finish([outcome.folder for outcome in outcomes if outcome.folder is not None], settings)
        create_markdown_artifact(night_text(outcomes), key="night", description=headline(outcomes))
        return night_state(outcomes)


def measure_entry(entry: NightEntry, settings: UpSettings, host: HostSettings, force: bool) -> Outcome:
    """One entry. What goes wrong with it is its outcome, and the next one follows."""
    parameters = entry.parameters.model_copy(update={"results": str(settings.results.absolute())})
    try:
        source = source_under_test(host)
        decided = (
            None if force else night_watch.decided_run(Path(parameters.results), make_plan(parameters, source.tree).identity)
        )
        known = None if force else _known_failure(Path(parameters.results), source, host)
        if known is not None:
            return Outcome(entry.name, BROKEN, f"known not to build, not tried again without force: {_first_line(known)}")
        if decided is not None:
            outcome = watch_machine(entry, parameters, source, host, decided)
            if outcome is not None:
                return outcome
        resolved = take_up(parameters, host)
        with measuring(folder_of(resolved)):
            state = validation.validate.with_options(flow_run_name=entry.name)(resolved, return_state=True)
    except Exception as error:
        report().note(f"{entry.name}: {error}")
        return Outcome(entry.name, BROKEN, f"{type(error).__name__}: {error}")
    return _outcome(entry.name, state, folder_of(resolved))


def _known_failure(results: Path, source: Source, host: HostSettings) -> str | None:
    """Why these sources are known not to build here; None where nobody can tell, so that the run itself says what is missing."""
    from storage.builds import known_failure

    try:
        return None if host.build else known_failure(results, source.tree, toolchain(host).text)
    except BuildError:  # no compiler
        return None


def watch_machine(
    entry: NightEntry, parameters: ValidationParameters, source: Source, host: HostSettings, decided: str
) -> Outcome | None:
    """Canary and probe on a commit that run `decided` has settled; None where the machine is another now, so that nothing is."""
    report().note(f"{entry.name}: decided by run {decided}, so only the canary and the machine probe run")
    plan = night_watch.watch_plan(parameters, source.tree)
    folder = night_watch.lay_out(plan)
    course = summary.Course(datetime.now(UTC))
    with measuring(folder):
        validation.begin(folder, plan, source, course)
        built = validation.build.with_options(task_run_name=f"build {source.commit[:7]}")(host, folder)
        disturbed = validation.check_machine(plan, folder, host)
        try:
            night_watch.watch(plan, Run(folder, built, source, validation.known_durations(plan, folder)))
        finally:
            validation.keep(folder, course, host)
        seen = night_watch.seen_in(folder)
        speed = "" if seen.bandwidth is None else f" Memory is read at {seen.bandwidth / 1e9:.1f} GB/s."
        told = " ".join([f"{seen.canary.reason}{speed}", *disturbed])
        night_watch.close(plan, folder, decided, told)
    known = night_watch.known_fingerprints(RunFolder(folder.results, decided))
    if seen.fingerprint is not None and seen.fingerprint not in known:
        report().note(f"{entry.name}: the machine has changed since run {decided}: a new series begins")
        return None
    return Outcome(entry.name, QUIET, f"decided already by run {decided}", watched=f"{told} Records: {folder.run_id}.")


def night_state(outcomes: Sequence[Outcome]) -> State[Any]:
    """The night's last word: broken before missed before open, and every entry's own words behind it."""
    codes = {outcome.code for outcome in outcomes}
    words = headline(outcomes)
    if BROKEN in codes:
        return Failed(name="NoVerdict", message=words)
    if MISSED in codes:
        return Failed(message=words)
    if OPEN in codes:
        return State(type=StateType.COMPLETED, name="Inconclusive", message=words)
    return Completed(message=words)


def headline(outcomes: Sequence[Outcome]) -> str:
    """One line on the night."""
    worst = next((code for code in (BROKEN, MISSED, OPEN) if any(outcome.code == code for outcome in outcomes)), QUIET)
    if worst != QUIET:
        return "; ".join(f"{outcome.entry}: {outcome.message}" for outcome in outcomes if outcome.code == worst)
    measured = [outcome for outcome in outcomes if outcome.folder is not None]
    if measured:
        return "All targets met"
    return "Nothing new to decide: " + "; ".join(f"{outcome.entry}: {outcome.message}" for outcome in outcomes)


def night_text(outcomes: Sequence[Outcome]) -> str:
    """Markdown of the night: an overview, then the tables and the trend of each run."""
    words = {QUIET: "met", MISSED: "missed", BROKEN: "no verdict", OPEN: "undecided"}
    lines = [f"# {headline(outcomes)}", "", "| entry | outcome | run |", "| --- | --- | --- |"]
    for outcome in outcomes:
        run = outcome.folder.run_id if outcome.folder else "-"
        told = words[outcome.code] if not outcome.watched else outcome.message
        lines.append(f"| {outcome.entry} | {told} | {run} |")
    for outcome in outcomes:
        lines += ["", f"## {outcome.entry}", ""]
        if outcome.folder is None:
            lines.append(outcome.watched or outcome.message)
            continue
        found = json.loads(outcome.folder.summary_json.read_text(encoding="utf-8"))
        lines.append(artifacts.text_of(found, outcome.folder, level=3))
    return "\n".join(lines) + f"\n\nWritten {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.\n"


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _outcome(name: str, state: State[Any], folder: RunFolder) -> Outcome:
    if not folder.summary_json.exists() or state.type == StateType.CRASHED:
        return Outcome(name, BROKEN, state.message or state.name or "it ended without a word")
    code = int(json.loads(folder.summary_json.read_text(encoding="utf-8"))["exit_code"])
    return Outcome(name, code, artifacts.short(state.message or ""), folder)
