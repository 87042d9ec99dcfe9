"""What is behind `paceline sql`: SQL on the snapshot, read-only, once or in a conversation."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Literal, get_args

from duckdb import CatalogException, DuckDBPyConnection, StatementType
from duckdb import Error as DuckDBError

from storage.database import read, readable_path
from storage.errors import StoreError
from storage.formats import Result, write_parquet, write_result
from storage.sql import quoted

Format = Literal["table", "csv", "json", "parquet", "md"]
FORMATS: tuple[str, ...] = get_args(Format)
OK, WRONG = 0, 2
HELP = """Statements end with a semicolon and may span lines.
.views             the views and the questions they answer
.tables            the tables
.columns NAME      the columns of a view or table, with what they mean
.refresh           read the newest snapshot
.quit              leave (or Ctrl-D)
"""
_DOT_QUERIES = {
    ".views": """SELECT view_name AS name, comment AS question FROM duckdb_views()
        WHERE NOT internal AND database_name = 'store' ORDER BY 1""",
    ".tables": """SELECT table_name AS name, comment FROM duckdb_tables()
        WHERE NOT internal AND database_name = 'store' ORDER BY 1""",
}


def run(
    path: Path | str,
    *,
    command: str | None = None,
    file: Path | None = None,
    format: Format = "table",  # noqa: A002 - the option's name
    stdin: IO[str] | None = None,
    stdout: IO[str] | None = None,
    stderr: IO[str] | None = None,
) -> int:
    """Run SQL of a string, a file, or the standard input, and print each result. Returns an exit code: 0, or 2 where SQL
    failed.

    With neither command nor file it reads statements from stdin: a conversation where that is a terminal. Parquet is written
    as bytes, so only for one result and never to a terminal. Raises StoreError for a missing or unreadable store, file or
    format.
    """
    stdin, stdout, stderr = stdin or sys.stdin, stdout or sys.stdout, stderr or sys.stderr
    if format not in FORMATS:
        raise StoreError(f"format {format!r} is unknown; it is one of {', '.join(FORMATS)}")
    if format == "parquet" and stdout.isatty():
        raise StoreError("format parquet writes bytes: redirect the output into a file")
    if command is None and file is None and stdin.isatty():
        return converse(path, input_line=input, stdout=stdout, stderr=stderr, format=format)
    with read(path) as connection:
        text = command if command is not None else _text(file) if file is not None else stdin.read()
        return _execute(connection, text, format, stdout, stderr)


def converse(
    path: Path | str,
    *,
    input_line: Callable[[str], str],
    stdout: IO[str],
    stderr: IO[str],
    format: Format = "table",  # noqa: A002
) -> int:
    """Read statements until .quit or the end of input. A failed statement is reported and the conversation goes on."""
    _prepare_line_editing()
    again = True
    while again:
        target = readable_path(path)
        opened = target.stat().st_ino
        with read(path) as connection:
            print(f"{target}, read-only. .help for help.", file=stdout)
            again = _turns(connection, lambda: target.stat().st_ino != opened, input_line, stdout, stderr, format)  # noqa: B023
    return 0


def _turns(
    connection: DuckDBPyConnection,
    renewed: Callable[[], bool],
    input_line: Callable[[str], str],
    stdout: IO[str],
    stderr: IO[str],
    form: Format,
) -> bool:
    """Statement after statement. Whether to open the snapshot again."""
    pending = ""
    while True:
        try:
            line = input_line("paceline> " if not pending else "     ...> ")
        except EOFError:
            return False
        except KeyboardInterrupt:
            pending = ""
            print(file=stdout)
            continue
        if not pending and line.strip().startswith("."):
            word = line.split()[0]
            if word in (".quit", ".exit", ".refresh"):
                return word == ".refresh"
            _dot(connection, line.split(), stdout, stderr)
            continue
        pending += line + "\n"
        if pending.rstrip().endswith(";"):
            _execute(connection, pending, form, stdout, stderr)
            pending = ""
            if renewed():
                print("A newer snapshot was published: .refresh reads it.", file=stderr)


def _dot(connection: DuckDBPyConnection, words: list[str], stdout: IO[str], stderr: IO[str]) -> None:
    if words[0] in _DOT_QUERIES:
        _execute(connection, _DOT_QUERIES[words[0]], "table", stdout, stderr)
    elif words[0] == ".columns" and len(words) == 2:
        sql = f"""SELECT column_name AS "column", data_type AS type, comment FROM duckdb_columns()
            WHERE database_name = 'store' AND table_name = {quoted(words[1])} ORDER BY column_index"""
        _execute(connection, sql, "table", stdout, stderr)
    else:
        print(HELP, end="", file=stdout if words[0] == ".help" else stderr)


def _execute(connection: DuckDBPyConnection, text: str, form: Format, stdout: IO[str], stderr: IO[str]) -> int:
    try:
        statements = connection.extract_statements(text)
        if form == "parquet" and (len(statements) != 1 or statements[0].type != StatementType.SELECT):
            raise StoreError(
                f"format parquet holds the result of one SELECT: found {len(statements)} statements, or another kind"
            )
        for statement in statements:
            if form == "parquet":
                write_parquet(connection, statement.query, stdout)
                continue
            cursor = connection.execute(statement)
            if cursor.description:
                write_result(Result.of(cursor), form, stdout)
    except DuckDBError as error:
        hint = "\n`paceline sql` without SQL is a conversation: .views and .tables list what is there, .columns NAME its columns"
        print(f"error: {error}{hint if isinstance(error, CatalogException) else ''}", file=stderr)
        return WRONG
    return OK


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{file}: cannot be read as SQL: {error}") from error


def _prepare_line_editing() -> None:
    """Line editing and recall, where this Python has them."""
    try:
        import readline
    except ImportError:
        return
    readline.parse_and_bind("tab: complete")
