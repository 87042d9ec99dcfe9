"""paceline site and chart: the pages and pictures of what is in the results store."""

import os
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.errors import fail, told

_Results = Annotated[Path, typer.Option("--results", help="Results folder, store or snapshot.")]
_RESULTS = Path("results")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(site)
    app.command()(chart)


def site(
    results: _Results = _RESULTS,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write. Left out: site in the results folder.")] = None,
    commit_url: Annotated[
        str | None,
        typer.Option("--commit-url", help="Address of a commit, with {commit} in it. Left out: as for paceline up."),
    ] = None,
) -> None:
    """Draw all runs of the store as plain files: no server, no network. Every run does it too."""
    from dashboards.site import write_site
    from flows.up_settings import load_up

    with told():
        template = load_up({} if commit_url is None else {"commit_url": commit_url}).commit_url
        snapshot = _up_to_date(results)
        written = write_site(snapshot, out or snapshot.parent / "site", template)
    print(f"{written.index_html}: {len(written.files)} files, {written.total_bytes / 1e6:.2f} MB")


def chart(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Chart, such as trend; an unknown name lists them.")],
    out: Annotated[Path, typer.Option("--out", help="File to write: .png, .svg, .json (Vega-Lite) or .html (offline page).")],
    results: _Results = _RESULTS,
    run: Annotated[str | None, typer.Option("--run", help="Run of a chart on one run. Left out: the newest.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="In dark colours (.png, .svg, .json).")] = False,
) -> None:
    """Draw one chart into a file."""
    from dashboards.export import ExportError, export
    from dashboards.run_view import UnknownRunError

    with told():
        try:
            written = export(name, _up_to_date(results), out, run, dark)
        except (ExportError, UnknownRunError) as error:
            fail(str(error))
    print(written)


def _up_to_date(results: Path) -> Path:
    """The file to read; a store of an older paceline is migrated first, where it may be written. Raises StoreError."""
    from storage.database import Database, readable_path, store_path

    path, store = readable_path(results), store_path(results)
    if store.exists() and os.access(store, os.W_OK) and os.access(store.parent, os.W_OK):
        with Database(store).write():
            path = readable_path(results)
    return path
