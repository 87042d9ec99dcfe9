"""The suite as a process on the real engine: runs a plan, goes on after a kill, stops at its budget, packs."""

import json
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from flows.build import Build
from flows.parameters import ValidationParameters
from flows.plan import Plan, make_plan, write_plan
from flows.settings import harness_environment
from storage import records
from storage.records import Record, Source

pytestmark = pytest.mark.timeout(900)  # the first test may have to build the engine


@pytest.fixture
def plan(built: tuple[Build, Source], tmp_path: Path) -> Plan:
    """Two pairs at levels 1 and 2 on the tiny shape, parity before and occupancy after them, written to plan.json."""
    parameters = ValidationParameters(
        checkpoint="synthetic:tiny", levels=(2,), tp=1, pairs=2, runs=1, warmup=1, kinds="parity,occupancy"
    )
    made = make_plan(parameters, built[1].tree)
    write_plan(made, tmp_path / "plan.json")
    return made


def command(built: tuple[Build, Source], tmp_path: Path, *options: str) -> list[str]:
    program = [sys.executable, "-P", "-m", "flows.measurements.suite", str(tmp_path / "plan.json"), str(tmp_path / "the run")]
    return [*program, "--build", str(built[0].folder), *options]


def run(built: tuple[Build, Source], tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(built, tmp_path, *options), env=harness_environment(), capture_output=True, text=True, timeout=200, check=False
    )


def read(tmp_path: Path) -> list[Record]:
    return [records.load(path) for path in sorted((tmp_path / "the run" / "records").glob("*.json"))]


def test_a_plan_is_measured_in_its_order_and_packed(built: tuple[Build, Source], plan: Plan, tmp_path: Path) -> None:
    done = run(built, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "measured 10, without a usable record 0, left 0" in done.stdout
    found = sorted(read(tmp_path), key=lambda record: record.started_at)
    names, planned = [record.measurement for record in found], [measurement.name for measurement in plan.measurements()]
    assert (names[0], names[-1]) == (planned[0], planned[-1])
    assert [set(names[i : i + 2]) for i in range(1, 9, 2)] == [set(planned[i : i + 2]) for i in range(1, 9, 2)]
    assert {record.status for record in found} == {"ok"}
    assert {record.source for record in found} == {built[1]}
    with tarfile.open(tmp_path / "the run.tar.gz") as archive:
        names = set(archive.getnames())
        packed = archive.extractfile("the run/plan.json")
        assert packed is not None
        assert json.loads(packed.read())["identity"] == plan.identity
    assert {f"the run/records/{path.name}" for path in (tmp_path / "the run" / "records").iterdir()} <= names
    assert sum(name.startswith("the run/logs/") for name in names) == 10

    again = run(built, tmp_path)
    assert again.returncode == 0
    assert len(read(tmp_path)) == 10, "nothing is measured twice"


def test_killed_in_the_middle_it_goes_on(built: tuple[Build, Source], plan: Plan, tmp_path: Path) -> None:
    folder = tmp_path / "the run" / "records"
    suite = subprocess.Popen(command(built, tmp_path), env=harness_environment(), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 100
    while len(list(folder.glob("*.json")) if folder.exists() else []) < 3:
        assert time.monotonic() < deadline
        assert suite.poll() is None
        time.sleep(0.05)
    suite.send_signal(signal.SIGKILL)
    suite.wait()
    deadline = time.monotonic() + 10
    while _processes_naming(tmp_path):
        assert time.monotonic() < deadline, "a measurement outlived the suite"
        time.sleep(0.05)
    kept = {record.record_id for record in read(tmp_path)}
    assert len(kept) >= 3
    assert run(built, tmp_path).returncode == 0
    found = read(tmp_path)
    assert kept <= {record.record_id for record in found}
    assert {record.measurement for record in found if record.status == "ok"} == {m.name for m in plan.measurements()}


def test_a_budget_that_ends_leaves_the_rest_for_later(built: tuple[Build, Source], plan: Plan, tmp_path: Path) -> None:
    cut = run(built, tmp_path, "--budget-minutes", "0.0001")
    assert cut.returncode == 3, cut.stdout + cut.stderr
    assert "measured 1, without a usable record 0, left 9" in cut.stdout
    assert (tmp_path / "the run.tar.gz").is_file()


def test_wrong_uses_are_named(built: tuple[Build, Source], plan: Plan, tmp_path: Path) -> None:
    other = make_plan(plan.parameters, "f" * 64)
    write_plan(other, tmp_path / "plan.json")
    wrong_tree = run(built, tmp_path)
    assert wrong_tree.returncode == 2
    assert "plan.json: planned for engine sources ffffffffffff, but" in wrong_tree.stderr
    assert not (tmp_path / "the run" / "plan.json").exists()
    (tmp_path / "the run").mkdir(exist_ok=True)
    write_plan(other, tmp_path / "the run" / "plan.json")
    write_plan(plan, tmp_path / "plan.json")
    mixed = run(built, tmp_path)
    assert mixed.returncode == 2
    assert f"another plan, {other.identity} where {plan.identity} was given: name another out/" in mixed.stderr
    (tmp_path / "plan.json").write_text("{}")
    unreadable = run(built, tmp_path)
    assert unreadable.returncode == 2
    assert "plan.json: field" in unreadable.stderr


def _processes_naming(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_copied_tree_is_of_the_commit_that_was_planned(built: tuple[Build, Source], plan: Plan, tmp_path: Path) -> None:
    copy = shutil.copytree(built[0].folder, tmp_path / "copy", symlinks=True)
    description = copy / "build.json"
    description.write_text(json.dumps(json.loads(description.read_text()) | {"commit": "unknown", "dirty": True}))
    planned = Source(commit="c" * 40, dirty=False, tree=plan.tree)
    first = plan.blocks[0].model_copy(update={"pairs": plan.blocks[0].pairs[:1]})
    write_plan(plan.model_copy(update={"source": planned, "blocks": (first,)}), tmp_path / "plan.json")
    done = run((Build(copy, built[0].info), built[1]), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {record.source for record in read(tmp_path)} == {planned}
