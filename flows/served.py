"""The flows that `paceline up` serves beside the nightly: a validation by hand, and the site.

They add to the plain validation what a service needs: its own results folder, the ledger of what runs, taking up what was
interrupted, the run's progress and links in the UI, and word of changed verdicts.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import flow, get_run_logger, task
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from flows import artifacts, notify, validation
from flows.admission import refuse_unfit
from flows.build import source_under_test
from flows.folders import RunFolder, new_run_id
from flows.forms import ServedValidation, SiteParameters
from flows.ledger import alive
from flows.parameters import ValidationParameters
from flows.plan import make_plan, read_plan
from flows.progress import report
from flows.resume import owned, unfinished_run
from flows.settings import HostSettings, current_host
from flows.site import SITE, draw_site
from flows.up_settings import UpSettings, load_up


def ledger(host: HostSettings) -> Path:
    """Where this machine keeps its ledger of flow runs."""
    return host.cache / "up" / "running"


@flow(name="validate", flow_run_name="{parameters.workload} tp{parameters.tp} {parameters.checkpoint}", persist_result=False)
def validate(parameters: ServedValidation) -> State[Any]:
    """Measure serial against batched decode and say what was found."""
    settings, host = load_up(), current_host()
    with in_service(host):
        resolved = take_up(parameters.resolved(settings), host)
        folder = folder_of(resolved)
        with measuring(folder):
            state: State[Any] = validation.validate.fn(resolved)
        finish([folder], settings)
        return state


@flow(name="site", flow_run_name="site", persist_result=False)
def site(parameters: SiteParameters) -> State[Any]:
    """Draw the site anew from the store."""
    settings, host = load_up(), current_host()
    with in_service(host):
        if parameters.rebuild:
            rebuild_store(settings.results.absolute(), host.targets)
        files = draw_site(settings.results.absolute())
        return Completed(message=f"{files} pages and files in {settings.results.absolute() / SITE}")


@contextmanager
def in_service(host: HostSettings) -> Iterator[None]:
    """What every served flow runs in: an entry in the ledger, and its reports in the UI."""
    logging.getLogger("paceline").setLevel(logging.INFO)
    with alive(ledger(host), UUID(str(flow_run.id))), artifacts.in_ui():
        yield


def folder_of(parameters: ValidationParameters) -> RunFolder:
    """The folder of parameters whose run is named."""
    return RunFolder(Path(parameters.results).absolute(), str(parameters.run))


def take_up(parameters: ValidationParameters, host: HostSettings) -> ValidationParameters:
    """Name the run: the one asked for, with the parameters it began with; else the interrupted one of this plan; else a new one.

    Raises PlanError, SourceError, BuildError, SettingsError for a checkpoint that cannot be measured.
    """
    refuse_unfit(parameters, host)
    results = Path(parameters.results)
    if parameters.run is not None:
        plan = RunFolder(results, parameters.run).plan
        if not plan.exists():
            return parameters
        kept = {"run": parameters.run, "results": parameters.results, "budget_minutes": parameters.budget_minutes}
        return read_plan(plan).parameters.model_copy(update=kept)
    identity = make_plan(parameters, source_under_test(host).tree).identity
    interrupted = unfinished_run(results, identity)
    if interrupted is not None:
        report().note(f"run {interrupted} of this plan was interrupted: it is taken up")
    return parameters.model_copy(update={"run": interrupted or new_run_id()})


@contextmanager
def measuring(folder: RunFolder) -> Iterator[None]:
    """Own the run's folder, and keep its log there. Raises RunTakenError."""
    with owned(folder):
        handler = logging.FileHandler(folder.run_log, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
        logger = logging.getLogger("paceline")
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            handler.close()


def finish(folders: list[RunFolder], settings: UpSettings) -> None:
    """The links and word of what changed, for runs that have come to verdicts; each has drawn the site."""
    done = [folder for folder in folders if folder.summary_json.exists()]
    if not done:
        return
    for folder in done:
        tell(folder, settings)
    artifacts.link(SITE, settings.pages_url and f"{settings.pages_url}/{SITE}/index.html", "The site: all runs")


def tell(folder: RunFolder, settings: UpSettings) -> None:
    """Link the run's page, and announce what it changed."""
    address = settings.pages_url and f"{settings.pages_url}/{folder.run_id}/index.html"
    artifacts.link("page", address, f"The page of run {folder.run_id}")
    for line in notify.tell_run(folder, address):
        get_run_logger().warning("%s", line)


@task(name="rebuild", task_run_name="rebuild the store", persist_result=False)
def rebuild_store(results: Path, targets: Path | None) -> None:
    """Read the store anew from all raw records, and judge every run again. Raises StoreError."""
    from flows.aggregate import judge_again
    from storage.rebuild import rebuild

    told = rebuild(results, results, recompute=lambda store, run_id: judge_again(store, results / run_id, run_id, targets))
    report().note(str(told))
