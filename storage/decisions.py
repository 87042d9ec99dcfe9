"""What people decided about verdicts: commits accepted, targets waived. Raw truth, in decisions.json beside the runs."""

import json
import os
from datetime import date, datetime
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from storage.database import Database
from storage.errors import StoreError
from storage.load_rows import insert_rows
from storage.rows import Row, timestamp
from storage.sql import transaction

DECISIONS_FILE = "decisions.json"
_FIELDS = ("kind", "commit", "target", "until", "because", "decided_at")


def add_acceptance(db_path: Path | str, commit: str, because: str, at: datetime, target: str | None = None) -> None:
    """Keep that a commit is the new baseline, of one target or of all. Raises StoreError."""
    _add(db_path, {"kind": "acceptance", "commit": commit, "target": target, "until": None, "because": because}, at)


def add_waiver(db_path: Path | str, target: str, until: date, because: str, at: datetime) -> None:
    """Keep that a target's FAIL does not count up to and including `until`. Raises StoreError."""
    _add(db_path, {"kind": "waiver", "commit": None, "target": target, "until": until.isoformat(), "because": because}, at)


def load_decisions(connection: DuckDBPyConnection, path: Path) -> None:
    """Fill the table from decisions.json. Nothing happens where there is none. Raises StoreError for a file that is not ours."""
    if path.exists():
        rows = _read(path)
        connection.execute("DELETE FROM decisions")
        insert_rows(connection, "decisions", rows)


def write_down(connection: DuckDBPyConnection, path: Path) -> None:
    """Bring the decisions of the table into decisions.json, the truth from then on, beside those it has. Raises StoreError."""
    names = ", ".join(f'CAST("{name}" AS VARCHAR)' for name in _FIELDS)
    stored = [dict(zip(_FIELDS, row, strict=True)) for row in connection.execute(f"SELECT {names} FROM decisions").fetchall()]
    known = _read(path) if path.exists() else []
    seen = {(row["kind"], row["commit"], row["target"], row["until"], row["because"]) for row in known}
    new = [
        {**row, "decided_at": timestamp(row["decided_at"])}
        for row in stored
        if (row["kind"], row["commit"], row["target"], row["until"], row["because"]) not in seen
    ]
    if new:
        _write(path, sorted([*known, *new], key=lambda row: str(row["decided_at"])))
        load_decisions(connection, path)


def _add(db_path: Path | str, row: Row, at: datetime) -> None:
    database = Database(db_path)
    path = database.path.parent / DECISIONS_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with database.write() as connection:  # the store's lock keeps two people apart
        rows = [*(_read(path) if path.exists() else []), {**row, "decided_at": timestamp(at)}]
        _write(path, rows)
        with transaction(connection):
            load_decisions(connection, path)


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["decisions"]
        return [{name: row[name] for name in _FIELDS} for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: not a list of decisions as paceline writes it: {error!r}") from error


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"decisions": rows}, indent=1, allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
