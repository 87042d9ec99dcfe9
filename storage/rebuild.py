"""The store from the raw folder alone.

The new store is made aside and takes the old one's place by a rename, while other writers wait; so a rebuild that is killed
changes nothing, and records that arrive meanwhile are in it.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from duckdb import Error as DuckDBError

from storage.commits import COMMITS_FILE, load_commits
from storage.database import STORE_NAME, Database
from storage.decisions import DECISIONS_FILE, load_decisions
from storage.errors import StoreError
from storage.ingest import IngestReport, ingest, setting_aside
from storage.queries import query
from storage.runs import store_verdicts
from storage.sources import insert_folder, record_files, run_folders

_CANNOT_OPEN = "DuckDB cannot open it"  # of the error for a file that is no database
Recompute = Callable[[Path, str], Sequence[Mapping[str, Any]]]


def rebuild(raw: Path | str, db_path: Path | str, *, recompute: Recompute | None = None) -> IngestReport:
    """Make the store at `db_path` anew from the results folder `raw`: records, run.json, plan.json, builds, commits.json,
    decisions.json.

    Verdicts are derived: `recompute(store, run_id)` gives those of a run (as `store_verdicts` takes them) from the ratios in
    the new store; without it the table stays empty. A store that has records of which `raw` has no file is kept beside the new
    one, which is said. Raises StoreError where `raw` is no folder, where it has no record and the store has some (as one that
    was imported), or where the store cannot be replaced.
    """
    raw = Path(raw).absolute()
    if not raw.is_dir():
        raise StoreError(f"{raw}: no such folder; give the results folder that holds the runs")
    database = Database(db_path)
    database.path.parent.mkdir(parents=True, exist_ok=True)
    aside = database.path.parent / f".rebuild.{os.getpid()}"
    for stale in database.path.parent.glob(".rebuild.*"):
        if not Path(f"/proc/{stale.suffix[1:]}").exists() or stale == aside:
            shutil.rmtree(stale, ignore_errors=True)  # of a rebuild that was killed
    try:
        work = Database(aside / STORE_NAME)
        files = record_files(raw)
        report = _fill(work, raw, files, recompute)
        with database.locked():
            late = sorted(set(record_files(raw)) - set(files))
            if late:
                report = _sum(report, _fill(work, raw, late, recompute))
            lost = _records_of(database) - _records_of(work)
            if lost and not files and not late:
                raise StoreError(
                    f"{raw}: holds no record, and {database.path.name} has {len(lost)}, as one that `paceline import` filled: "
                    "a rebuild would empty it, and nothing was changed. Bring the records in with `paceline ingest`, or remove "
                    "the store"
                )
            if lost:
                report.rejected.append((database.path, _keep_beside(database.path, len(lost))))
            _take_place(work, database)
        database.publish_snapshot()
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return report


def _fill(work: Database, raw: Path, files: list[Path], recompute: Recompute | None) -> IngestReport:
    report = ingest(work.path, files, root=raw)
    with work.write() as connection:
        for folder in run_folders(raw):
            insert_folder(connection, folder, raw, report)
        with setting_aside(connection, raw / COMMITS_FILE, raw, report):
            load_commits(connection, raw / COMMITS_FILE)
        with setting_aside(connection, raw / DECISIONS_FILE, raw, report):
            load_decisions(connection, raw / DECISIONS_FILE)
    if recompute is not None:
        for run_id in _runs_of(work, files, raw):
            try:
                verdicts = recompute(work.path, run_id)
            except (StoreError, KeyError, TypeError, ValueError) as error:
                report.rejected.append((raw / run_id, f"{raw / run_id}: its verdicts cannot be worked out again: {error}"))
            else:
                store_verdicts(work.path, run_id, verdicts)
    return report


def _runs_of(work: Database, files: Iterable[Path], raw: Path) -> list[str]:
    """The runs that have a record among these files."""
    names = [file.relative_to(raw).as_posix() for file in files]
    found = query(
        work.path, "SELECT DISTINCT run_id FROM records WHERE source_file IN (SELECT unnest(?)) ORDER BY run_id", [names]
    )
    return [str(run_id) for run_id in found["run_id"]]


def _records_of(database: Database) -> set[str]:
    """Ids of a store's records; none of one that is not there or cannot be opened, which a rebuild is there to replace."""
    if not database.path.exists():
        return set()
    try:
        with database.attached() as connection:
            return {str(name) for (name,) in connection.execute("SELECT record_id FROM store.records").fetchall()}
    except StoreError as error:
        if _CANNOT_OPEN not in str(error):
            raise  # held by someone, or newer: not ours to replace
        return set()
    except DuckDBError:  # another database
        return set()


def _keep_beside(path: Path, lost: int) -> str:
    """Keep the old store under another name. The reason, for the report."""
    name = f"{path.stem}.before-rebuild"
    number = next(number for number in count(1) if not path.with_name(f"{name}-{number}{path.suffix}").exists())
    kept = path.with_name(f"{name}-{number}{path.suffix}")
    shutil.copy2(path, kept)
    return f"{path}: {lost} of its records have no readable file any more; as it was, it is kept as {kept.name}"


def _take_place(work: Database, database: Database) -> None:
    """Put the new store where the old one is. The lock is held, so only a foreign client could have the old one open."""
    wal, new_wal = Path(f"{database.path}.wal"), Path(f"{work.path}.wal")
    if new_wal.exists():
        raise StoreError(f"{work.path}: the new store was not closed cleanly; nothing was replaced")
    if database.path.exists():
        try:
            with database.attached() as connection:
                connection.execute("CHECKPOINT")
        except StoreError as error:
            if _CANNOT_OPEN not in str(error):
                raise
    wal.unlink(missing_ok=True)
    work.path.replace(database.path)


def _sum(first: IngestReport, second: IngestReport) -> IngestReport:
    return IngestReport(first.added + second.added, first.unchanged + second.unchanged, first.rejected + second.rejected)
