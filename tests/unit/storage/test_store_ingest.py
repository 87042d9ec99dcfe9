"""Ingest: idempotent, atomic, and undisturbed by bad files."""

import json
import math
from typing import Any

import pytest

from storage.database import read
from storage.ingest import ingest
from storage.records import digest


def test_rows_say_what_the_record_says(kit: Any, results: Any) -> None:
    serial, batch = kit.make.make_pair(4, 3.2, pair=1)
    report = ingest(results.store, results.write([serial, batch]))
    assert (report.added, report.unchanged, report.rejected) == (2, 0, [])
    rounds = results.query("SELECT record_id, round, warmup, wall_s FROM rounds ORDER BY ALL")
    expected = [(r.record_id, i.index, i.warmup, i.wall_s) for r in (serial, batch) for i in r.rounds]
    assert rounds == sorted(expected)
    stored = results.query("SELECT record_id, round, request, e2el_s, ttft_s, itl_s FROM requests ORDER BY 1, 2, 3")
    requests = [
        (r.record_id, i.index, q.index, q.e2el_s, q.ttft_s, q.itl_s)
        for r in (serial, batch)
        for i in r.rounds
        for q in i.requests
    ]
    assert stored == sorted(requests)


def test_process_figures_by_hand(kit: Any, results: Any) -> None:
    record = kit.make.make_record(spec={"level": 2, "mode": "batch"}, wall_s=0.8)
    ingest(results.store, results.write(record))
    kept = record.kept_rounds()
    requests = [q for r in kept for q in r.requests]
    wall = sum(r.wall_s for r in kept)
    row = results.query(
        "SELECT rounds, completed, output_tokens, wall_s, wall_sum_s, request_throughput, output_throughput FROM process_figures"
    )
    assert row[0][:3] == (5, 10, 320)
    assert row[0][3:] == pytest.approx((wall / 5, wall, 10 / wall, 320 / wall))
    mean, ttft, tpot = results.query("SELECT e2el_mean_s, ttft_mean_s, tpot_mean_s FROM process_figures")[0]
    assert mean == pytest.approx(sum(q.e2el_s for q in requests) / 10)
    assert ttft == pytest.approx(sum(q.ttft_s for q in requests) / 10)
    assert tpot == pytest.approx(sum((q.e2el_s - q.ttft_s) / 31 for q in requests) / 10)


def test_absent_boundaries_stay_absent(kit: Any, results: Any) -> None:
    record = kit.make.make_record()
    rounds = [
        r.model_copy(update={"requests": [q.model_copy(update={"ttft_s": None, "queue_s": None}) for q in r.requests]})
        for r in record.rounds
    ]
    ingest(results.store, results.write(record.model_copy(update={"rounds": rounds})))
    assert results.query("SELECT ttft_mean_s, tpot_mean_s FROM process_figures") == [(None, None)]
    assert results.query("SELECT DISTINCT metric FROM process_latencies ORDER BY 1") == [("e2el_s",), ("itl_s",)]
    assert results.query("SELECT DISTINCT ttft_s, tpot_s, queue_s FROM requests") == [(None, None, None)]


def test_twice_changes_nothing(kit: Any, results: Any) -> None:
    paths = results.write(kit.make.make_run({1: 1.0, 2: 1.8}, pairs=2))
    ingest(results.store, paths)
    before = kit.contents(results.store)
    report = ingest(results.store, [*paths, *paths])
    assert (report.added, report.unchanged) == (0, 2 * len(paths))
    assert kit.contents(results.store) == before


def test_a_record_of_a_known_id_with_other_content_is_set_aside(kit: Any, results: Any) -> None:
    record = kit.make.make_record()
    (path,) = results.write(record)
    ingest(results.store, [path])
    altered = path.with_name("altered.json")
    body = json.loads(path.read_text())
    body.pop("digest")
    body["rounds"][1]["wall_s"] *= 2
    body["digest"] = digest(body)
    altered.write_text(json.dumps(body))
    report = ingest(results.store, [altered])
    assert report.added == 0
    ((rejected, reason),) = report.rejected
    assert rejected == altered
    assert record.record_id in reason
    assert path.name in reason
    assert results.query("SELECT path FROM set_aside") == [(f"{record.run_id}/records/altered.json",)]
    assert results.query("SELECT wall_s FROM rounds WHERE round = 1") == [(record.rounds[1].wall_s,)]


def test_the_first_of_two_in_one_call_wins(kit: Any, results: Any) -> None:
    first = kit.make.make_record()
    second = kit.make.make_record(wall_s=9.0, measurement="report/other", record_id=first.record_id)
    report = ingest(results.store, results.write([first, second]))
    assert report.added == 1
    assert len(report.rejected) == 1
    assert results.query("SELECT measurement FROM records") == [(first.measurement,)]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ('{"record_version": 1', "JSON"),
        ('{"hello": 1}', "record_version"),
        ('{"record_version": 99}', "99"),
        ('{"record_version": 1, "values": {"x": NaN}}', "NaN"),
        ("", "JSON"),
    ],
)
def test_bad_files_are_named_and_stop_nothing(kit: Any, results: Any, content: str, word: str) -> None:
    (good,) = results.write(kit.make.make_record())
    bad = good.with_name("bad.json")
    bad.write_text(content)
    report = ingest(results.store, [bad, good, good.with_name("missing.json")])
    assert report.added == 1
    assert [path.name for path, _ in report.rejected] == ["bad.json", "missing.json"]
    assert word in report.rejected[0][1]
    assert "bad.json" in str(report)
    assert len(results.query("FROM set_aside")) == 2


def test_a_mended_file_leaves_the_list(kit: Any, results: Any) -> None:
    record = kit.make.make_record()
    (path,) = results.write(record)
    whole = path.read_text()
    path.write_text(whole[:-20])
    assert ingest(results.store, [path]).added == 0
    assert len(results.query("FROM set_aside")) == 1
    path.write_text(whole)
    assert ingest(results.store, [path]).added == 1
    assert results.query("FROM set_aside") == []


def test_failed_records_are_kept_without_figures(kit: Any, results: Any) -> None:
    record = kit.make.make_failed(status="timeout", environment=None, engine=None)
    ingest(results.store, results.write(record))
    row = results.query("SELECT status, failure_type, failure_log, environment_id, module_sha256 FROM records")
    assert row == [("timeout", "RequestFailed", "logs/example.attempt1.log", None, None)]
    assert results.query("FROM process_figures") == []


def test_the_store_never_holds_nan(kit: Any, results: Any) -> None:
    """Zero walls divide nothing; a lone round has no spread."""
    records = [
        kit.make.make_record(wall_s=0.04, spec={"runs": 1, "warmup": 0}, measurement="one"),
        kit.make.make_record(spec={"new_tokens": 1}, measurement="single token", record_id="5" * 32),
    ]
    assert ingest(results.store, results.write(records)).added == 2
    sql = """SELECT table_name, column_name FROM duckdb_columns()
        WHERE data_type = 'DOUBLE' AND database_name = 'store' AND NOT internal"""
    with read(results.root) as connection:
        for table, column in connection.execute(sql).fetchall():
            values = connection.execute(f'SELECT "{column}" FROM {table} WHERE "{column}" IS NOT NULL').fetchall()
            assert all(math.isfinite(value) for (value,) in values), (table, column)
