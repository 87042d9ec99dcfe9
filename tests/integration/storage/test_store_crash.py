"""SIGKILL at every step of ingest, snapshot and rebuild: the store is whole before and after, and equals a rebuild from the
raw records.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from storage.database import read
from storage.ingest import ingest
from storage.rebuild import rebuild

PROGRAM = Path(__file__).with_name("ingest_until_killed.py")
SAMPLED = 6  # places to die in the quick test; the slow one takes them all over


def act(action: str, step: int, store: Path, files: list[Path]) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    command = [sys.executable, str(PROGRAM), action, str(step), str(store), *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def spread(count: int, places: int) -> list[int]:
    """Steps from the first to the last, evenly; not always the same ones within each stretch."""
    generator = random.Random(count)
    edges = [1 + count * i // places for i in range(places + 1)]
    return [generator.randrange(low, max(high, low + 1)) for low, high in pairwise(edges)]


class Case:
    """A store that holds one night, and the raw records of the next."""

    def __init__(self, kit: Any, results: Any, scratch: Path) -> None:
        self.kit, self.results, self.scratch = kit, results, scratch
        self.first = results.write(kit.make.make_pair(2, 1.8, pair=0))
        ingest(results.store, self.first)
        self.before = kit.contents(results.root)
        self.second = results.write(kit.make.make_pair(4, 3.0, pair=1))
        self.saved = scratch / "saved"
        shutil.copytree(results.root, self.saved)
        rebuild(results.root, scratch / "rebuilt")
        self.after = kit.contents(scratch / "rebuilt")
        assert self.after != self.before

    def restore(self) -> None:
        shutil.rmtree(self.results.root)
        shutil.copytree(self.saved, self.results.root)

    def steps(self, action: str) -> int:
        """How many steps the action has."""
        done = act(action, 0, self.results.store, self.second)
        assert done.returncode == 0, done.stderr
        assert self.kit.contents(self.results.root) == self.after
        return int(done.stdout)

    def check_killed(self, action: str, step: int, die: Callable[[str, int], int] | None = None) -> None:
        """Die at the step; nothing may be half done; the next attempt completes it. `die` does it and returns the exit code."""
        self.restore()
        code = die(action, step) if die else act(action, step, self.results.store, self.second).returncode
        assert code == -signal.SIGKILL, step
        assert self.kit.contents(self.results.snapshot) in (self.before, self.after), f"snapshot after step {step}"
        aside = self.scratch / "store alone"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        for suffix in ("", ".wal"):
            file = Path(f"{self.results.store}{suffix}")
            if file.exists():
                shutil.copyfile(file, aside / file.name)
        assert self.kit.contents(aside) in (self.before, self.after), f"store after step {step}"
        ingest(self.results.store, self.first + self.second)
        assert self.kit.contents(self.results.store) == self.after, f"store repaired after step {step}"
        assert self.kit.contents(self.results.snapshot) == self.after
        left = {path.name for path in self.results.root.iterdir() if path.is_file()}
        assert left <= {"paceline.duckdb", ".paceline.duckdb.lock", "snapshot.duckdb"}, left


@pytest.fixture
def case(kit: Any, results: Any, tmp_path: Path) -> Case:
    return Case(kit, results, tmp_path)


def test_killed_at_a_sample_of_the_steps_of_ingest(case: Case) -> None:
    for step in spread(case.steps("ingest"), SAMPLED):
        case.check_killed("ingest", step)


def test_killed_at_a_sample_of_the_steps_of_rebuild(case: Case) -> None:
    for step in spread(case.steps("rebuild"), 3):
        case.check_killed("rebuild", step)


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("action", ["ingest", "rebuild"])
def test_killed_all_over(case: Case, action: str) -> None:
    """Every step, or every Nth with CRASH_STRIDE=N."""
    total, stride = case.steps(action), int(os.environ.get("CRASH_STRIDE", "1"))
    command = [sys.executable, str(PROGRAM), "serve", str(case.results.store), *map(str, case.second)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        asked, answered = server.stdin, server.stdout
        assert asked is not None
        assert answered is not None

        def die(what: str, step: int) -> int:
            asked.write(f"{what} {step}\n")
            asked.flush()
            return int(answered.readline())

        for step in range(1 + total % stride, total + 1, stride):
            case.check_killed(action, step, die)


def test_killed_while_the_first_store_is_made(kit: Any, results: Any, tmp_path: Path) -> None:
    """No store yet: whatever a first ingest leaves behind, the next one completes."""
    files = results.write(kit.make.make_pair(2, 1.8))
    rebuild(results.root, tmp_path / "rebuilt")
    total = int(act("ingest", 0, tmp_path / "count" / "paceline.duckdb", files).stdout)
    for step in spread(total, 3):
        for name in ("paceline.duckdb", "paceline.duckdb.wal", "snapshot.duckdb"):
            (results.root / name).unlink(missing_ok=True)
        assert act("ingest", step, results.store, files).returncode == -signal.SIGKILL
        ingest(results.store, files)
        assert kit.contents(results.root) == kit.contents(tmp_path / "rebuilt"), step


def test_killed_at_any_moment(kit: Any, results: Any, tmp_path: Path) -> None:
    """Kills from outside, inside DuckDB's own code too, while records are ingested one at a time."""
    files = results.write(kit.make.make_run({2: 1.8, 4: 3.0}, pairs=3))
    ingest(results.store, files[:1])
    program = (
        "import sys; from pathlib import Path; from storage.ingest import ingest\n"
        "print('ready', flush=True)\n"
        "for file in sys.argv[2:]: ingest(sys.argv[1], [Path(file)])\n"
    )
    generator = random.Random(8)
    for _ in range(3):
        command = [sys.executable, "-c", program, str(results.store), *map(str, files)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(generator.uniform(0.05, 1.5))
            child.kill()
        with read(results.root) as connection:
            sql = "SELECT count(*) FROM records WHERE record_id NOT IN (SELECT record_id FROM process_figures)"
            assert connection.execute(sql).fetchone() == (0,)
    ingest(results.store, files)
    rebuild(results.root, tmp_path / "rebuilt")
    assert kit.contents(results.store) == kit.contents(tmp_path / "rebuilt") == kit.contents(results.snapshot)
