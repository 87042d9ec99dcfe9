"""Bulk insertion: rows go through a strict JSON-lines file, which DuckDB reads with the table's own column types."""

import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from storage.sql import quoted

_LINE = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def insert_rows(connection: DuckDBPyConnection, table: str, rows: Iterable[Mapping[str, Any]], *, on_conflict: str = "") -> None:
    """Insert rows into a table by column name; columns that a row lacks are NULL.

    on_conflict is "" (a duplicate key raises), "OR IGNORE" or "OR REPLACE". Raises ValueError for NaN and infinity.
    """
    rows = list(rows)
    if not rows:
        return
    types = column_types(connection, table)
    names = [name for name in types if any(name in row for row in rows)]
    if unknown := sorted({name for row in rows for name in row} - set(types)):
        raise ValueError(f"table {table}: column {unknown[0]!r} is unknown; the columns are {', '.join(types)}")
    _load(connection, table, {name: types[name] for name in names}, map(_LINE.encode, rows), on_conflict)


def insert_lines(connection: DuckDBPyConnection, table: str, lines: Iterable[str], *, on_conflict: str = "") -> None:
    """The same of rows that are JSON texts already, one an object without line breaks, with no name that is no column."""
    lines = list(lines)
    if lines:
        _load(connection, table, column_types(connection, table), lines, on_conflict)


def _load(connection: DuckDBPyConnection, table: str, types: Mapping[str, str], lines: Iterable[str], on_conflict: str) -> None:
    columns = ", ".join(f"{quoted(name)}: {quoted(_file_type(stored))}" for name, stored in types.items())
    listed = ", ".join(f'"{name}"' for name in types)
    with tempfile.TemporaryDirectory(prefix="paceline-ingest-") as folder:
        path = Path(folder) / "rows.jsonl"
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        source = (
            f"read_json({quoted(path)}, format = 'newline_delimited', columns = {{{columns}}}, maximum_object_size = 268435456)"
        )
        connection.execute(f"INSERT {on_conflict} INTO {table} ({listed}) SELECT {listed} FROM {source}")


def column_types(connection: DuckDBPyConnection, table: str) -> dict[str, str]:
    """Column -> type of a table of the store, in order."""
    sql = """SELECT column_name, data_type FROM duckdb_columns()
        WHERE database_name = current_database() AND table_name = ? ORDER BY column_index"""
    return dict(connection.execute(sql, [table]).fetchall())


def _file_type(stored: str) -> str:
    """JSON columns hold texts already: read as JSON they would be quoted a second time."""
    return "VARCHAR" if stored == "JSON" else stored
