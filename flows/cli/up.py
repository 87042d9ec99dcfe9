"""paceline up: the nightly and the Prefect UI, from one command."""

from typing import Any

import typer

from flows.cli.errors import fail, told
from flows.cli.options import split, with_fields
from flows.settings import HostSettings
from flows.up_settings import UpSettings

_WAIT_MINUTES = 30.0  # nobody watches a served run: it can wait for a quiet machine


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(up)


@with_fields(UpSettings, HostSettings, leave_out=("commit",))
def up(given: dict[str, Any]) -> None:
    """Start the Prefect server, serve the deployments nightly, validate and site, and stay until Ctrl-C or SIGTERM.

    PREFECT_API_URL joins a server in place of starting one. Every option can stand in paceline.toml too, in the tables [up] and
    [host], or in PACELINE_UP_* and PACELINE_* variables.
    """
    from flows.night_plan import NightPlanError, read_night
    from flows.settings import load_host
    from flows.up import UpError, run
    from flows.up_settings import load_up

    for_up, for_host = split(given, UpSettings)
    with told():
        settings, host = load_up(for_up), load_host(for_host)
        if "wait_minutes" not in host.model_fields_set:
            host = host.model_copy(update={"wait_minutes": _WAIT_MINUTES})
        try:
            read_night(settings.plan)
            run(settings, host, lambda line: print(line, flush=True))
        except (NightPlanError, UpError) as error:
            fail(str(error))
