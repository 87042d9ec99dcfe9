"""The flows over commits that `paceline up` serves: backfill, bisect, compare. They measure the commits of the configured
repository that a branch, a tag or its head reaches, and nothing else.
"""

from datetime import UTC, datetime
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State, StateType
from prefect.states import Completed, Failed

from flows import backfill as filling
from flows import bisection, bisection_report, comparison_report
from flows import compare as comparing
from flows.build import BuildError
from flows.commit_builds import CommitBuilds, Unmeasurable
from flows.commit_forms import ServedBackfill, ServedBisect, ServedComparison
from flows.folders import RunFolder, new_run_id
from flows.revisions import resolve
from flows.served import folder_of, in_service, measuring
from flows.settings import current_host
from flows.source import find_repo
from flows.up_settings import load_up


@flow(name="backfill", flow_run_name="backfill {parameters.range}", persist_result=False)
def backfill(parameters: ServedBackfill) -> State[Any]:
    """Measure the commits of a range that have no point yet."""
    settings, host = load_up(), current_host()
    with in_service(host):
        asked = parameters.resolved(settings)
        folder = RunFolder(asked.folder, asked.measure.run or new_run_id())
        named = asked.model_copy(update={"measure": asked.measure.model_copy(update={"run": folder.run_id})})
        with measuring(folder):
            state: State[Any] = filling.backfill.fn(named)
        return state


@flow(name="bisect", flow_run_name="{parameters.target}: {parameters.good}..{parameters.bad}", persist_result=False)
def bisect(parameters: ServedBisect) -> State[Any]:
    """Measure GOOD against suspects in turn until one commit is left."""
    settings, host = load_up(), current_host()
    with in_service(host):
        measure = parameters.resolved(settings)
        folder = folder_of(measure.model_copy(update={"run": measure.run or new_run_id()}))
        with measuring(folder):
            found = bisection.bisect(parameters.asked, measure, host, folder)
        repo = find_repo(host.repo)
        words = bisection_report.headline(found, repo)
        create_markdown_artifact(bisection_report.markdown(found, repo), key="bisect", description=words)
        if found.exit_code == 0:
            return Completed(message=words)
        return State(type=StateType.COMPLETED, name="NothingLost" if found.exit_code == 1 else "Undecided", message=words)


@flow(name="compare", flow_run_name="{parameters.base} against {parameters.head}", persist_result=False)
def compare(parameters: ServedComparison) -> State[Any]:
    """Interleave the same leg of two commits and say whether the head is slower."""
    settings, host = load_up(), current_host()
    with in_service(host):
        measure = parameters.measure.resolved(settings)
        folder, began = folder_of(measure.model_copy(update={"run": measure.run or new_run_id()})), datetime.now(UTC)
        with measuring(folder):
            builds = CommitBuilds(find_repo(host.repo), host, folder)
            base, head = (_side(name, builds) for name in (parameters.base, parameters.head))
            comparison = comparing.Comparison(base, head, measure, parameters.modes, parameters.margin)
            compared = comparing.compare(comparison, folder)
            found = comparing.conclude(comparison, compared.verdicts)
            compared.notes.extend(comparing.keep(comparison, compared, folder, found.exit_code, began))
        words = found.headline.partition(". ")[0]
        create_markdown_artifact(comparison_report.markdown(comparison, compared, found), key="compare", description=words)
        match found.exit_code:
            case 0:
                return Completed(message=words)
            case 1:
                return Failed(message=words)
            case 3:
                return State(type=StateType.COMPLETED, name="Inconclusive", message=words)
            case _:
                return Failed(name="NoVerdict", message=words)


def _side(name: str, builds: CommitBuilds) -> comparing.Side:
    """Raises SourceError, BuildError."""
    engine = builds.of(resolve(find_repo(current_host().repo), name))
    if isinstance(engine, Unmeasurable):
        raise BuildError(f"{name} ({engine.commit[:10]}): {engine.why}")
    return comparing.Side(name, engine.build, engine.source)
