"""What the store's tests share: a results folder that is filled with records, and the whole content of a store for
comparison.
"""

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from storage.database import read
from storage.records import Record, dump

FACTORY = Path(__file__).parents[1] / "storage_records/record_factory.py"
COMMIT_A, COMMIT_B = "a" * 40, "b" * 40


def load_module(path: Path) -> ModuleType:
    """A helper file that is no package, by its path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = load_module(FACTORY)


class Results:
    """A results folder: raw records in the runs' folders, as the flow writes them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = root / "paceline.duckdb"
        self.snapshot = root / "snapshot.duckdb"

    def write(self, records: Iterable[Record] | Record) -> list[Path]:
        """Dump records to their places."""
        paths = []
        for record in [records] if isinstance(records, Record) else records:
            folder = self.root / record.run_id / "records"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{record.measurement.replace('/', '.')}.attempt{record.spec.attempt}.json"
            dump(record, path)
            paths.append(path)
        return paths

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the snapshot."""
        with read(self.root) as connection:
            return connection.execute(sql).fetchall()


def _told(row: tuple[Any, ...]) -> str:
    """A row's text. Figures to 12 digits: the order in which DuckDB's threads add up is not the same twice."""
    return repr(tuple(float(f"{value:.12g}") if isinstance(value, float) else value for value in row))


def contents(path: Path, leave_out: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Every table of a store or snapshot as sorted texts of its rows, views' texts included."""
    with read(path) as connection:
        names = connection.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'store' ORDER BY 1").fetchall()
        found = {name: sorted(map(_told, connection.execute(f"SELECT * FROM {name}").fetchall())) for (name,) in names}
        views = connection.execute(
            "SELECT view_name, comment FROM duckdb_views() WHERE database_name = 'store' AND NOT internal"
        ).fetchall()
    found["views"] = sorted(map(repr, views))
    return {name: rows for name, rows in found.items() if name not in leave_out}
