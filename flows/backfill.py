"""Points for commits that have none: each chosen commit is built and validated as a night would, coarse first.

The ends of the range come first, then the middles of what lies between, so that a backfill that is cut short has measured evenly.
A commit that does not build is a result, and so is one whose engine is too old. What is measured already stays.
"""

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State, StateType
from prefect.states import Completed, Failed

from flows import validation
from flows.commit_builds import BuildCosts, CommitBuilds, Unmeasurable
from flows.commit_choice import choose, coarse_first, measured_plans
from flows.commit_parameters import BackfillParameters
from flows.commit_range import commits_in
from flows.commit_trend import Change, changes_among
from flows.folders import RunFolder, new_run_id
from flows.parameters import ValidationParameters
from flows.plan import make_plan
from flows.progress import report
from flows.resume import owned, unfinished_run
from flows.revisions import subject_of
from flows.settings import HostSettings, current_host, use_host
from flows.source import find_repo


@dataclass(frozen=True)
class Filled:
    """What became of one chosen commit."""

    commit: str
    subject: str
    what: str  # measured, there already, unmeasurable, broken
    why: str = ""
    run: str = ""
    exit_code: int | None = None
    measurements: int = 0
    wall_s: float = 0.0


@dataclass
class Backfilled:
    """A backfill, going on or ended."""

    range: str
    commits: int  # in the range
    chosen: list[str]  # oldest first
    costs: BuildCosts
    began: datetime
    filled: list[Filled] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    finished: datetime | None = None

    @property
    def in_order(self) -> list[Filled]:
        """As history has them."""
        return sorted(self.filled, key=lambda one: self.chosen.index(one.commit))

    @property
    def exit_code(self) -> int:
        """0 every commit that can be measured has a point, 2 something broke."""
        return 2 if any(one.what == "broken" for one in self.filled) else 0


@flow(name="backfill", flow_run_name="backfill {parameters.range}", persist_result=False)
def backfill(parameters: BackfillParameters) -> State[Any]:
    """Measure the commits of a range that have no point yet."""
    state = fill(parameters, current_host(), RunFolder(parameters.folder, parameters.measure.run or new_run_id()))
    words = headline(state)
    if state.exit_code:
        return Failed(name="NoVerdict", message=words)
    return State(type=StateType.COMPLETED, name="Changed", message=words) if state.changes else Completed(message=words)


def fill(parameters: BackfillParameters, host: HostSettings, folder: RunFolder) -> Backfilled:
    """Do it; what came of it is kept in the folder's backfill.json after each commit.

    Raises SourceError, StoreError, and BuildError where no build can be made on this machine.
    """
    repo = find_repo(host.repo)
    nodes = commits_in(repo, parameters.range)
    chosen = choose(nodes, parameters.every, parameters.all)
    folder.create()
    builds = CommitBuilds(repo, host, folder, parameters.retry)
    state = Backfilled(parameters.range, len(nodes), [node.commit for node in chosen], builds.costs, datetime.now(UTC))
    report().note(f"{parameters.range}: {len(nodes)} commits, {len(chosen)} chosen")
    there = {} if parameters.again else measured_plans(folder.results)
    try:
        for number, node in enumerate(coarse_first(chosen), 1):
            report().note(f"commit {number} of {len(chosen)}: {node.commit[:10]} {subject_of(repo, node.commit)}")
            state.filled.append(_fill_one(node.commit, parameters, (repo, host), builds, there))
            write(state, folder)
    finally:
        state.changes = changes_among(folder.snapshot, state.chosen)
        state.finished = datetime.now(UTC)
        write(state, folder)
    return state


def headline(state: Backfilled) -> str:
    """One line on the whole."""
    counts = {
        what: sum(one.what == what for one in state.filled) for what in ("measured", "there already", "unmeasurable", "broken")
    }
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "nothing to do"
    changed = f"; the trend changes at {', '.join(change.bad[:10] for change in state.changes)}" if state.changes else ""
    return f"{state.range}: {state.commits} commits, {len(state.chosen)} chosen: {told}{changed}"


def write(state: Backfilled, folder: RunFolder) -> None:
    """Write backfill.json, whole or not at all."""
    content = asdict(state) | {"headline": headline(state), "began": state.began.isoformat(), "exit_code": state.exit_code}
    content["finished"] = state.finished.isoformat() if state.finished else None
    temporary = folder.root / ".backfill.json.tmp"
    temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    temporary.replace(folder.root / "backfill.json")


def _fill_one(
    commit: str, parameters: BackfillParameters, where: tuple[Path, HostSettings], builds: CommitBuilds, there: dict[str, str]
) -> Filled:
    """One commit. What goes wrong with it is its outcome, and the next one follows."""
    repo, host = where
    named = (commit, subject_of(repo, commit))
    engine = builds.of(commit)
    if isinstance(engine, Unmeasurable):
        return Filled(*named, "unmeasurable", engine.why)
    identity = make_plan(parameters.measure, engine.source.tree).identity
    if identity in there:
        return Filled(*named, "there already", run=there[identity])
    run = unfinished_run(parameters.folder, identity) or new_run_id()
    measure = parameters.measure.model_copy(update={"run": run, "results": str(parameters.folder)})
    filled = _validated(named, measure, host.model_copy(update={"commit": commit, "build": None}))
    builds.let_go(engine)
    return filled


def _validated(named: tuple[str, str], measure: ValidationParameters, host: HostSettings) -> Filled:
    folder, began = RunFolder(Path(measure.results), str(measure.run)), datetime.now(UTC)
    name = f"{named[0][:10]} {named[1]}"
    try:
        with use_host(host), owned(folder):
            state = validation.validate.with_options(flow_run_name=name.replace("{", "(").replace("}", ")"))(
                measure, return_state=True
            )
    except Exception as error:
        report().note(f"{named[0][:10]}: {error}")
        return Filled(*named, "broken", f"{type(error).__name__}: {error}", folder.run_id)
    wall_s = (datetime.now(UTC) - began).total_seconds()
    if not folder.summary_json.exists():
        return Filled(*named, "broken", state.message or str(state.name), folder.run_id, wall_s=wall_s)
    found = json.loads(folder.summary_json.read_text(encoding="utf-8"))
    code = int(found["exit_code"])
    what = "measured" if code != 2 else "broken"
    return Filled(*named, what, str(found["headline"]), folder.run_id, code, len(folder.record_files()), wall_s)
