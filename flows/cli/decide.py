"""paceline accept and waive: what a person decides about verdicts, kept with the reason."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.errors import fail, told
from flows.cli.options import option_name

_Results = Annotated[Path, typer.Option("--results", help="Results folder.")]
_Because = Annotated[str, typer.Option("--because", help="Why, in a sentence; it stands beside every verdict that it touches.")]
_RESULTS = Path("results")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(accept)
    app.command()(waive)


def accept(
    commit: Annotated[str, typer.Argument(help="Commit, branch or tag.")],
    because: _Because,
    target: Annotated[str | None, typer.Option("--target", help="Of this target alone. Left out: of all.")] = None,
    results: _Results = _RESULTS,
    repo: Annotated[Path | None, typer.Option("--repo", help="Repository. Left out: the current folder.")] = None,
) -> None:
    """Take a commit as the baseline that later nights are held against, though it did not pass."""
    from flows.revisions import resolve
    from storage.decisions import add_acceptance

    _need(because)
    with told():
        full = resolve(repo or Path.cwd(), commit)
        _need_nights(results, full)
        add_acceptance(results, full, because, datetime.now(UTC), _known(results, target))
    print(f"{full[:10]} is accepted{f' for {target}' if target else ''}: {because}")


def waive(
    target: Annotated[str, typer.Argument(help="Name of the target.")],
    until: Annotated[datetime, typer.Option("--until", formats=["%Y-%m-%d"], help="Last day (UTC).")],
    because: _Because,
    results: _Results = _RESULTS,
) -> None:
    """Let a target's FAIL count as seen up to a day. It stays named, and it ends by itself."""
    from storage.decisions import add_waiver

    _need(because)
    last = until.date()
    if last < _today():
        fail(f"--until {last}: lies in the past")
    with told():
        add_waiver(results, str(_known(results, target)), last, because, datetime.now(UTC))
    print(f"{target} is waived until {last}: {because}")


def _today() -> date:
    return datetime.now(UTC).date()


def _need(because: str) -> None:
    if not because.strip():
        fail(f"{option_name('because')} {because!r}: a text is needed")


def _need_nights(results: Path, commit: str) -> None:
    from storage.queries import nights

    if commit not in set(nights(results)["commit"]):
        fail(f"{commit[:10]}: never measured in {results}; a baseline needs figures: `paceline validate` on it first")


def _known(results: Path, target: str | None) -> str | None:
    """The target's name, which some run must have judged, so that a typing error decides nothing."""
    from storage.queries import verdicts

    names = sorted(set(verdicts(results)["name"]))
    if target is not None and target not in names:
        fail(f"{target!r}: no run in {results} has judged a target of that name; known are {', '.join(names) or 'none'}")
    return target
