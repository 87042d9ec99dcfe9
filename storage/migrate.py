"""Schema migrations and views, from the SQL files beside this one.

A migration is one transaction together with its record in `schema_migrations`. In its CREATE TABLE statements each line's own
comment (`CREATE TABLE t ( -- what a row is`, `column TYPE, -- what it is, unit`) becomes a comment in the database. A view
file begins with its question and then one comment line `-- column: what it is, unit` for each column, which become comments
too. Views are made anew whenever their texts change: they hold no data.
"""

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from duckdb import CatalogException, DuckDBPyConnection

from storage.errors import StoreError, StoreTooNew
from storage.sql import quoted, transaction

FOLDER = Path(__file__).parent
MIGRATIONS = FOLDER / "migrations"
VIEWS = FOLDER / "views"
_TABLE_LINE = re.compile(r"^CREATE TABLE (?P<table>\w+) \( -- (?P<text>.+)$")
_COLUMN_LINE = re.compile(r"^    (?P<column>\"?[a-z][a-z0-9_]*\"?) .*?-- (?P<text>.+)$")
_COMMENT_LINE = re.compile(r"^-- (?:(?P<column>[a-z][a-z0-9_]*): )?(?P<text>.+)$")


def migration_files() -> list[tuple[int, Path]]:
    """(version, file) in order. Raises StoreError where the numbers are not 1, 2, 3 ..."""
    files = [(int(path.name.split("_", 1)[0]), path) for path in sorted(MIGRATIONS.glob("[0-9]*_*.sql"))]
    if [version for version, _ in files] != list(range(1, len(files) + 1)):
        raise StoreError(f"{MIGRATIONS}: migrations must be numbered 1, 2, 3 without gaps: {[path.name for _, path in files]}")
    return files


def schema_version(connection: DuckDBPyConnection) -> int:
    """The last migration applied; 0 for an empty store."""
    try:
        row = connection.execute("SELECT max(version) FROM schema_migrations").fetchone()
    except CatalogException:
        return 0
    return int(row[0]) if row and row[0] is not None else 0


def refuse_newer(connection: DuckDBPyConnection, path: Path) -> int:
    """The schema version of the store. Raises StoreTooNew where this paceline does not know it."""
    found, known = schema_version(connection), migration_files()[-1][0]
    if found > known:
        row = connection.execute("SELECT paceline_version FROM schema_migrations WHERE version = ?", [found]).fetchone()
        raise StoreTooNew(
            f"{path}: schema version {found}, and this paceline knows versions up to {known}: "
            f"install paceline {row[0] if row else '?'} or later"
        )
    return found


def migrate(connection: DuckDBPyConnection, path: Path, upto: int | None = None) -> list[int]:
    """Bring the store to this version's schema and views, or to schema version `upto` alone. Returns the versions applied."""
    found = refuse_newer(connection, path)
    applied = []
    for version, file in migration_files()[found:upto]:
        text = file.read_text(encoding="utf-8")
        with transaction(connection):
            connection.execute(text + "".join(f"{statement};\n" for statement in table_comments(text)))
            connection.execute(
                "INSERT INTO schema_migrations (version, name, paceline_version) VALUES (?, ?, ?)",
                [version, file.stem, paceline_version()],
            )
        applied.append(version)
    if upto is None:
        _renew_views(connection)
    return applied


def table_comments(text: str) -> list[str]:
    """The COMMENT statements for the tables that a migration creates, from the comments at its line ends."""
    statements, table = [], ""
    for line in text.splitlines():
        if start := _TABLE_LINE.match(line):
            table = start["table"]
            statements.append(f"COMMENT ON TABLE {table} IS {quoted(start['text'])}")
        elif line.startswith(")"):
            table = ""
        elif table and (column := _COLUMN_LINE.match(line)):
            statements.append(f"COMMENT ON COLUMN {table}.{column['column']} IS {quoted(column['text'])}")
    return statements


def view_files(folder: Path = VIEWS) -> list[Path]:
    """The view files, each after those it reads from. Raises StoreError for a circle."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql"))}
    needs = {
        name: {other for other in texts if other != name and re.search(rf"(?i)\b(?:FROM|JOIN)\s+{other}\b", text)}
        for name, text in texts.items()
    }
    ordered: list[str] = []
    while needs:
        ready = sorted(name for name, others in needs.items() if others <= set(ordered))
        if not ready:
            raise StoreError(f"{folder}: views that read from one another in a circle: {sorted(needs)}")
        ordered += ready
        for name in ready:
            del needs[name]
    return [folder / f"{name}.sql" for name in ordered]


def view_comments(text: str) -> tuple[str, dict[str, str]]:
    """(question, column -> comment) from the comment lines at the top of a view file."""
    question, columns = "", {}
    for line in text.splitlines():
        match = _COMMENT_LINE.match(line)
        if not match:
            break
        if match["column"]:
            columns[match["column"]] = match["text"]
        else:
            question = f"{question} {match['text']}".strip()
    return question, columns


def paceline_version() -> str:
    """The installed version, "0" where paceline runs from a bare source tree."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("paceline")
    except PackageNotFoundError:
        return "0"


def _renew_views(connection: DuckDBPyConnection) -> None:
    wanted, statements = _view_statements(VIEWS)
    row = connection.execute("SELECT sha256 FROM schema_views").fetchone()
    if row and row[0] == wanted:
        return
    old = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal AND database_name = 'store'").fetchall()
    with transaction(connection):
        connection.execute("".join(f'DROP VIEW "{name}";\n' for (name,) in old) + statements)
        connection.execute("DELETE FROM schema_views")
        connection.execute("INSERT INTO schema_views VALUES (?)", [wanted])


@lru_cache(maxsize=4)
def _view_statements(folder: Path) -> tuple[str, str]:
    """(digest of the view files, the statements that make and comment the views)."""
    statements = []
    for file in view_files(folder):
        text = file.read_text(encoding="utf-8")
        question, columns = view_comments(text)
        statements += [text, f"COMMENT ON VIEW {file.stem} IS {quoted(question)};"]
        statements += [f'COMMENT ON COLUMN {file.stem}."{column}" IS {quoted(comment)};' for column, comment in columns.items()]
    whole = "\n".join(statements)
    return hashlib.sha256(whole.encode()).hexdigest(), whole
