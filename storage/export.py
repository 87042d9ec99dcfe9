"""The store as Parquet files and back: one folder a table, what grows with the measurements partitioned by month."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from duckdb import DuckDBPyConnection
from duckdb import Error as DuckDBError

from storage.database import Database, read
from storage.decisions import DECISIONS_FILE, write_down
from storage.errors import StoreError, StoreTooNew
from storage.load_rows import column_types
from storage.migrate import migration_files, paceline_version, refuse_newer
from storage.sql import quoted, transaction

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
_BY_RECORD = ("records", "rounds", "requests", "process_figures", "process_latencies", "step_rows", "named_values")
_OWN = ("schema_migrations", "schema_views")  # of the store itself


@dataclass(frozen=True)
class ExportReport:
    """Rows by table."""

    folder: Path
    rows: dict[str, int]


def export(path: Path | str, folder: Path | str) -> ExportReport:
    """Write every table of the store or snapshot at `path` into a new folder. Raises StoreError where the folder is there
    already.
    """
    folder = Path(folder).absolute()
    if folder.exists():
        raise StoreError(f"{folder}: is there already; name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with read(path) as connection:
            version = refuse_newer(connection, Path(path))
            rows = {table: _write_table(connection, table, temporary / table) for table in tables(connection)}
        manifest = {"format": FORMAT_VERSION, "schema_version": version, "paceline": paceline_version(), "rows": rows}
        (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        temporary.rename(folder)
    except (OSError, DuckDBError) as error:
        raise StoreError(f"{folder}: the export could not be written: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return ExportReport(folder, rows)


def import_back(folder: Path | str, db_path: Path | str) -> ExportReport:
    """Fill a new store from an export, then bring it to this version's schema. Raises StoreError where there is a store
    already, or a count differs from the manifest's; then nothing is stored.
    """
    folder = Path(folder).absolute()
    database = Database(db_path)
    version, expected = _manifest(folder)
    with database.locked():
        if database.path.exists():
            raise StoreError(f"{database.path}: there is a store already; import into a new one, or use `paceline rebuild`")
    try:
        with database.write(publish=False, upto=version) as connection, transaction(connection):
            rows = {table: _read_table(connection, table, folder / table) for table in expected}
            wrong = {table: count for table, count in rows.items() if count != expected[table]}
            if wrong:
                table, count = next(iter(wrong.items()))
                raise StoreError(f"{folder / table}: {count} rows, and the manifest says {expected[table]}")
            write_down(connection, database.path.parent / DECISIONS_FILE)
    except BaseException:
        database.path.unlink(missing_ok=True)
        Path(f"{database.path}.wal").unlink(missing_ok=True)
        raise
    database.publish_snapshot()
    return ExportReport(folder, rows)


def tables(connection: DuckDBPyConnection) -> list[str]:
    """The tables that hold data, by name."""
    found = connection.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'store' AND NOT internal ORDER BY 1")
    return [str(name) for (name,) in found.fetchall() if name not in _OWN]


def _write_table(connection: DuckDBPyConnection, table: str, target: Path) -> int:
    target.mkdir(parents=True)
    count = _count(connection, table)
    if table not in _BY_RECORD or count == 0:
        connection.execute(f"COPY (SELECT * FROM {table}) TO {quoted(target / 'all.parquet')} (FORMAT parquet)")
        return count
    sql = (
        f"SELECT {table}.*, strftime(started.started_at, '%Y-%m') AS month FROM {table} JOIN records AS started USING (record_id)"
    )
    connection.execute(f"COPY ({sql}) TO {quoted(target)} (FORMAT parquet, PARTITION_BY (month), OVERWRITE_OR_IGNORE)")
    return count


def _read_table(connection: DuckDBPyConnection, table: str, source: Path) -> int:
    names = ", ".join(f'"{name}"' for name in column_types(connection, table))
    if not names:
        raise StoreError(f"{source}: no table {table!r} in a store of that schema version")
    files = f"read_parquet({quoted(source / '**' / '*.parquet')}, hive_partitioning = true, hive_types = {{'month': VARCHAR}})"
    if (source / "all.parquet").exists():
        files = f"read_parquet({quoted(source / 'all.parquet')})"
    try:
        connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {files}")
    except DuckDBError as error:
        raise StoreError(f"{source}: not an export of table {table!r}: {error}") from error
    return _count(connection, table)


def _count(connection: DuckDBPyConnection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(row[0]) if row else 0


def _manifest(folder: Path) -> tuple[int, dict[str, int]]:
    """(schema version, rows by table)."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version, rows, form = manifest["schema_version"], dict(manifest["rows"]), manifest["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: not the manifest of an export: {error}") from error
    known = migration_files()[-1][0]
    if form > FORMAT_VERSION or version > known:
        newest = manifest.get("paceline", "?")
        raise StoreTooNew(f"{path}: schema version {version}, and this paceline knows {known}: install {newest} or later")
    return int(version), rows
