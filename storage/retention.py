"""Letting go of detail: the rounds and requests of old records leave the store, their per-process figures stay.

Every view that compares processes, pairs, runs and commits reads the figures, so nothing of the history changes. The raw records
are not touched; a rebuild from them brings the detail back.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from storage.database import Database
from storage.rows import timestamp
from storage.sql import transaction


@dataclass(frozen=True)
class PruneReport:
    """How much detail went."""

    records: int
    rounds: int
    requests: int


def prune(db_path: Path | str, before: datetime) -> PruneReport:
    """Remove the rounds and requests of records that started before an instant. Idempotent."""
    with Database(db_path).write() as connection, transaction(connection):
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE old AS SELECT record_id FROM records WHERE started_at < ?::TIMESTAMP",
            [timestamp(before)],
        )
        counts = []
        for sql in (
            "SELECT count(DISTINCT record_id) FROM rounds WHERE record_id IN (SELECT record_id FROM old)",
            "DELETE FROM rounds WHERE record_id IN (SELECT record_id FROM old)",
            "DELETE FROM requests WHERE record_id IN (SELECT record_id FROM old)",
        ):
            row = connection.execute(sql).fetchone()
            counts.append(int(row[0]) if row else 0)
    return PruneReport(*counts)
