"""Raw records into the store. Idempotent: a record is known by its id and digest, and what is known already changes nothing.

A file that cannot be read as a record, or that carries a known id with other content, is named, noted in the table `set_aside`,
and stops nothing. Files are read and checked before the store is opened (storage/reading.py); each batch is one transaction.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from duckdb import DuckDBPyConnection
from duckdb import Error as DuckDBError

from storage.builds import store_build
from storage.database import Database
from storage.errors import StoreError
from storage.load_rows import insert_lines, insert_rows
from storage.reading import Reading, Refusal, read_batches, readers_for, shown
from storage.runs import store_run, store_verdicts
from storage.sql import transaction

__all__ = ["IngestReport", "derive", "ingest", "setting_aside", "shown", "store_build", "store_run", "store_verdicts"]

BATCH = 2000  # records in one transaction where readers fill it; a quarter of that where this process reads
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


def ingest(db_path: Path | str, records: Iterable[Path], *, root: Path | None = None) -> IngestReport:
    """Store the records in these files and publish the snapshot. Raises StoreError where the store cannot be written.

    root is the folder that paths are noted relative to: the one that holds the store, unless given.
    """
    database = Database(db_path)
    root = root or database.path.parent
    files = [Path(path) for path in records]
    readers = readers_for(len(files))
    size = BATCH if readers else BATCH // 4
    added = unchanged = 0
    rejected: list[tuple[Path, str]] = []
    batches = (files[first : first + size] for first in range(0, len(files), size))
    with closing(read_batches(batches, root, readers)) as reading:
        for found in reading:
            read = [item for item in found if isinstance(item, Reading)]
            unreadable = [(item.path, item.reason) for item in found if isinstance(item, Refusal)]
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


def _sort_out(connection: DuckDBPyConnection, read: list[Reading]) -> tuple[list[Reading], int, list[tuple[Path, str]]]:
    """(new, how many known already, rejected): the first of two records with one id wins, in the store and in the batch."""
    ids = [item.record_id for item in read]
    found = connection.execute(
        "SELECT record_id, digest, source_file FROM records WHERE record_id IN (SELECT unnest(?))", [ids]
    ).fetchall()
    seen = {record_id: (known, source) for record_id, known, source in found}
    new, unchanged, rejected = [], 0, []
    for item in read:
        known, source = seen.get(item.record_id, (None, ""))
        if known is None:
            new.append(item)
            seen[item.record_id] = (item.digest, item.name)
        elif known == item.digest:
            unchanged += 1
        else:
            reason = f"field record_id: {item.record_id} has other content in the store (from {source}); a record never changes"
            rejected.append((item.path, f"{item.path}: {reason}: set aside"))
    return new, unchanged, rejected


def _insert(connection: DuckDBPyConnection, new: list[Reading]) -> None:
    tables: dict[str, list[str]] = {}
    for item in new:
        for table, lines in item.lines.items():
            tables.setdefault(table, []).extend(lines)
    for table, lines in tables.items():
        if table in _SHARED:
            insert_lines(connection, table, dict.fromkeys(lines), on_conflict="OR IGNORE")
        else:
            insert_lines(connection, table, lines)
    derive(connection, [item.record_id for item in new])


def derive(connection: DuckDBPyConnection, record_ids: list[str]) -> None:
    """Form the per-process figures of these records from their rounds and requests."""
    connection.execute("CREATE OR REPLACE TEMP TABLE batch AS SELECT unnest(?::VARCHAR[]) AS record_id", [record_ids])
    for name in ("process_figures", "process_latencies"):
        connection.execute((_DERIVED / f"{name}.sql").read_text(encoding="utf-8"))


def _note(connection: DuckDBPyConnection, read: list[Reading], refused: list[tuple[Path, str]], folder: Path) -> None:
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
