"""Runs a flow in this process, the validation before all: settings, log, server, flow, and what ended it."""

import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.admission import refuse_unfit
from flows.build import source_under_test
from flows.commit_parameters import BackfillParameters
from flows.commit_range import commits_in
from flows.folders import RunFolder, new_run_id
from flows.parameters import ValidationParameters
from flows.plan import read_plan
from flows.progress import on_terminal
from flows.resume import owned
from flows.server import ensure_api
from flows.settings import HostSettings, load_host, load_parameters, prepare_prefect, use_host
from flows.signals import Terminated, sigterm_raises
from flows.source import find_repo


@dataclass(frozen=True)
class Ended:
    """How a run ended: with a summary, with an error, or interrupted by a signal."""

    summary: dict[str, Any] | None = None
    message: str = ""
    error: BaseException | None = None
    interrupted_by: str = ""


def resolve(for_run: Mapping[str, Any], for_host: Mapping[str, Any]) -> tuple[ValidationParameters, HostSettings, RunFolder]:
    """Settings and the run's folder. A run that is resumed keeps its own parameters, where nothing else is given.

    Raises SettingsError, PlanError.
    """
    host = load_host(for_host)
    parameters = load_parameters(for_run)
    if parameters.run is not None:
        folder = RunFolder(Path(parameters.results).absolute(), parameters.run)
        if folder.plan.exists():
            recorded = read_plan(folder.plan).parameters.model_dump(exclude={"run", "results"})
            parameters = load_parameters({**recorded, "results": parameters.results, **for_run})
        return parameters, host, folder
    parameters = parameters.model_copy(update={"run": new_run_id()})
    return parameters, host, RunFolder(Path(parameters.results).absolute(), str(parameters.run))


def launch(parameters: ValidationParameters, host: HostSettings, folder: RunFolder) -> Ended:
    """Run the flow; what happens in it comes back. Raises ServerError, SettingsError, SourceError, BuildError, RunTakenError."""
    source_under_test(host)
    with on_terminal():
        refuse_unfit(parameters, host)

    def run() -> Ended:
        from flows.validation import validate  # takes seconds, while the server starts

        return _ended(validate(parameters, return_state=True), lambda: _json_of(_folder_of(parameters).summary_json))

    return in_process(run, host, folder)


def launch_backfill(parameters: BackfillParameters, host: HostSettings, folder: RunFolder) -> Ended:
    """Run a backfill as `launch` runs a validation; the summary is its backfill.json. An empty range is refused first."""
    commits_in(find_repo(host.repo), parameters.range)
    with on_terminal():
        refuse_unfit(parameters.measure, host)

    def run() -> Ended:
        from flows.backfill import backfill

        return _ended(backfill(parameters, return_state=True), lambda: _json_of(folder.root / "backfill.json"))

    return in_process(run, host, folder)


def in_process(run: Callable[[], Ended], host: HostSettings, folder: RunFolder) -> Ended:
    """Run a flow here, with a server, the run's log and the signals taken care of. Raises as `launch` does."""
    folder.create()
    _log_to(folder.run_log)
    with owned(folder), sigterm_raises(), on_terminal(), use_host(host):
        try:
            prepare_prefect(host.cache)
            server = ensure_api(host.cache, folder.logs / "prefect-server.log")
            import flows.validation  # noqa: F401  # takes seconds, while the server starts

            if server is not None:
                server.wait_ready()
            return run()
        except KeyboardInterrupt:
            return Ended(interrupted_by="SIGINT")
        except Terminated:
            return Ended(interrupted_by="SIGTERM")


def _ended(state: Any, summary: Callable[[], dict[str, Any] | None]) -> Ended:
    outcome = state.result(raise_on_failure=False)
    if isinstance(outcome, BaseException):
        logging.getLogger("paceline").error("".join(traceback.format_exception(outcome)))
        return Ended(error=outcome, message=state.message or "")
    return Ended(summary=summary(), message=state.message or "")


def _folder_of(parameters: ValidationParameters) -> RunFolder:
    return RunFolder(Path(parameters.results).absolute(), str(parameters.run))


def _json_of(path: Path) -> dict[str, Any] | None:
    import json

    if not path.exists():
        return None
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _log_to(path: Path) -> None:
    """Send everything that is logged to the run's log, until this process ends, and nothing to the terminal.

    Prefect leaves the root logger alone where it has a handler already.
    """
    handler = logging.FileHandler(path, encoding="utf-8")
    form = "%(asctime)s %(levelname)-7s %(name)s %(task_run_name)s: %(message)s"
    handler.setFormatter(logging.Formatter(form, defaults={"task_run_name": ""}))
    logging.getLogger().addHandler(handler)
    logging.getLogger("paceline").setLevel(logging.INFO)
