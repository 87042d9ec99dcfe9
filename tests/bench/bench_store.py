"""How the results store scales: `python tests/bench/bench_store.py 1000 20000 200000`, by hand, on a quiet machine.

Nights of paired measurements from ten machines are written as raw records, ingested, snapshotted, and every view is read in
full. A process of its own writes the raw files, a batch ahead; they live until they are ingested, so 200,000 records need no
room for 200,000 files; the store alone grows. Prints a Markdown table.
"""

import argparse
import hashlib
import importlib.util
import json
import math
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from storage.database import Database, read
from storage.ingest import ingest
from storage.migrate import view_files

FACTORY = Path(__file__).parents[1] / "unit/storage_records/record_factory.py"
MACHINES = 10
PAIRS = 5
LEVELS = (1, 2, 4, 8)
BATCH = 10000  # raw files that lie on disk at once
NIGHT = MACHINES * PAIRS * len(LEVELS) * 2


def factory() -> Any:
    """The tests' own maker of records."""
    spec = importlib.util.spec_from_file_location("record_factory", FACTORY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(count: int) -> Iterator[str]:
    """Raw records: night after night, each machine its pairs. Times are the factory's, scaled by a little noise."""
    make = factory()
    step = {"decode_step_s": 0.01, "decode_step_bytes": 1e8, "slot_fill_fraction": 1.0}
    templates = {
        (level, mode): make.make_record(
            spec={"level": level, "mode": mode, "new_tokens": 16, "runs": 3}, values=step
        ).model_dump_json()
        for level in LEVELS
        for mode in ("serial", "batch")
    }
    for number in range(count):
        night, place = divmod(number, NIGHT)
        machine, place = divmod(place, NIGHT // MACHINES)
        pair, place = divmod(place, len(LEVELS) * 2)
        level, mode = LEVELS[place // 2], ("serial", "batch")[place % 2]
        body = json.loads(templates[level, mode])
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
        body["started_at"] = started.isoformat().replace("+00:00", "Z")
        body["finished_at"] = (started + timedelta(seconds=40)).isoformat().replace("+00:00", "Z")
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))  # what `digest` is taken of
        yield f'{text[:-1]},"digest":"{hashlib.sha256(text.encode()).hexdigest()}"}}\n'


def write_files(count: int, folder: Path) -> None:
    """A folder of so many raw records, the last ones one more night of one machine, in batches: NUMBER/record.json. A batch is
    there once its name has no dot before it, and the next but one waits until it is gone.
    """
    made = texts(count + NIGHT // MACHINES)
    sizes = [*(min(BATCH, count - first) for first in range(0, count, BATCH)), NIGHT // MACHINES]
    for number, size in enumerate(sizes):
        while number > 1 and (folder / str(number - 2)).exists():
            time.sleep(0.05)
        hidden = folder / f".{number}"
        hidden.mkdir()
        for place in range(size):
            (hidden / f"{place}.json").write_text(next(made))
        hidden.rename(folder / str(number))


def bench(count: int, folder: Path) -> dict[str, float]:
    """Seconds by step, for a store of so many records."""
    database = Database(folder / "results")
    raw = folder / "raw"
    raw.mkdir()
    took = {"ingest": 0.0}
    writer = multiprocessing.get_context("spawn").Process(target=write_files, args=(count, raw), daemon=True)
    writer.start()
    batches = math.ceil(count / BATCH) + 1
    for number in range(batches):
        batch = raw / str(number)
        while not batch.exists():
            assert writer.is_alive() or batch.exists(), "the writer of raw records died"
            time.sleep(0.01)
        start = time.perf_counter()
        files = sorted(batch.iterdir())
        report = ingest(database.path, files)
        seconds = time.perf_counter() - start
        assert report.added == len(files), str(report)
        shutil.rmtree(batch)
        if number == batches - 1:
            took[f"one more night of one machine ({NIGHT // MACHINES} records), snapshot included"] = seconds
        else:
            took["ingest"] += seconds
    writer.join()
    took["ingest, records/s"] = count / took["ingest"]
    start = time.perf_counter()
    database.publish_snapshot()
    took["snapshot alone"] = time.perf_counter() - start
    for view in (path.stem for path in view_files()):
        start = time.perf_counter()
        with read(database.path) as connection:
            connection.execute(f"CREATE TEMP TABLE whole AS SELECT * FROM {view}")
        took[f"view {view}"] = time.perf_counter() - start
    assert not writer.exitcode
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
