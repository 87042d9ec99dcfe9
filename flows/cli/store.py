"""paceline sql, ingest, rebuild, export, import, prune: the results store."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.errors import fail, told

if TYPE_CHECKING:
    from storage.ingest import IngestReport

_REJECTED = 2
_Results = Annotated[Path, typer.Option("--results", help="Results folder, store or snapshot.")]
_RESULTS = Path("results")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (sql, ingest, rebuild, export, prune):
        app.command()(command)
    app.command("import")(import_back)


def sql(
    question: Annotated[
        str | None, typer.Argument(help="SQL, such as: select * from target_ratios. Left out: a conversation.")
    ] = None,
    results: _Results = _RESULTS,
    command: Annotated[str | None, typer.Option("-c", "--command", help="The same as the argument.")] = None,
    file: Annotated[Path | None, typer.Option("-f", "--file", help="Read the SQL from a file.")] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="table|csv|json|parquet|md", help="How results are written.")
    ] = "table",
) -> None:
    """Ask the results store. It reads the snapshot, so that it blocks nobody and changes nothing. Exit code 2 where SQL fails."""
    from storage import shell

    if sum(given is not None for given in (question, command, file)) > 1:
        fail("sql: one question at a time: as an argument, with --command or with --file")
    with told():
        code = shell.run(results, command=command or question, file=file, format=form)  # type: ignore[arg-type]  # run refuses other words
    sys.exit(code)


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Records, folders of runs, or archives (tar, zip) of them.")],
    results: _Results = _RESULTS,
) -> None:
    """Bring records in, also from other machines; a second time changes nothing. Exit code 2 where one was set aside."""
    from storage.sources import adopt

    with told():
        report = adopt(results, paths)
    if report.added:
        print("verdicts come with `paceline rebuild`, which judges every run, those of other machines too")
    _say(report)


def rebuild(results: _Results = _RESULTS) -> None:
    """Make the store anew from the raw records, and judge every run again."""
    from flows.aggregate import judge_again
    from flows.settings import load_host
    from storage.rebuild import rebuild as rebuild_store

    with told():
        targets = load_host().targets
        report = rebuild_store(
            results, results, recompute=lambda store, run_id: judge_again(store, results.absolute() / run_id, run_id, targets)
        )
    _say(report)


def export(
    folder: Annotated[Path, typer.Argument(help="New folder for the Parquet files.")], results: _Results = _RESULTS
) -> None:
    """Write the store as Parquet files, one folder a table."""
    from storage.export import export as export_store

    with told():
        report = export_store(results, folder)
    print(f"{report.folder}: {sum(report.rows.values())} rows of {len(report.rows)} tables")


def import_back(folder: Annotated[Path, typer.Argument(help="Folder of an export.")], results: _Results = _RESULTS) -> None:
    """Fill a new store from an export."""
    from storage.export import import_back as import_store

    with told():
        report = import_store(folder, results)
    print(f"{results}: {sum(report.rows.values())} rows of {len(report.rows)} tables")


def prune(
    before: Annotated[
        datetime, typer.Argument(formats=["%Y-%m-%d"], help="Day (UTC): details of earlier records leave the store.")
    ],
    results: _Results = _RESULTS,
) -> None:
    """Drop single rounds and requests of old records from the store. Figures of processes and the record files stay."""
    from storage.retention import prune as prune_store

    with told():
        report = prune_store(results, before.replace(tzinfo=UTC))
    print(f"{report.records} records: {report.rounds} rounds and {report.requests} requests dropped")


def _say(report: "IngestReport") -> None:
    print(report)
    sys.exit(_REJECTED if report.rejected else 0)
