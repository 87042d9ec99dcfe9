"""Real stores for the dashboards' tests: records from the factory, ingested, judged with the product's own verdicts.

Loaded by path from the conftests of unit and browser tests.
"""

import hashlib
import importlib.util
import math
import subprocess
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from flows.verdicts.judge import PairSample, judge
from flows.verdicts.targets import default_targets
from storage import queries
from storage.ingest import ingest
from storage.records import dump
from storage.runs import store_verdicts

FACTORY = Path(__file__).parent.parent / "storage_records" / "record_factory.py"
RATIOS = {1: 1.002, 2: 1.88, 4: 3.09, 8: 3.94}  # the predecessor's later figures: the level of 8 fails


def record_factory() -> ModuleType:
    """The shared maker of records."""
    spec = importlib.util.spec_from_file_location("record_factory", FACTORY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Results:
    """A results root with its store."""

    root: Path
    last: str = ""  # the newest run

    @property
    def store(self) -> Path:
        return self.root / "paceline.duckdb"

    @property
    def snapshot(self) -> Path:
        return self.root / "snapshot.duckdb"

    def add_run(self, run_id: str, records: list[Any]) -> None:
        """Write records as a run leaves them, ingest them and judge the default targets."""
        folder = self.root / run_id / "records"
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for record in records:
            paths.append(folder / f"{record.measurement.replace('/', '.')}.attempt{record.spec.attempt}.json")
            dump(record, paths[-1])
        report = ingest(self.store, paths)
        assert not report.rejected, report
        self.judge(run_id)

    def judge(self, run_id: str) -> None:
        """Store a verdict for each default target whose level the run has."""
        pairs = queries.target_ratios(self.store, run_id)
        verdicts = []
        for target in default_targets():
            rows = pairs[(pairs["level"] == target.level) & (pairs["metric"] == target.metric)]
            samples = [
                PairSample(int(r["pair"]), _leg(r["serial"]), _leg(r["batch"]), bool(r["valid"]), r["reason"], bool(r["broken"]))
                for r in rows.to_dict("records")
            ]
            if samples:
                verdicts.append(judge(target, samples).to_dict())
        store_verdicts(self.store, run_id, verdicts, workload="report")


def make_run(
    factory: ModuleType, index: int, ratios: dict[int, float] | None = None, pairs: int = 3, commit: str = "", **overrides: Any
) -> tuple[str, list[Any]]:
    """(run id, records) of night number `index`; each night has its own commit, made up where none is given."""
    started = factory.STARTED + timedelta(days=index)
    run_id = f"{started:%Y%m%dT%H%M%SZ}-{index:06x}"
    commit = commit or hashlib.sha1(str(index).encode(), usedforsecurity=False).hexdigest()
    source = factory.make_source(commit=commit)
    times = {"started_at": started, "finished_at": started + timedelta(minutes=1)}
    return run_id, factory.make_run(ratios or RATIOS, pairs=pairs, seed=index, run_id=run_id, source=source, **times, **overrides)


def git_history(folder: Path, count: int) -> list[str]:
    """A repository of `count` commits, oldest first."""
    folder.mkdir()
    who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
    run = partial(subprocess.run, cwd=folder, check=True, capture_output=True, text=True)
    run(["git", "init", "-q", "."])
    for number in range(count):
        run(["git", *who, "commit", "-q", "--allow-empty", "-m", f"change {number}"])
    return str(run(["git", "rev-list", "--reverse", "HEAD"]).stdout).split()


def _leg(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
