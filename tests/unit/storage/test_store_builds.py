"""Builds as results: made, found in the cache, failed; the same again after a rebuild; migrated from before they said so."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from storage import queries
from storage.builds import build_files, known_failure, store_build
from storage.database import Database
from storage.rebuild import rebuild

RUN, LATER = "20260301T020000Z-aaaaaa", "20260302T020000Z-aaaaaa"
BUILD = {
    "commit": "a" * 40,
    "dirty": False,
    "tree": "t",
    "compiler": "g++ 12",
    "flags": ["-O3"],
    "created_at": "2026-03-01T02:00:00+00:00",
}
BROKEN = {"commit": "b" * 40, "dirty": False, "tree": "u"}
NIGHT = datetime(2026, 3, 1, 2, tzinfo=UTC)


@pytest.fixture
def three(results: Any) -> Any:
    """One made, one found in the cache the night after, and one that failed twice."""
    store_build(results.store, RUN, BUILD, seconds=41.5, asked_at=NIGHT)
    store_build(results.store, LATER, BUILD, asked_at=NIGHT + timedelta(days=1))
    for day in range(2):
        asked = NIGHT + timedelta(days=day)
        store_build(results.store, (RUN, LATER)[day], BROKEN, seconds=3.0, failure="error: expected ';'", asked_at=asked)
    return results


def test_builds_and_their_failures(three: Any) -> None:
    frame = queries.build_times(three.root).set_index(["commit", "run_id"])
    assert len(frame) == 4
    made, found = frame.loc[("a" * 40, RUN)], frame.loc[("a" * 40, LATER)]
    assert (made["seconds"], made["cached"], made["flags"]) == (41.5, False, '["-O3"]')
    assert (found["cached"], found["status"]) == (True, "ok")
    assert three.query(f"SELECT seconds FROM build_times WHERE run_id = '{LATER}' AND cached") == [(None,)]
    failed = frame.loc[("b" * 40, LATER)]
    assert (failed["status"], failed["failure"], failed["seconds"]) == ("failed", "error: expected ';'", 3.0)
    assert not failed["cached"]
    sql = 'SELECT "commit", attempts, run_id, failure FROM build_failures'
    assert three.query(sql) == [("b" * 40, 2, LATER, "error: expected ';'")]
    assert len(build_files(three.root / RUN)) == 2


def test_a_run_that_is_taken_up_keeps_what_its_build_took(results: Any) -> None:
    store_build(results.store, RUN, BUILD, seconds=41.5)
    store_build(results.store, RUN, BUILD)
    assert results.query("SELECT seconds, cached FROM builds") == [(41.5, False)]


def test_a_rebuild_knows_the_same_builds(kit: Any, three: Any) -> None:
    before = kit.contents(three.root)
    rebuild(three.root, three.store)
    assert kit.contents(three.root) == before


def test_a_build_file_that_was_cut_short_is_named_and_costs_no_other(kit: Any, three: Any) -> None:
    broken = three.root / RUN / "builds" / "0.json"
    broken.write_text('{"build_id": ')
    (three.root / RUN / "run.json").write_text('{"exit_code": 2}')
    report = rebuild(three.root, three.store)
    assert [path for path, _ in report.rejected] == [broken]
    assert three.query("SELECT count(*), any_value((SELECT exit_code FROM runs)) FROM builds") == [(4, 2)]
    assert three.query("SELECT path FROM set_aside") == [(f"{RUN}/builds/0.json",)]


def test_what_is_known_to_fail(three: Any, tmp_path: Path) -> None:
    assert known_failure(three.root, "u", "g++ 13") == "error: expected ';'", "an older record names no toolchain"
    assert known_failure(three.root, "t", "g++ 13") is None
    assert known_failure(three.root, "never seen", "g++ 13") is None
    assert known_failure(tmp_path / "no store", "u", "g++ 13") is None
    store_build(three.store, LATER, {**BROKEN, **{"compiler": "g++ 13"}}, seconds=50.0)
    assert known_failure(three.root, "u", "g++ 13") is None
    assert three.query("FROM build_failures") == []


def test_what_fails_with_one_compiler_is_tried_with_another(three: Any) -> None:
    store_build(three.store, LATER, {**BROKEN, "tree": "v", "toolchain": "g++ 12"}, seconds=1.0, failure="no concepts here")
    assert known_failure(three.root, "v", "g++ 12") == "no concepts here"
    assert known_failure(three.root, "v", "g++ 13") is None
    store_build(three.store, LATER, {**BROKEN, "tree": "v", "toolchain": "g++ 13"}, seconds=1.0)
    rebuild(three.root, three.store)
    assert known_failure(three.root, "v", "g++ 12") == "no concepts here"
    assert known_failure(three.root, "v", "g++ 13") is None


def test_builds_of_an_older_store_are_migrated(results: Any) -> None:
    """Schema 3 had no columns for what its builds say all the same."""
    results.store.unlink()
    columns = 'build_id, run_id, "commit", status, seconds, created_at, failure, details'
    rows = """('1', 'r', 'c', 'ok', 40.0, TIMESTAMP '2026-03-01 02:00:00', NULL, '{}'),
        ('2', 'r', 'c', 'ok', NULL, TIMESTAMP '2026-03-02 02:00:00', NULL, '{}'),
        ('3', 'r', 'd', 'failed', 2.0, NULL, 'no', '{}')"""
    with Database(results.store).write(publish=False, upto=3) as connection:
        connection.execute(f"INSERT INTO builds ({columns}) VALUES {rows}")
    Database(results.store).publish_snapshot()
    sql = "SELECT build_id, cached, asked_at IS NOT DISTINCT FROM created_at, seconds FROM builds ORDER BY 1"
    assert results.query(sql) == [("1", False, True, 40.0), ("2", True, True, None), ("3", False, True, 2.0)]
    assert results.query('SELECT "commit", attempts FROM build_failures') == [("d", 1)]


def test_files_of_an_older_paceline_are_read(three: Any) -> None:
    for file in build_files(three.root / LATER):
        row = json.loads(file.read_text())
        file.write_text(json.dumps({name: value for name, value in row.items() if name not in ("asked_at", "cached")}))
    assert rebuild(three.root, three.store).rejected == []
    sql = f"SELECT status, cached, asked_at IS NULL FROM builds WHERE run_id = '{LATER}' ORDER BY 1"
    assert three.query(sql) == [("failed", False, True), ("ok", True, False)]
