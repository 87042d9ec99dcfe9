"""The site of all runs beside them in the results folder, drawn anew after each of them."""

from pathlib import Path

from prefect import task

from flows.progress import report
from flows.settings import SettingsError
from flows.up_settings import load_up

SITE = "site"


@task(name="site", task_run_name="site", persist_result=False)
def draw_site(results: Path) -> int:
    """Write the site from the snapshot of a results folder into it; returns how many files it has. Raises StoreError."""
    from dashboards.site import write_site

    return len(write_site(results / "snapshot.duckdb", results / SITE, _commit_url()).files)


def _commit_url() -> str | None:
    """The service's, so that a run by hand links commits as the nights do; a fault in its settings breaks no run."""
    try:
        return load_up().commit_url
    except SettingsError as error:
        report().note(f"the site links no commits: {error}")
        return None
