"""docs/sql.md: its ten queries run and find something, and it names every view there is."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from storage.database import read
from storage.ingest import ingest, store_build, store_verdicts
from storage.migrate import view_files

TEXT = (Path(__file__).parents[3] / "docs/sql.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"### (\d+)\. ([^\n]+)\n.*?```sql\n(.*?)```", TEXT, re.DOTALL)
TARGET = {"name": "8 concurrent", "metric": "speedup_vs_serial", "level": 8, "direction": ">=", "bound": 4.5, "unit": "x"}


@pytest.fixture(scope="module")
def history(kit: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two nights, the second with a slower serial leg, and a measurement that failed."""
    results = kit.Results(tmp_path_factory.mktemp("results"))
    nights = []
    for number, (commit, slower) in enumerate(((kit.COMMIT_A, 1.0), (kit.COMMIT_B, 1.2))):
        started = kit.make.STARTED + timedelta(days=number)
        run_id = f"{started:%Y%m%d}T020000Z-aaaaaa"
        common = {
            "run_id": run_id,
            "source": kit.make.make_source(commit=commit),
            "started_at": started,
            "finished_at": started + timedelta(minutes=1),
        }
        for pair in range(3):
            serial, batch = kit.make.make_pair(8, 5.0, pair=pair, cv=0.004, **common)
            walls = [r.model_copy(update={"wall_s": r.wall_s * slower}) for r in serial.rounds]
            nights += [serial.model_copy(update={"rounds": walls}), batch]
        nights.append(kit.make.make_failed(spec={"level": 2, "mode": "batch"}, **common))
        store_build(results.store, run_id, {"commit": commit}, seconds=30.0)
    assert ingest(results.store, results.write(nights)).added == 14
    store_verdicts(
        results.store,
        run_id,
        [{"target": TARGET, "status": "PASS", "ratio": 6.0, "low": 5.9, "high": 6.1, "reason": "all above"}],
    )
    return results


def test_there_are_ten(history: Any) -> None:
    assert [int(number) for number, _, _ in QUERIES] == list(range(1, 11))


@pytest.mark.parametrize(("number", "title", "sql"), QUERIES, ids=[number for number, _, _ in QUERIES])
def test_each_query_runs_and_finds_something(history: Any, number: str, title: str, sql: str) -> None:
    with read(history.root) as connection:
        rows = connection.execute(sql).fetchall()
    assert rows, f"query {number}, {title}, finds nothing"


def test_every_view_is_documented() -> None:
    assert {file.stem for file in view_files()} - set(re.findall(r"`(\w+)`", TEXT)) == {"legs"}
