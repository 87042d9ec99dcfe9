"""The deployments that `paceline up` serves, and the process that runs them: `python -P -m flows.deployments`.

One run at a time. SIGTERM cancels the run that goes on, pauses the schedule and ends; serving again resumes it.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.flows import Flow
from prefect.runner import Runner
from prefect.types.entrypoint import EntrypointType
from prefect.utilities.callables import ParameterSchema

from flows import nightly, served, served_commits
from flows.notify import ensure_automation
from flows.reconcile import reconcile
from flows.settings import SettingsError, current_host, load_parameters
from flows.up_settings import UpSettings, load_up

READY = "paceline: serving"  # the line by which the parent knows
_TAGS = ["paceline"]


class StrictSchema(ParameterSchema):
    """The form refuses a parameter that it does not know, in the API, before anything runs."""

    additionalProperties: bool = False  # noqa: N815  # JSON schema's own name


def night_schedule(settings: UpSettings) -> CronSchedule:
    """When the nightly runs. A cron time that a clock change skips or doubles still fires once."""
    return CronSchedule(cron=settings.schedule, timezone=settings.timezone)


async def deployments(settings: UpSettings) -> list[RunnerDeployment]:
    """All that is served, with what their forms say. Raises SettingsError, NightPlanError."""
    return [
        await _deployment(nightly.nightly, "nightly", _NIGHTLY, {}, night_schedule(settings)),
        await _deployment(served.validate, "validate", _VALIDATE, _defaults()),
        await _deployment(served.site, "site", _SITE, {}),
        await _deployment(served_commits.backfill, "backfill", _BACKFILL, {}),
        await _deployment(served_commits.bisect, "bisect", _BISECT, {"good": "HEAD~10", "bad": "HEAD"}),
        await _deployment(served_commits.compare, "compare", _COMPARE, {"base": "HEAD~1"}),
    ]


_NIGHTLY = """Measures what the plan file says, each night.

A commit that is decided already gets the canary and the machine probe alone, unless **force** is set."""
_VALIDATE = """Measures serial against batched decode on this machine and says whether batching pays.

Every field has a default: press **Submit** to measure now."""
_BACKFILL = "Measures the commits of a range that have no point yet, coarse first."
_BISECT = "Finds the commit that a loss came with: GOOD against one suspect after the other."
_COMPARE = "Holds one commit against another, the same leg of both side by side."
_SITE = "Draws the site anew from the results store."


def _defaults() -> dict[str, Any]:
    """paceline.toml's values, where it has any, as the form's own."""
    given = load_parameters({}).model_dump(mode="json", exclude_defaults=True, exclude={"results", "run"})
    return {name: value for name, value in given.items() if value is not None}


async def _deployment(
    flow: Flow[Any, Any], name: str, text: str, defaults: Mapping[str, Any], schedule: CronSchedule | None = None
) -> RunnerDeployment:
    made = await flow.ato_deployment(
        name=name,
        description=text,
        tags=_TAGS,
        parameters={"parameters": dict(defaults)},
        entrypoint_type=EntrypointType.MODULE_PATH,
        paused=False,
        schedules=[schedule] if schedule else None,
    )
    known = made._parameter_openapi_schema.model_dump(exclude_unset=True)
    made._parameter_openapi_schema = StrictSchema(**known, additionalProperties=False)
    return made


async def serve(settings: UpSettings, own_server: bool, tell: Callable[[str], None]) -> None:
    """Register the deployments, settle what was left, then run what comes, until SIGTERM."""
    runner = Runner(name="paceline", limit=1, pause_on_shutdown=True, query_seconds=5)
    known: dict[UUID, str] = {}
    async with get_client() as client:
        for deployment in await deployments(settings):
            known[await runner.aadd_deployment(deployment)] = deployment.name
        tell(f"paceline: {await ensure_automation(settings.notify)}")
        for line in await reconcile(client, known, served.ledger(current_host()), own_server):
            tell(f"paceline: {line}")
    tell(READY)
    await runner.start()


def main(arguments: list[str]) -> int:
    """Serve with the settings of the environment. `--own-server`: nobody else serves on this Prefect server."""
    try:
        asyncio.run(serve(load_up(), "--own-server" in arguments, lambda line: print(line, flush=True)))
    except (SettingsError, ValueError) as error:
        print(f"error: {error}", flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
