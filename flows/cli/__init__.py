"""The command line, `paceline`: one file a group of commands. What is heavy is imported when a command runs."""

import sys

import typer

from flows.cli import (
    backfill,
    bisect,
    build,
    check,
    compare,
    decide,
    doctor,
    draw,
    generate,
    measure,
    plan,
    records,
    store,
    up,
    validate,
)

_INTERRUPTED = 130  # as shells have it: 128 + SIGINT

app = typer.Typer(
    name="paceline",
    help="Does batching still pay, on this commit, on this machine? Measures serial against batched decode.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for group in (
    validate,
    compare,
    backfill,
    bisect,
    up,
    decide,
    plan,
    measure,
    generate,
    check,
    build,
    store,
    draw,
    records,
    doctor,
):
    group.register(app)


def main() -> None:
    """Entry point of `paceline`. Exit codes: 0 fine, 1 a target missed, 2 an error, 3 undecided, 130 interrupted."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
