"""Many files are read by processes of their own: the same rows, the same refusals, and nobody left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from storage import reading
from storage.errors import StoreError
from storage.ingest import ingest
from storage.reading import Refusal, read_batches, read_file, readers_for
from storage.rebuild import rebuild


@pytest.fixture
def files(kit: Any, results: Any) -> list[Path]:
    """Eight records, and a file that is none between them."""
    paths = results.write(kit.make.make_run({1: 1.0, 2: 1.8}, pairs=2))
    foreign = paths[0].with_name("foreign.json")
    foreign.write_text('{"record_version": 1, "value": 1e999}')
    return [*paths[:3], foreign, *paths[3:]]


def test_readers_read_what_one_process_reads(files: list[Path], results: Any) -> None:
    alone = [read_file(path, results.root) for path in files]
    assert isinstance(alone[3], Refusal)
    assert "does not fit a float64" in alone[3].reason
    batches = [files[:4], [], files[4:]]
    assert list(read_batches(batches, results.root, 2)) == [alone[:4], [], alone[4:]]
    assert [p for p in psutil.Process().children() if "storage.reading" in " ".join(p.cmdline())] == []


def test_a_bulk_ingest_and_rebuild_are_those_of_one_process(
    files: list[Path], kit: Any, results: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild(results.root, tmp_path / "alone")
    monkeypatch.setattr(reading, "MANY", 2)
    report = ingest(results.store, files)
    assert (report.added, len(report.rejected)) == (8, 1)
    assert kit.contents(results.root) == kit.contents(tmp_path / "alone")


def test_few_files_start_nobody() -> None:
    assert readers_for(reading.MANY - 1) == 0
    assert readers_for(reading.MANY) in {0, *range(2, 9)}


def test_a_reader_that_dies_is_said(files: list[Path], results: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_READER", "import os; os._exit(7)")
    with pytest.raises(StoreError, match="a process that reads records died: exit code 7"):
        list(read_batches([files], results.root, 2))


def test_readers_end_with_their_parent(files: list[Path], results: Any) -> None:
    program = (
        "import sys, time; from pathlib import Path; from storage.reading import read_batches\n"
        "found = read_batches([[Path(sys.argv[1])]] * 2, Path(sys.argv[2]), 2)\nnext(found)\n"
        "print('ready', flush=True)\ntime.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, str(files[0]), str(results.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        readers = psutil.Process(parent.pid).children()
        assert len(readers) == 2
        os.kill(parent.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(readers, timeout=30)
    deadline = time.monotonic() + 30
    while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in alive):
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)
