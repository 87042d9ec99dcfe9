"""Small helpers for talking SQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duckdb import DuckDBPyConnection


def quoted(value: Path | str) -> str:
    """A SQL string literal."""
    return "'" + str(value).replace("'", "''") + "'"


@contextmanager
def transaction(connection: DuckDBPyConnection) -> Iterator[None]:
    """All of the body, or none of it."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
