"""paceline sql: a question to the results store, answered as a table or as CSV."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.errors import told


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(sql)


def sql(
    question: Annotated[str, typer.Argument(help="A SELECT, such as: select * from target_ratios")],
    results: Annotated[Path, typer.Option("--results", help="Results folder, store or snapshot.")] = Path("results"),
    *,
    csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values in place of a table.")] = False,
) -> None:
    """Ask the results store. It reads the snapshot, so that it blocks nobody and changes nothing."""
    from duckdb import Error  # only its exception: storage runs the query

    from storage.queries import query

    with told():
        try:
            frame = query(results, question)
        except Error as error:
            from flows.cli.errors import fail

            fail(str(error))
    if csv:
        frame.to_csv(sys.stdout, index=False)
    else:
        print(frame.to_string(index=False))
