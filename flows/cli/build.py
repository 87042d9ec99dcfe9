"""paceline build: the engine of a source tree, built and kept."""

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.errors import told
from flows.cli.options import with_fields
from flows.settings import HostSettings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(build)


@with_fields(HostSettings, leave_out=("build", "targets"))
def build(
    given: dict[str, Any],
    *,
    print_folder: Annotated[bool, typer.Option("--print-folder", help="Print the build's folder alone.")] = False,
) -> None:
    """Build the native engine of a source tree, or find it built. Builds are kept by content below the cache folder."""
    from flows.build import build_asked
    from flows.settings import load_host

    with told():
        host = load_host(given)
        log = _log(host.cache)
        built, source = build_asked(host.model_copy(update={"build": None}), log)
    if print_folder:
        print(built.folder)
        return
    print(f"engine of {source.commit[:10]}{' with uncommitted changes' if source.dirty else ''}: {built.folder}")
    print(built.how)
    print(f"compiler {built.info['compiler']}, log {log}")


def _log(cache: Path) -> Path:
    return cache / "builds" / "last.log"
