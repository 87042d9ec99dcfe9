"""What came of having an engine built: made, found in the cache, or failed. A failure is a result like any other.

Raw truth is one JSON file a build in the run's folder, written before the row; a rebuild reads them there.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from storage.database import Database, read
from storage.errors import StoreMissing
from storage.json_files import read_json, write_json
from storage.load_rows import insert_rows
from storage.rows import Row, canonical, short_digest, timestamp
from storage.sql import transaction

BUILDS_FOLDER = "builds"
_NEWEST_ATTEMPT = """
    SELECT status, failure FROM builds
    WHERE tree = ? AND coalesce(details ->> 'toolchain', ?) = ?
    ORDER BY asked_at DESC NULLS LAST, build_id LIMIT 1
"""
_FROM_BUILD = ("dirty", "tree", "api_version", "module_sha256")


def store_build(
    db_path: Path | str,
    run_id: str,
    build: Mapping[str, Any],
    *,
    seconds: float | None = None,
    failure: str | None = None,
    asked_at: datetime | None = None,
) -> None:
    """Keep what came of one build that a run asked for. Raises StoreError; the raw file is there even so.

    build: build.json with commit, dirty and tree of the sources that were asked for, or as much of it as there is where the build
    failed. seconds: compiling, or up to the failure; None where nothing was compiled. failure: the error. asked_at: now, unless
    given. A run that is taken up finds its build made: what the making took stays.
    """
    database = Database(db_path)
    asked = timestamp(asked_at or datetime.now(UTC))
    row: Row = {
        "build_id": short_digest([run_id, dict(build), failure, asked if failure is not None else None]),
        "run_id": run_id,
        "commit": build.get("commit", "unknown"),
        **{name: build.get(name) for name in _FROM_BUILD},
        "status": "ok" if failure is None else "failed",
        "seconds": seconds,
        "created_at": timestamp(build.get("created_at")),
        "compiler": _text(build.get("compiler")),
        "flags": _text(build.get("flags")),
        "failure": failure,
        "details": canonical(dict(build)),
        "asked_at": asked,
        "cached": failure is None and seconds is None,
    }
    file = database.path.parent / run_id / BUILDS_FOLDER / f"{row['build_id']}.json"
    if not file.exists():
        write_json(file, row)
    with database.write() as connection, transaction(connection):
        insert_build(connection, file)


def insert_build(connection: DuckDBPyConnection, file: Path) -> None:
    """The row of a build from its raw file. Raises StoreError for a file that is not JSON, ValueError for another kind."""
    row = read_json(file)
    older = {"asked_at": row.get("created_at"), "cached": row.get("status") == "ok" and row.get("seconds") is None}
    insert_rows(connection, "builds", [older | row], on_conflict="OR REPLACE")


def build_files(folder: Path) -> list[Path]:
    """The raw files of the builds that a run asked for."""
    return sorted(path for path in (folder / BUILDS_FOLDER).glob("*.json") if not path.name.startswith("."))


def known_failure(path: Path | str, tree: str, toolchain: str) -> str | None:
    """Why the newest attempt at building these sources failed; None where it succeeded or there was none. Raises StoreError.

    toolchain: compiler, flags and Python in one text, as builds have it in their details. Attempts with another say nothing;
    those from before it was noted count.
    """
    try:
        with read(path) as connection:
            found = connection.execute(_NEWEST_ATTEMPT, [tree, toolchain, toolchain]).fetchone()
    except StoreMissing:
        return None
    return str(found[1]) if found and found[0] == "failed" else None


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else canonical(value)
