"""Results of a query: a table for people, CSV, strict JSON, Markdown; Parquet as bytes."""

import csv
import json
import math
import tempfile
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from duckdb import DuckDBPyConnection

from storage.errors import StoreError
from storage.sql import quoted

_NUMBERS = (
    {"DOUBLE", "FLOAT", "DECIMAL", "HUGEINT", "UHUGEINT", "NUMBER"}
    | {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG")}
    | {"INTEGER", "UINTEGER"}
)
_WIDEST = 60  # characters of one cell in a table


@dataclass(frozen=True)
class Result:
    """Column names and rows of Python values."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    numeric: list[bool]

    @classmethod
    def of(cls, cursor: DuckDBPyConnection) -> "Result":
        """All rows of what a cursor has just run."""
        description = cursor.description or []
        rows = cursor.fetchall()
        return cls([str(column[0]) for column in description], rows, [_is_number(str(column[1])) for column in description])


def write_result(result: Result, form: str, stdout: IO[str]) -> None:
    """Print one result. Raises StoreError for an unknown format."""
    if form == "table":
        _write_table(result, stdout)
    elif form == "md":
        _write_markdown(result, stdout)
    elif form == "csv":
        writer = csv.writer(stdout, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows(["" if value is None else _plain(value) for value in row] for row in result.rows)
    elif form == "json":
        rows = [dict(zip(result.columns, map(_strict, row), strict=True)) for row in result.rows]
        stdout.write(json.dumps(rows, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    else:
        raise StoreError(f"format {form!r} is unknown")


def _is_number(type_name: str) -> bool:
    return type_name.partition("(")[0] in _NUMBERS


def _write_table(result: Result, stdout: IO[str]) -> None:
    cells = [[_short(_shown(value)) for value in row] for row in result.rows]
    widths = [max(len(name), *(len(row[i]) for row in cells)) if cells else len(name) for i, name in enumerate(result.columns)]

    def line(values: list[str]) -> str:
        padded = (v.rjust(w) if right else v.ljust(w) for v, w, right in zip(values, widths, result.numeric, strict=True))
        return "  ".join(padded).rstrip() + "\n"

    stdout.write(line(result.columns))
    stdout.write("  ".join("-" * width for width in widths) + "\n")
    stdout.writelines(line(row) for row in cells)
    stdout.write(f"({len(cells)} row{'' if len(cells) == 1 else 's'})\n")


def _write_markdown(result: Result, stdout: IO[str]) -> None:
    def line(values: list[str]) -> str:
        return "| " + " | ".join(value.replace("|", "\\|").replace("\n", " ") for value in values) + " |\n"

    stdout.write(line(result.columns))
    stdout.write("|" + "|".join(" ---: " if right else " --- " for right in result.numeric) + "|\n")
    stdout.writelines(line([_shown(value) for value in row]) for row in result.rows)


def write_parquet(connection: DuckDBPyConnection, sql: str, stdout: IO[str]) -> None:
    """Run a SELECT and write its rows as Parquet bytes, with DuckDB's own types; through a file, for DuckDB writes to files
    alone.
    """
    with tempfile.TemporaryDirectory(prefix="paceline-sql-") as folder:
        target = Path(folder) / "result.parquet"
        connection.execute(f"COPY ({sql.strip().rstrip(';')}\n) TO {quoted(target)} (FORMAT parquet)")
        stdout.flush()
        stdout.buffer.write(target.read_bytes())  # type: ignore[attr-defined]
        stdout.buffer.flush()  # type: ignore[attr-defined]


def _shown(value: Any) -> str:
    """For people: figures to six digits, NULL as nothing."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(_plain(value))


def _short(text: str) -> str:
    text = text.replace("\n", " ")
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _plain(value: Any) -> Any:
    """A value for CSV: whole precision, lists and structures as JSON."""
    if isinstance(value, list | tuple | dict):
        return json.dumps(_strict(value), ensure_ascii=False)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def _strict(value: Any) -> Any:
    """A value of strict JSON: what has no number there is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value) if isinstance(value, UUID) else value.hex() if isinstance(value, bytes) else value
