"""The site's list of runs has room for those that came to no verdict: cut short, or a night of the canary alone."""

from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from dashboards.overview import run_grid
from storage import queries
from storage.runs import store_run


def test_an_interrupted_run_is_listed_without_counts(store_maker: ModuleType, tmp_path: Path) -> None:
    results = store_maker.Results(tmp_path)
    store_run(results.store, "cut", commit="c" * 40, workload="report", started_at=datetime(2026, 1, 1, tzinfo=UTC))
    store_run(results.store, "cut-at-once", plan={"stages": [], "blocks": []})
    for made in (run_grid(queries.runs(results.store), [], None), run_grid(queries.runs(results.snapshot), [], None)):
        rows = {str(row[0]): row for row in made.rows}
        assert rows["cut"][2:] == ["2026-01-01 00:00", "0 of 0", "", "", "", ""]
        assert rows["cut-at-once"][2:] == ["", "0 of 0", "", "", "", ""]


def test_beside_a_judged_run_too(store_maker: ModuleType, tmp_path: Path) -> None:
    results = store_maker.Results(tmp_path)
    run_id, records = store_maker.make_run(store_maker.record_factory(), 0, pairs=3)
    results.add_run(run_id, records)
    store_run(results.store, "cut", commit="c" * 40, workload="report", started_at=datetime(2026, 1, 1, tzinfo=UTC))
    rows = {str(row[0]): row for row in run_grid(queries.runs(results.store), [], None).rows}
    assert rows["cut"][3:] == ["0 of 0", "", "", "", ""]
    assert rows[run_id][4] != ""
