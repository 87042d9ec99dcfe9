"""The store leaves and comes back: rebuild from raw, Parquet export, import from elsewhere, retention."""

import re
import shutil
import tarfile
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from storage import queries
from storage.database import Database, read
from storage.decisions import add_acceptance, add_waiver
from storage.errors import StoreError, StoreTooNew
from storage.export import export, import_back
from storage.ingest import ingest, store_build, store_run, store_verdicts
from storage.rebuild import rebuild
from storage.retention import prune
from storage.sources import adopt, record_files

RUN = "20260301T020000Z-aaaaaa"
TARGET = {"name": "2 concurrent", "metric": "speedup_vs_serial", "level": 2, "direction": ">=", "bound": 1.7, "unit": "x"}


def verdicts_of(store: Path, run_id: str) -> list[dict[str, Any]]:
    """A stand-in for the flow's statistics: the mean ratio at level 2, held against the target."""
    frame = queries.target_ratios(store, run_id)
    ratio = float(frame[frame["level"] == 2]["ratio"].mean())
    return [
        {"target": TARGET, "status": "PASS" if ratio >= 1.7 else "FAIL", "ratio": ratio, "pairs": len(frame), "reason": "mean"}
    ]


def filled(kit: Any, results: Any) -> list[Path]:
    """A store with something in every table that flows fill."""
    run = kit.make.make_run({1: 1.0, 2: 1.8}, pairs=2)
    paths = results.write([*run, kit.make.make_record(values={"idle_fraction": 0.001}, spec={"kind": "idle"})])
    bad = paths[0].with_name("foreign.json")
    bad.write_text("{}")
    store_run(results.store, RUN, commit="a" * 40, workload="report", started_at=datetime(2026, 3, 1, tzinfo=UTC), exit_code=0)
    ingest(results.store, [*paths, bad])
    store_build(results.store, RUN, {"commit": "a" * 40, "flags": "-O3"}, seconds=40.0)
    store_verdicts(results.store, RUN, verdicts_of(results.store, RUN))
    return paths


def test_rebuild_makes_the_same_tables(kit: Any, results: Any) -> None:
    paths = filled(kit, results)
    before = kit.contents(results.root)
    for file in (results.store, results.snapshot):
        file.unlink()
    report = rebuild(results.root, results.store, recompute=verdicts_of)
    assert (report.added, len(report.rejected)) == (len(paths), 1)
    assert kit.contents(results.root) == before
    assert kit.contents(results.store) == before
    assert [p.name for p in results.root.glob(".rebuild*")] == []


def test_rebuild_replaces_a_broken_store(kit: Any, results: Any) -> None:
    filled(kit, results)
    before = kit.contents(results.root, leave_out=("verdicts",))
    results.store.write_bytes(results.store.read_bytes()[:5000])
    rebuild(results.root, results.store)
    after = kit.contents(results.store)
    assert after.pop("verdicts") == []
    assert after == before


def test_rebuild_elsewhere_leaves_the_store_alone(kit: Any, results: Any, tmp_path: Path) -> None:
    filled(kit, results)
    before = results.store.read_bytes()
    rebuild(results.root, tmp_path / "other" / "paceline.duckdb", recompute=verdicts_of)
    assert results.store.read_bytes() == before
    assert kit.contents(tmp_path / "other") == kit.contents(results.root)


def test_rebuild_goes_on_past_a_broken_run_file(kit: Any, results: Any) -> None:
    paths = filled(kit, results)
    (results.root / RUN / "run.json").write_text("{ half")
    (results.root / "commits.json").write_text("[]")
    report = rebuild(results.root, results.store)
    assert report.added == len(paths)
    assert {path.name for path, _ in report.rejected} == {"foreign.json", RUN, "commits.json"}
    assert "run.json" in str(report)


def test_rebuild_goes_on_past_a_run_that_cannot_be_judged(kit: Any, results: Any) -> None:
    filled(kit, results)
    ingest(results.store, results.write(kit.make.make_run({2: 1.8}, pairs=1, run_id="other")))

    def partly(store: Path, run_id: str) -> list[dict[str, Any]]:
        if run_id == RUN:
            raise ValueError("plan.json: not a plan")
        return verdicts_of(store, run_id)

    report = rebuild(results.root, results.store, recompute=partly)
    assert (
        results.root / RUN,
        f"{results.root / RUN}: its verdicts cannot be worked out again: plan.json: not a plan",
    ) in report.rejected
    assert results.query("SELECT run_id FROM verdicts") == [("other",)]


def test_export_and_import_restore_all(kit: Any, results: Any, tmp_path: Path) -> None:
    filled(kit, results)
    later = kit.make.make_run({2: 1.9}, pairs=1, run_id="later")
    later = [
        r.model_copy(update={"started_at": datetime(2026, 5, 1, tzinfo=UTC), "record_id": f"{i}" * 32})
        for i, r in enumerate(later)
    ]
    ingest(results.store, results.write(later))
    report = export(results.root, tmp_path / "out")
    assert report.rows["records"] == 11
    months = sorted(path.name for path in (tmp_path / "out" / "requests").iterdir())
    assert months == ["month=2026-03", "month=2026-05"]
    import_back(tmp_path / "out", tmp_path / "new")
    assert kit.contents(tmp_path / "new") == kit.contents(results.root)


def test_a_rebuild_empties_no_imported_store(kit: Any, results: Any, tmp_path: Path) -> None:
    filled(kit, results)
    export(results.root, tmp_path / "out")
    import_back(tmp_path / "out", tmp_path / "new")
    before = kit.contents(tmp_path / "new")
    with pytest.raises(StoreError, match=r"holds no record, and paceline\.duckdb has 9, as one that `paceline import` filled"):
        rebuild(tmp_path / "new", tmp_path / "new")
    assert kit.contents(tmp_path / "new") == before
    assert not list((tmp_path / "new").glob(".rebuild*"))


def test_a_rebuild_keeps_the_store_that_knew_more(kit: Any, results: Any) -> None:
    paths = filled(kit, results)
    before = kit.contents(results.root)
    paths[0].unlink()
    report = rebuild(results.root, results.store, recompute=verdicts_of)
    kept = results.root / "paceline.before-rebuild-1.duckdb"
    assert f"{results.store}: 1 of its records have no readable file any more; as it was, it is kept as {kept.name}" in str(
        report
    )
    assert report.added == len(paths) - 1
    assert kit.contents(kept) == before
    assert len(rebuild(results.root, results.store, recompute=verdicts_of).rejected) == 1, "nothing is lost a second time"


def test_an_import_brings_decisions_for_good(kit: Any, results: Any, tmp_path: Path) -> None:
    filled(kit, results)
    day = datetime(2026, 3, 2, tzinfo=UTC)
    add_acceptance(results.root, "a" * 40, "a try", day)
    add_waiver(results.root, "2 concurrent", day.date(), "known", day)
    export(results.root, tmp_path / "out")
    new = tmp_path / "new"
    import_back(tmp_path / "out", new)
    assert kit.contents(new) == kit.contents(results.root)
    add_acceptance(new, "b" * 40, "another", day + timedelta(days=1))
    with read(new) as connection:
        found = connection.execute('SELECT "because" FROM decisions ORDER BY decided_at, kind').fetchall()
    assert found == [("a try",), ("known",), ("another",)]


def test_export_and_import_of_an_empty_store(kit: Any, results: Any, tmp_path: Path) -> None:
    Database(results.store).publish_snapshot()
    export(results.root, tmp_path / "out")
    import_back(tmp_path / "out", tmp_path / "new")
    assert kit.contents(tmp_path / "new") == kit.contents(results.root)


def test_export_refuses_what_is_there_and_import_what_is_wrong(kit: Any, results: Any, tmp_path: Path) -> None:
    filled(kit, results)
    export(results.root, tmp_path / "out")
    with pytest.raises(StoreError, match="is there already"):
        export(results.root, tmp_path / "out")
    with pytest.raises(StoreError, match="a store already"):
        import_back(tmp_path / "out", results.store)
    manifest = tmp_path / "out" / "manifest.json"
    whole = manifest.read_text()
    manifest.write_text(whole.replace('"builds": 1', '"builds": 2'))
    with pytest.raises(StoreError, match="1 rows, and the manifest says 2"):
        import_back(tmp_path / "out", tmp_path / "new")
    assert not (tmp_path / "new" / "paceline.duckdb").exists()
    manifest.write_text(re.sub(r'"schema_version": \d+', '"schema_version": 99', whole))
    with pytest.raises(StoreTooNew, match="install"):
        import_back(tmp_path / "out", tmp_path / "new")
    shutil.rmtree(tmp_path / "out" / "rounds")
    manifest.write_text(whole)
    with pytest.raises(StoreError, match="rounds"):
        import_back(tmp_path / "out", tmp_path / "new")


@pytest.mark.parametrize("form", ["file", "folder", "tar.gz", "zip"])
def test_adopting_from_another_host(kit: Any, results: Any, tmp_path: Path, form: str) -> None:
    other = kit.Results(tmp_path / "elsewhere")
    paths = other.write(kit.make.make_pair(2, 1.8))
    (other.root / RUN / "run.json").write_text(f'{{"run_id": "{RUN}", "exit_code": 3}}')
    offered = {"file": paths, "folder": [other.root]}.get(form)
    if form == "tar.gz":
        offered = [tmp_path / "night.tar.gz"]
        with tarfile.open(offered[0], "w:gz") as packed:
            packed.add(other.root, arcname="results")
    elif form == "zip":
        offered = [tmp_path / "night.zip"]
        with zipfile.ZipFile(offered[0], "w") as zipped:
            for path in (*paths, other.root / RUN / "run.json"):
                zipped.write(path, path.relative_to(other.root))
    report = adopt(results.store, offered or [])
    assert (report.added, report.rejected) == (2, [])
    assert [p.name for p in record_files(results.root)] == sorted(p.name for p in paths)
    assert results.query("SELECT exit_code FROM runs") == [(3,)]
    assert adopt(results.store, offered or []).unchanged == 2
    before = kit.contents(results.root)
    rebuild(results.root, results.store)
    assert kit.contents(results.root) == before


def test_adopting_never_leaves_the_results_folder(kit: Any, results: Any, tmp_path: Path) -> None:
    other = kit.Results(tmp_path / "elsewhere")
    other.root.mkdir()
    climbing = kit.make.make_record(run_id="../../out")
    hidden = kit.make.make_record(measurement="..", run_id="fine", record_id="7" * 32)
    for number, record in enumerate((climbing, hidden)):
        from storage.records import dump

        dump(record, other.root / f"{number}.json")
    report = adopt(results.store, [other.root])
    assert report.added <= 1
    assert "run_id" in report.rejected[0][1]
    outside = [p for p in tmp_path.rglob("*.json") if not p.is_relative_to(other.root) and not p.is_relative_to(results.root)]
    assert outside == []


def test_adopting_an_altered_twin_keeps_both_files(kit: Any, results: Any, tmp_path: Path) -> None:
    ingest(results.store, results.write(kit.make.make_record()))
    other = kit.Results(tmp_path / "elsewhere")
    paths = other.write(kit.make.make_record(wall_s=5.0))
    report = adopt(results.store, paths)
    assert (report.added, len(report.rejected)) == (0, 1)
    assert len(record_files(results.root)) == 2


def test_adopting_what_is_not_there(results: Any, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        adopt(results.store, [tmp_path / "nothing"])
    (tmp_path / "broken.tar").write_bytes(b"no archive")
    with pytest.raises(StoreError, match="not an archive"):
        adopt(results.store, [tmp_path / "broken.tar"])


def test_retention_keeps_the_aggregates(kit: Any, results: Any) -> None:
    filled(kit, results)
    views = (
        "target_ratios",
        "level_table",
        "request_latency_percentiles",
        "token_latencies",
        "leg_metrics",
        "ratio_by_commit",
        "occupancy",
    )
    before = {view: sorted(map(repr, results.query(f"FROM {view}"))) for view in views}
    assert prune(results.store, datetime(2026, 1, 1, tzinfo=UTC)).records == 0
    report = prune(results.store, datetime(2027, 1, 1, tzinfo=UTC))
    assert (report.records, report.rounds) == (9, 54)
    assert results.query("SELECT (SELECT count(*) FROM requests), (SELECT count(*) FROM rounds)") == [(0, 0)]
    assert {view: sorted(map(repr, results.query(f"FROM {view}"))) for view in views} == before
    assert ingest(results.store, record_files(results.root)).added == 0
