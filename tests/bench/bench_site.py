"""How the site scales: `python tests/bench/bench_site.py 1 400 3000`, by hand, on a quiet machine.

A store of so many commits with a night each (levels 1, 2, 4 and 8, two pairs, one machine), its site, the seconds it took and
its size. Nights are written as raw records and ingested in batches. Prints a Markdown table.
"""

import argparse
import hashlib
import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from dashboards.site import write_site
from storage.database import Database, read
from storage.ingest import ingest
from storage.load_rows import insert_rows
from storage.records import digest
from storage.sql import transaction

MAKER = Path(__file__).parents[1] / "unit/dashboards/store_maker.py"
BATCH = 150  # nights whose raw files lie on disk at once
BOUNDS = {1: ("single-request latency", "<=", 1.05), 2: ("2 concurrent", ">=", 1.7), 4: ("4 concurrent", ">=", 3.0)}
BOUNDS[8] = ("8 concurrent", ">=", 4.5)


def maker() -> ModuleType:
    """The dashboards' tests' own maker of stores."""
    spec = importlib.util.spec_from_file_location("bench_store_maker", MAKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def fill(folder: Path, commits: int) -> Path:
    """A store of so many commits with verdicts; its snapshot."""
    make = maker()
    factory, database = make.record_factory(), Database(folder / "results")
    ratios = {1: 1.0, 2: 1.88, 4: 3.3, 8: 4.7}
    for first in range(0, commits, BATCH):
        paths = []
        for night in range(first, min(first + BATCH, commits)):
            _, records = make.make_run(factory, night, ratios, pairs=2, spec={"new_tokens": 4, "runs": 2})
            for record in records:
                paths.append(folder / f"{record.record_id}.json")
                body = record.model_dump(mode="json")
                paths[-1].write_text(json.dumps(body | {"digest": digest(body)}), encoding="utf-8")
        report = ingest(database.path, paths)
        assert not report.rejected, str(report)
        for path in paths:
            path.unlink()
    with database.write() as connection, transaction(connection):
        names = [hashlib.sha1(str(night).encode(), usedforsecurity=False).hexdigest() for night in range(commits)]
        rows = [{"commit": name, "parents": [], "reachable": True, "position": place} for place, name in enumerate(names, 1)]
        insert_rows(connection, "commits", rows)
        insert_rows(connection, "verdicts", _verdicts(connection))
    return database.snapshot


def _verdicts(connection: Any) -> list[dict[str, Any]]:
    """A plausible verdict a run and level: the bench is about drawing, not about judging."""
    sql = "SELECT run_id, workload, metric, level, exp(avg(ln(ratio))) FROM target_ratios GROUP BY ALL"
    rows = []
    for run_id, workload, metric, level, ratio in connection.execute(sql).fetchall():
        name, direction, bound = BOUNDS[level]
        low, high = 0.985 * ratio, 1.015 * ratio
        good, bad = (high <= bound, low > bound) if direction == "<=" else (low >= bound, high < bound)
        status = "PASS" if good else "FAIL" if bad else "INCONCLUSIVE"
        rows.append(
            {"run_id": run_id, "workload": workload, "metric": metric, "level": level, "name": name, "leg": "ratio", "unit": "x"}
            | {"direction": direction, "target": bound, "status": status, "ratio": ratio, "low": low, "high": high, "pairs": 2}
            | {"point": False, "reason": "", "flags": [], "excluded": [], "waived": "", "details": "{}"}
        )
    return rows


def main() -> None:
    """Print the table for the counts of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", nargs="+", type=int, help="commits, such as 1 400 3000")
    given = parser.parse_args()
    print("| commits | records | site, s | files | MB |\n|---|---|---|---|---|")
    for count in given.counts:
        with tempfile.TemporaryDirectory() as folder:
            snapshot = fill(Path(folder), count)
            with read(snapshot) as connection:
                records = connection.execute("SELECT count(*) FROM records").fetchall()[0][0]
            start = time.perf_counter()
            site = write_site(snapshot, Path(folder) / "site")
            seconds = time.perf_counter() - start
            print(f"| {count} | {records} | {seconds:.1f} | {len(site.files)} | {site.total_bytes / 1e6:.2f} |", flush=True)


if __name__ == "__main__":
    main()
