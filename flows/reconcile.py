"""What the Prefect server is told after a stop, a crash or a reboot: what is dead, what is taken up, which nights are past.

Runs in the service's own process, before it takes any work.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Crashed

from flows.ledger import left_behind

TAKEN_UP = "taken up"
STOPPED = "Runner is shutting down."  # Prefect's own words in the state of a run that our stop cancelled
LATEST = timedelta(hours=1)  # a night missed by more is not caught up: people work by then
_MISSED = "Missed: paceline up was not running at that time."
_GONE = "The process that ran it is gone; what it had measured is kept."


async def reconcile(client: PrefectClient, deployments: Mapping[UUID, str], ledger: Path, own_server: bool) -> list[str]:
    """Settle what was left. Returns a line for each thing done, for people."""
    told: list[str] = []
    for flow_run_id in left_behind(ledger):
        told += await _settle(client, flow_run_id, deployments)
    if own_server:  # nobody else serves here, so what is claimed and has not begun was claimed by a process that is gone
        for run in await _runs(client, deployments, (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)):
            told += await _bury(client, run)
    told += await _drop_past_nights(client, deployments)
    return told


async def _settle(client: PrefectClient, flow_run_id: UUID, deployments: Mapping[UUID, str]) -> list[str]:
    """One run of the ledger: say that it is dead, and start it again unless a person cancelled it or it was taken up before."""
    try:
        run = await client.read_flow_run(flow_run_id)
    except ObjectNotFound:  # of another server, or deleted in the UI
        return []
    interrupted = _interrupted(run)
    told = await _bury(client, run)
    if not interrupted or TAKEN_UP in run.tags or run.deployment_id is None or run.deployment_id not in deployments:
        return told
    again = await client.create_flow_run_from_deployment(
        run.deployment_id, parameters=run.parameters, tags=[TAKEN_UP], name=f"{run.name} ({TAKEN_UP})"
    )
    return [*told, f"{run.name}: interrupted, taken up as {again.name}"]


def _interrupted(run: FlowRun) -> bool:
    """Whether it ended, or stands still, through no person's will and without a result."""
    if run.state is None or run.state.type in (StateType.RUNNING, StateType.PENDING, StateType.CRASHED):
        return True
    return run.state.type == StateType.CANCELLED and run.state.message == STOPPED


async def _bury(client: PrefectClient, run: FlowRun) -> list[str]:
    """A state that is true, where the run still claims to live; its subflows go with it."""
    for child in await client.read_flow_runs(flow_run_filter=_below(run.id)):
        if child.state is not None and not child.state.is_final():
            await client.set_flow_run_state(child.id, Crashed(message=_GONE), force=True)
    if run.state is None or run.state.is_final():
        return []
    end: State[Any] = Cancelled(message=_GONE) if run.state.type == StateType.CANCELLING else Crashed(message=_GONE)
    await client.set_flow_run_state(run.id, end, force=True)
    return [f"{run.name}: its process was gone; now {end.name}"]


def _below(flow_run_id: UUID) -> FlowRunFilter:
    return FlowRunFilter.model_validate({"parent_flow_run_id": {"any_": [flow_run_id]}})


async def _drop_past_nights(client: PrefectClient, deployments: Mapping[UUID, str]) -> list[str]:
    told = []
    limit = datetime.now(UTC) - LATEST
    for run in await _runs(client, deployments, (StateType.SCHEDULED,)):
        due = run.expected_start_time
        if run.auto_scheduled and due is not None and due < limit:
            await client.set_flow_run_state(run.id, Cancelled(message=_MISSED), force=True)
            told.append(f"{run.name}: was due at {due:%Y-%m-%d %H:%M} UTC while nothing ran; left out")
    return told


async def _runs(client: PrefectClient, deployments: Mapping[UUID, str], states: tuple[StateType, ...]) -> list[FlowRun]:
    if not deployments:
        return []
    return await client.read_flow_runs(
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=list(deployments))),
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(states)))),
    )
