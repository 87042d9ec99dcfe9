"""How the results store scales: `python tests/bench/bench_store.py 1000 20000 200000`, by hand, on a quiet machine.

Nights of paired measurements from ten machines are written as raw records, ingested, snapshotted, and every view is read in
full. Raw files live for one batch only, so 200,000 records need no room for 200,000 files; the store alone grows. Prints a
Markdown table.
"""

import argparse
import copy
import hashlib
import importlib.util
import json
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from storage.database import Database, read
from storage.ingest import ingest
from storage.migrate import view_files
from storage.records import digest

FACTORY = Path(__file__).parents[1] / "unit/storage_records/record_factory.py"
MACHINES = 10
PAIRS = 5
LEVELS = (1, 2, 4, 8)
BATCH = 5000  # raw files that lie on disk at once
NIGHT = MACHINES * PAIRS * len(LEVELS) * 2


def factory() -> Any:
    """The tests' own maker of records."""
    spec = importlib.util.spec_from_file_location("record_factory", FACTORY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bodies(count: int) -> Iterator[dict[str, Any]]:
    """Records as JSON bodies: night after night, each machine its pairs. Times are the factory's, scaled by a little noise."""
    make = factory()
    templates = {
        (level, mode): make.make_record(spec={"level": level, "mode": mode, "new_tokens": 16, "runs": 3}).model_dump(mode="json")
        for level in LEVELS
        for mode in ("serial", "batch")
    }
    for number in range(count):
        night, place = divmod(number, NIGHT)
        machine, place = divmod(place, NIGHT // MACHINES)
        pair, place = divmod(place, len(LEVELS) * 2)
        level, mode = LEVELS[place // 2], ("serial", "batch")[place % 2]
        body = copy.deepcopy(templates[level, mode])
        started = make.STARTED + timedelta(days=night, minutes=place + 8 * pair)
        seed = hashlib.sha256(f"{number}".encode()).hexdigest()
        stretch = (1 if mode == "serial" else 1 / level**0.7) * (1 + (int(seed[:4], 16) / 65536 - 0.5) / 50)
        for item in body["rounds"]:
            item["wall_s"] *= stretch
            for request in item["requests"]:
                request["e2el_s"] *= stretch
                request["itl_s"] = [gap * stretch for gap in request["itl_s"]]
        body["record_id"] = seed[:32]
        body["run_id"] = f"{started:%Y%m%d}T020000Z-m{machine}"
        body["spec"] |= {"pair": pair, "block": pair, "order": place + 8 * pair}
        body["measurement"] = f"report/{body['spec']['kind']}-x{level}-{mode}/pair{pair:02d}"
        body["source"]["commit"] = hashlib.sha1(f"{night}".encode(), usedforsecurity=False).hexdigest()
        body["environment"] |= {"fingerprint": f"machine{machine}", "hostname": f"bench{machine}"}
        body["started_at"] = started.isoformat()
        body["finished_at"] = (started + timedelta(seconds=40)).isoformat()
        yield body


def bench(count: int, folder: Path) -> dict[str, float]:
    """Seconds by step, for a store of so many records."""
    database = Database(folder / "results")
    raw = folder / "raw"
    raw.mkdir()
    took = {"ingest": 0.0}
    batch: list[Path] = []

    def store() -> float:
        start = time.perf_counter()
        report = ingest(database.path, batch)
        seconds = time.perf_counter() - start
        assert report.added == len(batch), str(report)
        for path in batch:
            path.unlink()
        batch.clear()
        return seconds

    for number, body in enumerate(bodies(count + NIGHT // MACHINES)):
        if number == count:
            took["ingest"] += store()
        path = raw / f"{number}.json"
        path.write_text(json.dumps({**body, "digest": digest(body)}))
        batch.append(path)
        if number < count and len(batch) == BATCH:
            took["ingest"] += store()
    took[f"one more night of one machine ({NIGHT // MACHINES} records), snapshot included"] = store()
    start = time.perf_counter()
    database.publish_snapshot()
    took["snapshot alone"] = time.perf_counter() - start
    for view in (path.stem for path in view_files()):
        start = time.perf_counter()
        with read(database.path) as connection:
            connection.execute(f"CREATE TEMP TABLE whole AS SELECT * FROM {view}")
        took[f"view {view}"] = time.perf_counter() - start
    took["store, MB"] = database.path.stat().st_size / 1e6
    took["snapshot, MB"] = database.snapshot.stat().st_size / 1e6
    return took


def main() -> None:
    """Print the table for the counts of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", nargs="+", type=int, help="records in the store, such as 1000 20000 200000")
    parser.add_argument("--folder", type=Path, help="where to build the stores; needs about 2 GB for 200,000 records")
    options = parser.parse_args()
    columns = {}
    for count in options.counts:
        with tempfile.TemporaryDirectory(prefix="paceline-bench-", dir=options.folder) as folder:
            columns[count] = bench(count, Path(folder))
    print("| step, seconds | " + " | ".join(f"{count:,}" for count in columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for step in next(iter(columns.values())):
        print(f"| {step} | " + " | ".join(f"{column[step]:.2f}" for column in columns.values()) + " |")


if __name__ == "__main__":
    main()
