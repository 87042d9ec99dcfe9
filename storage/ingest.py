"""Raw records into the store. Idempotent: a record is known by its id and digest, and what is known already changes nothing.

A file that cannot be read as a record, or that carries a known id with other content, is named, noted in the table `set_aside`,
and stops nothing. Files are read and checked before the store is opened; each batch is one transaction.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection
from duckdb import Error as DuckDBError

from storage.builds import store_build
from storage.database import Database
from storage.errors import StoreError
from storage.load_rows import insert_rows
from storage.records import Record, RecordError, load
from storage.rows import rows_of
from storage.runs import store_run, store_verdicts
from storage.sql import transaction

__all__ = ["IngestReport", "derive", "ingest", "setting_aside", "shown", "store_build", "store_run", "store_verdicts"]

BATCH = 500  # records in one transaction
_LAST_KEY = re.compile(r'"digest":\s*"([0-9a-f]{64})"\s*\}\s*$')  # where `dump` puts it
_DERIVED = Path(__file__).parent / "derived"
_SHARED = ("environments", "series")  # rows that many records have in common


@dataclass(frozen=True)
class IngestReport:
    """What became of the files offered."""

    added: int
    unchanged: int
    rejected: list[tuple[Path, str]] = field(default_factory=list)  # each with its reason

    def __str__(self) -> str:
        lines = [f"{self.added} added, {self.unchanged} unchanged, {len(self.rejected)} rejected"]
        return "\n".join(lines + [f"  {reason}" for _, reason in self.rejected])


@dataclass(frozen=True)
class _Read:
    """A file that is a record."""

    path: Path
    name: str
    record: Record
    digest: str


def ingest(db_path: Path | str, records: Iterable[Path], *, root: Path | None = None) -> IngestReport:
    """Store the records in these files and publish the snapshot. Raises StoreError where the store cannot be written.

    root is the folder that paths are noted relative to: the one that holds the store, unless given.
    """
    database = Database(db_path)
    root = root or database.path.parent
    added = unchanged = 0
    rejected: list[tuple[Path, str]] = []
    for paths in _batches(records):
        read, unreadable = _read_all(paths, root)
        with database.write(publish=False) as connection:
            new, known, conflicts = _sort_out(connection, read)
            refused = unreadable + conflicts
            with transaction(connection):
                _insert(connection, new)
                _note(connection, read, refused, root)
        added, unchanged = added + len(new), unchanged + known
        rejected += refused
    database.publish_snapshot()
    return IngestReport(added, unchanged, rejected)


def shown(path: Path, folder: Path) -> str:
    """A path relative to the results folder where it lies in it, so that a moved folder rebuilds to the same rows."""
    path = path.absolute()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def _batches(paths: Iterable[Path]) -> Iterator[list[Path]]:
    iterator = iter(paths)
    while batch := list(islice(iterator, BATCH)):
        yield [Path(path) for path in batch]


def _read_all(paths: list[Path], folder: Path) -> tuple[list[_Read], list[tuple[Path, str]]]:
    read, rejected = [], []
    for path in paths:
        try:
            record = load(path)
        except RecordError as error:
            rejected.append((path, str(error)))
        else:
            read.append(_Read(path, shown(path, folder), record, _stated_digest(path)))
    return read, rejected


def _stated_digest(path: Path) -> str:
    """The digest in a record that `load` has found good. Not worked out anew: a field that a later version adds changes that."""
    text = path.read_text(encoding="utf-8")
    match = _LAST_KEY.search(text, max(0, len(text) - 200))
    return match[1] if match else str(json.loads(text)["digest"])


def _sort_out(connection: DuckDBPyConnection, read: list[_Read]) -> tuple[list[_Read], int, list[tuple[Path, str]]]:
    """(new, how many known already, rejected): the first of two records with one id wins, in the store and in the batch."""
    ids = [item.record.record_id for item in read]
    found = connection.execute(
        "SELECT record_id, digest, source_file FROM records WHERE record_id IN (SELECT unnest(?))", [ids]
    ).fetchall()
    seen = {record_id: (known, source) for record_id, known, source in found}
    new, unchanged, rejected = [], 0, []
    for item in read:
        known, source = seen.get(item.record.record_id, (None, ""))
        if known is None:
            new.append(item)
            seen[item.record.record_id] = (item.digest, item.name)
        elif known == item.digest:
            unchanged += 1
        else:
            reason = (
                f"field record_id: {item.record.record_id} has other content in the store (from {source}); a record never changes"
            )
            rejected.append((item.path, f"{item.path}: {reason}: set aside"))
    return new, unchanged, rejected


def _insert(connection: DuckDBPyConnection, new: list[_Read]) -> None:
    tables: dict[str, list[dict[str, Any]]] = {}
    for item in new:
        for table, rows in rows_of(item.record, item.digest, item.name).items():
            tables.setdefault(table, []).extend(rows)
    for table, rows in tables.items():
        insert_rows(connection, table, rows, on_conflict="OR IGNORE" if table in _SHARED else "")
    derive(connection, [item.record.record_id for item in new])


def derive(connection: DuckDBPyConnection, record_ids: list[str]) -> None:
    """Form the per-process figures of these records from their rounds and requests."""
    connection.execute("CREATE OR REPLACE TEMP TABLE batch AS SELECT unnest(?::VARCHAR[]) AS record_id", [record_ids])
    for name in ("process_figures", "process_latencies"):
        connection.execute((_DERIVED / f"{name}.sql").read_text(encoding="utf-8"))


def _note(connection: DuckDBPyConnection, read: list[_Read], refused: list[tuple[Path, str]], folder: Path) -> None:
    """Keep the list of files set aside: those of this batch enter or leave it."""
    good = [item.name for item in read]
    connection.execute("DELETE FROM set_aside WHERE path IN (SELECT unnest(?))", [good])
    rows = [{"path": shown(path, folder), "reason": reason.removeprefix(f"{path}: ")} for path, reason in refused]
    insert_rows(connection, "set_aside", rows, on_conflict="OR REPLACE")


@contextmanager
def setting_aside(connection: DuckDBPyConnection, path: Path, root: Path, report: IngestReport) -> Iterator[None]:
    """A transaction around what stores one file or folder; where that cannot be read, it is named in the report and in
    `set_aside`.
    """
    try:
        with transaction(connection):
            yield
    except (StoreError, DuckDBError, KeyError, TypeError, ValueError) as error:
        reason = f"{path}: not as paceline writes it: {type(error).__name__}: {error}"
        report.rejected.append((path, reason))
        with transaction(connection):
            _note(connection, [], [(path, reason)], root)
