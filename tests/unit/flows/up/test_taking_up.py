"""Locks that tell who lives: runs that are unfinished, flow runs whose process is gone."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from flows.folders import RunFolder
from flows.ledger import alive, left_behind
from flows.parameters import ValidationParameters
from flows.plan import make_plan, write_plan
from flows.resume import OLDEST_S, RunTakenError, owned, unfinished_run

PLAN = make_plan(ValidationParameters(levels=(2,), pairs=1), "tree")

HOLD = """
import sys, time
from pathlib import Path
from uuid import UUID
from flows.folders import RunFolder
from flows.ledger import alive
from flows.resume import owned
with owned(RunFolder(Path(sys.argv[1]), "run")), alive(Path(sys.argv[2]), UUID(sys.argv[3])):
    print("held", flush=True)
    time.sleep(60)
"""


def begun(results: Path, name: str) -> RunFolder:
    folder = RunFolder(results, name)
    folder.create()
    write_plan(PLAN, folder.plan)
    return folder


def test_the_newest_unfinished_run_of_the_plan_is_found(tmp_path: Path) -> None:
    assert unfinished_run(tmp_path, PLAN.identity) is None
    begun(tmp_path, "20260101")
    begun(tmp_path, "20260102")
    begun(tmp_path, "20260103").summary_json.write_text("{}")
    assert unfinished_run(tmp_path, PLAN.identity) == "20260102"
    assert unfinished_run(tmp_path, "another") is None


def test_an_old_one_is_left_alone(tmp_path: Path) -> None:
    folder = begun(tmp_path, "old")
    old = folder.plan.stat().st_mtime - OLDEST_S - 60
    os.utime(folder.plan, (old, old))
    assert unfinished_run(tmp_path, PLAN.identity) is None


def test_one_process_a_run(tmp_path: Path) -> None:
    folder = begun(tmp_path, "run")
    with owned(folder):
        assert unfinished_run(tmp_path, PLAN.identity) is None, "someone is at it"
        with pytest.raises(RunTakenError, match="run run: another process is at it"), owned(folder):
            pass
    assert unfinished_run(tmp_path, PLAN.identity) == "run"


def test_sigkill_frees_the_run_and_leaves_the_entry(tmp_path: Path) -> None:
    folder, ledger, flow_run = begun(tmp_path, "run"), tmp_path / "ledger", uuid4()
    arguments = [str(tmp_path), str(ledger), str(flow_run)]
    with subprocess.Popen([sys.executable, "-c", HOLD, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert list(left_behind(ledger)) == [], "it lives"
        assert unfinished_run(tmp_path, PLAN.identity) is None
        process.send_signal(signal.SIGKILL)
    assert list(left_behind(ledger)) == [flow_run]
    assert list(left_behind(ledger)) == [], "told once"
    assert unfinished_run(tmp_path, PLAN.identity) == folder.run_id


def entries_after(ledger: Path, error: BaseException | None) -> list[UUID]:
    try:
        with alive(ledger, uuid4()):
            if error is not None:
                raise error
    except BaseException:
        assert error is not None
    return list(left_behind(ledger))


def test_an_end_of_its_own_leaves_nothing_an_interruption_does(tmp_path: Path) -> None:
    assert entries_after(tmp_path, None) == []
    assert entries_after(tmp_path, ValueError("broken")) == []
    assert len(entries_after(tmp_path, KeyboardInterrupt())) == 1
