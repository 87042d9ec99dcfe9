"""`paceline validate` as a person runs it: a process of its own with a server of its own, interrupted and killed."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from flow_support import ROOT, eventually, processes

from flows.aggregate import reconcile
from flows.folders import RunFolder
from storage.queries import query

pytestmark = pytest.mark.prefect

SMALL = ["--checkpoint", "synthetic:tiny", "--tp", "2", "--levels", "2", "--new-tokens", "32", "--runs", "2", "--kinds", "none"]
MARK = "TEST_MARK_OF_THIS_RUN"


class Started:
    """A `paceline` process and everything that descends from it, known by a mark in the environment."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.mark = uuid.uuid4().hex
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PACELINE_", "PREFECT_"))}
        environment |= {MARK: self.mark, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-P", "-m", "flows.cli", *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )

    def family(self) -> list[int]:
        return processes(self.mark, "environ")

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err


@pytest.fixture
def start(tmp_path: Path) -> Iterator[object]:
    begun: list[Started] = []

    def begin(*arguments: str) -> Started:
        begun.append(Started(tmp_path, *arguments))
        return begun[-1]

    yield begin
    for one in begun:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()
        for pid in one.family():
            os.kill(pid, signal.SIGKILL)


def test_interrupted_then_resumed_to_the_two_tables(start, engine_build: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = RunFolder(tmp_path / "results", "mine")
    options = ["validate", *SMALL, "--pairs", "2", "--build", str(engine_build), "--run", "mine"]
    first = start(*options)
    eventually(lambda: len(folder.measured()) >= 3 if folder.records.is_dir() else False, 90)
    os.killpg(first.process.pid, signal.SIGINT)
    code, out, err = first.end()
    assert code == 130
    assert "go on with: paceline validate --run mine" in err
    assert "Traceback" not in out + err
    eventually(lambda: not first.family(), 10)
    assert not folder.summary_json.exists()
    kept = folder.measured()
    assert set(query(folder.snapshot, "SELECT measurement FROM records WHERE status = 'ok'")["measurement"]) == kept

    code, out, err = start("validate", "--run", "mine", "--build", str(engine_build)).end()
    summary = json.loads(folder.summary_json.read_text())
    assert code == summary["exit_code"] in (0, 1, 3), err
    assert "Traceback" not in out + err
    assert "prefect" not in (out + err).lower().replace("prefect-server.log", "")
    assert len(folder.measured()) == 8
    for heading in ("Targets", "Levels", "wall per round", "avg request latency", "A lone request takes: serial"):
        assert heading in out
    assert out.splitlines()[-1].startswith(summary["headline"].partition(":")[0])
    for path in ("records", "logs", "summary.json", "summary.md", "index.html"):
        assert f"results/mine/{path}" in out
        assert (folder.root / path).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupted_comparison_says_what_is_kept(  # type: ignore[no-untyped-def]
    start, engine_build: Path, tmp_path: Path, number: signal.Signals
) -> None:
    folder = RunFolder(tmp_path / "results", "mine")
    builds = ["--base-build", str(engine_build), "--head-build", str(engine_build)]
    small = [option for option in SMALL if option not in ("--kinds", "none")]
    began = start("compare", *builds, *small, "--looks", "40,80", "--run", "mine")
    eventually(lambda: len(folder.measured()) >= 2 if folder.records.is_dir() else False, 90)
    began.process.send_signal(number)
    code, out, err = began.end()
    assert code == 128 + number
    kept = folder.record_files()
    assert f"{number.name}: stopped; {len(kept)} records are kept in {folder.records}; a comparison begins anew" in err
    assert "Traceback" not in out + err
    eventually(lambda: not began.family(), 10)
    assert len(query(folder.snapshot, "SELECT * FROM records WHERE run_id = 'mine'")) == len(kept) >= 2


def test_killed_outright_leaves_no_process_and_its_records_reach_the_store(start, engine_build: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = RunFolder(tmp_path / "results", "lost")
    victim = start("validate", *SMALL, "--pairs", "20", "--build", str(engine_build), "--run", "lost")
    eventually(lambda: len(folder.measured()) >= 1 if folder.records.is_dir() else False, 90)
    eventually(lambda: processes(f"{folder.requests}/report"))
    victim.process.kill()
    eventually(lambda: not victim.family(), 10)
    kept = folder.measured()
    assert kept
    assert reconcile(folder) == []
    stored = query(folder.snapshot, "SELECT measurement FROM records WHERE run_id = 'lost' AND status = 'ok'")
    assert set(stored["measurement"]) == kept


def test_measure_alone_prints_its_figures(start, engine_build: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, err = start("measure", "throughput", "--mode", "batch", *SMALL, "--build", str(engine_build)).end()
    assert (code, err) == (0, "")
    assert "throughput x2 batch: ok" in out
    for figure in ("wall per round", "avg request latency", "time to first token", "req/s", "occupancy"):
        assert figure in out


def test_generate_writes_tokens_and_logits(start, engine_build: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "prompts.json").write_text("[[1, 2, 3], [4, 5, 6, 7, 8]]")
    options = [
        "--checkpoint",
        "synthetic:tiny",
        "--prompt-ids",
        "prompts.json",
        "--new-tokens",
        "4",
        "--tp",
        "2",
        "--mode",
        "serial",
    ]
    code, _, err = start("generate", *options, "--out", "out.json", "--logits", "out.npy", "--build", str(engine_build)).end()
    assert code == 0, err
    assert [len(tokens) for tokens in json.loads((tmp_path / "out.json").read_text())["tokens"]] == [4, 4]
    assert (tmp_path / "out.npy").stat().st_size > 0
