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
from storage.commits import fill_commits
from storage.ingest import ingest, store_build, store_verdicts
from storage.records import dump
from storage.runs import store_changes

FACTORY = Path(__file__).parent.parent / "storage_records" / "record_factory.py"
RATIOS = {1: 1.002, 2: 1.88, 4: 3.09, 8: 3.94}  # the predecessor's later figures: the level of 8 fails

SHARED = ("source", "environment", "started_at", "finished_at")
CANARY = "The same build against itself moved by +1.0% (-2.1% to +4.0%) on batch at 2."
HINT = "a decode step computed 5.1 of 8 rows on average: slots were not filled (docs/troubleshooting.md#slots-not-filled)"


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
        self.add_runs({run_id: records})

    def add_runs(self, runs: dict[str, list[Any]]) -> None:
        """Several runs, ingested at once."""
        paths = []
        for run_id, records in runs.items():
            folder = self.root / run_id / "records"
            folder.mkdir(parents=True, exist_ok=True)
            for record in records:
                paths.append(folder / f"{record.measurement.replace('/', '.')}.attempt{record.spec.attempt}.json")
                dump(record, paths[-1])
        report = ingest(self.store, paths)
        assert not report.rejected, report
        for run_id in runs:
            self.judge(run_id)

    def judge(self, run_id: str) -> None:
        """Store a verdict for each default target whose level the run has."""
        store_verdicts(self.store, run_id, self.verdicts(queries.target_ratios(self.store, run_id)), workload="report")

    def verdicts(self, pairs: Any) -> list[dict[str, Any]]:
        """What the default targets come to on these pairs."""
        verdicts = []
        for target in default_targets():
            rows = pairs[(pairs["level"] == target.level) & (pairs["metric"] == target.metric)]
            samples = [
                PairSample(int(r["pair"]), _leg(r["serial"]), _leg(r["batch"]), bool(r["valid"]), r["reason"], bool(r["broken"]))
                for r in rows.to_dict("records")
            ]
            if samples:
                verdicts.append(judge(target, samples).to_dict())
        return verdicts


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


def eventful(results: Results, factory: ModuleType, nights: int, machines: int = 2) -> str:
    """Nights with all that can befall them; needs at least 12. Returns the commit that could not be built.

    Two machines take turns; the level of 8 steps up in the middle, which the store is told of; the commit after that does not
    build, five later ones were not measured; the last night has a canary, a failing target with a hint, and pairs left out.
    """
    commits = git_history(results.root / "repository", nights + 6)
    middle, last = nights // 2, nights - 1
    runs = {}
    for night in range(nights):
        commit = commits[night] if night <= middle else commits[night + 6]
        number = night % machines
        machine = {"cpu_model": f"CPU {number}", "cores": 2, "memory_bytes": 24 * 2**30}
        environment = factory.make_environment(fingerprint=f"{number:016x}", machine=machine)
        ratios = {1: 1.0, 2: 1.1 if night == last else 1.9, 8: 4.9 if night >= middle else 4.55}
        run_id, records = make_run(factory, night, ratios=ratios, pairs=2, commit=commit, environment=environment)
        if night == last:
            records = [r for r in records if not (r.spec.level == 8 and r.spec.pair == 1 and r.spec.mode == "serial")]
            records += canaries(factory, run_id, records[0])
            results.last = run_id
        runs[run_id] = records
    results.add_runs(runs)
    broken = commits[middle + 1]
    failure = "model.cc:12: error: 'Rows' was not declared in this scope\nmake: 1"
    store_build(results.store, results.last, {"commit": broken, "dirty": False, "tree": "0" * 64}, seconds=12.0, failure=failure)
    fill_commits(results.store, results.root / "repository")
    _tell_change(results, commits[middle - 2], commits[middle])
    _give_reasons(results)
    return broken


def canaries(factory: ModuleType, run_id: str, like: Any) -> list[Any]:
    """Two A/A pairs at level 2 in batch mode, 1 % and 3 % apart."""
    made = []
    for pair, walls in enumerate(((1.30, 1.313), (1.30, 1.261))):
        for arm, wall in zip("ab", walls, strict=True):
            spec = {"kind": "canary", "level": 2, "mode": "batch", "pair": pair, "extra": {"arm": arm}}
            name = f"report/canary-x2-batch-{arm}/pair{pair:02d}"
            shared = {"run_id": run_id, "measurement": name} | {field: getattr(like, field) for field in SHARED}
            identity = hashlib.md5(f"{run_id}/{name}".encode(), usedforsecurity=False).hexdigest()
            made.append(factory.make_record(wall_s=wall, spec=spec, record_id=identity, **shared))
    return made


def _tell_change(results: Results, good: str, bad: str) -> None:
    history = queries.ratio_history(results.store)
    row = history[(history["commit"] == bad) & (history["level"] == 8)].iloc[0]
    places = history.drop_duplicates("commit").set_index("commit")["commit_position"]
    line = {name: row[name] for name in ("series", "workload", "metric")} | {"level": 8, "good": good, "bad": bad}
    figures = {"step": 1.077, "low": 1.05, "high": 1.1, "p": 1e-5}
    where = {"good_position": int(places[good]), "bad_position": int(places[bad])}
    store_changes(results.store, row["run_id"], [line | where | figures])


def _give_reasons(results: Results) -> None:
    """The last run judged again, with what the aggregation adds to verdicts: the canary, the legs' change, hints."""
    frame = queries.target_ratios(results.store, results.last)
    verdicts = results.verdicts(frame)
    for verdict in verdicts:
        verdict["canary"] = CANARY
        if verdict["status"] == "FAIL":
            verdict |= {"hints": [HINT], "change": "speed-up -21.0 % against aaaaaaaaaa: the batch leg is slower."}
    store_verdicts(results.store, results.last, verdicts, workload="report")


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
