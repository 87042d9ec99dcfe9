"""Locks between processes: held for as long as the holder lives."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from flows.locks import exclusive

ROOT = Path(__file__).parents[3]
HOLD = """
import sys
from pathlib import Path
from flows.locks import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(path: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_waits_says_so_once_and_gets_the_lock_after_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    with hold(path) as holder:
        waits: list[str] = []

        def on_wait() -> None:
            waits.append("waiting")
            threading.Timer(0.2, holder.send_signal, (signal.SIGKILL,)).start()

        with exclusive(path, on_wait):
            assert holder.wait(5) == -signal.SIGKILL
        assert waits == ["waiting"]


def test_a_free_lock_waits_for_nobody(tmp_path: Path) -> None:
    waits: list[str] = []
    for _ in range(2):
        with exclusive(tmp_path / "lock", lambda: waits.append("waiting")):
            pass
    assert waits == []


def test_the_measuring_lock_is_one_for_all(tmp_path: Path) -> None:
    """Also for those whose temporary folder is their own."""
    program = "from flows.locks import measuring_lock; print(measuring_lock())"
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": folder},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for folder in ("/tmp", str(tmp_path))
    }
    assert len(told) == 1
    assert str(tmp_path) not in told.pop()
