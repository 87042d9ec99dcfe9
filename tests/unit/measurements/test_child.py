"""run_supervised and the supervisor, with real processes: whatever ends the parent, nothing it started survives."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.measurements import supervisor
from flows.measurements.child import Outcome, run_supervised

Living = Callable[[], list[int]]
WaitFor = Callable[[Callable[[], bool], float], None]
ROOT = Path(__file__).parents[3]

# A command that ignores SIGTERM and has a child, and a child in a session of its own, that ignore it too.
STUBBORN = """
import os, signal, subprocess, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
folder, depth = Path(sys.argv[1]), int(sys.argv[2])
if depth:
    for name in ("group", "session"):
        subprocess.Popen([sys.executable, __file__, folder / name, str(depth - 1)], start_new_session=name == "session")
folder.mkdir(exist_ok=True)
(folder / "ready").touch()
time.sleep(300)
"""


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", textwrap.dedent(code), *arguments]


@pytest.fixture
def stubborn(tmp_path: Path) -> tuple[list[str], Callable[[], bool]]:
    """The command, and whether all its three processes stand."""
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    top = tmp_path / "top"
    top.mkdir()
    paths = [top, top / "group", top / "session"]
    return [sys.executable, "-I", "-S", str(tmp_path / "stubborn.py"), str(top), "1"], lambda: all(
        (p / "ready").exists() for p in paths
    )


def test_the_exit_code_and_the_output_arrive(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "a b.log"
    outcome = run_supervised(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"), log, 30)
    assert outcome.returncode == 7
    assert not outcome.ok
    assert not outcome.timed_out
    assert sorted(log.read_text().split()) == ["err", "out"]
    assert outcome.describe().startswith("exit code 7 after ")


def test_success(tmp_path: Path) -> None:
    outcome = run_supervised(python("import sys; assert sys.stdin.read() == ''"), tmp_path / "log", 30)
    assert outcome.ok
    assert outcome.wall_s < 10


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_command_ended_by_a_signal_says_which(tmp_path: Path, number: signal.Signals) -> None:
    outcome = run_supervised(
        python("import os, sys; os.kill(os.getpid(), int(sys.argv[1]))", str(int(number))), tmp_path / "log", 30
    )
    assert outcome.returncode == -number
    assert number.name in outcome.describe()


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    outcome = run_supervised([str(tmp_path / "no such program")], tmp_path / "log", 30)
    assert outcome.returncode == 127
    assert "no such program" in (tmp_path / "log").read_text()


def test_the_deadline_ends_the_whole_family(
    tmp_path: Path, stubborn: tuple[list[str], Callable[[], bool]], marked: Living
) -> None:
    command, ready = stubborn
    started = time.monotonic()
    outcome = run_supervised(command, tmp_path / "log", 1.0)
    assert ready(), "the family never stood"
    assert outcome.timed_out
    assert outcome.returncode == -signal.SIGKILL
    assert supervisor.GRACE_S <= time.monotonic() - started < 15
    assert "deadline" in outcome.describe()
    assert marked() == []


def test_a_command_that_heeds_sigterm_ends_at_once(tmp_path: Path) -> None:
    code = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
        print("up", flush=True)
        time.sleep(300)
    """
    log = tmp_path / "log"
    outcome = run_supervised(python(code), log, 30, lambda: log.read_text() == "up\n")
    assert outcome == Outcome(3, timed_out=False, stopped=True, wall_s=outcome.wall_s)
    assert outcome.wall_s < supervisor.GRACE_S + 10
    assert not outcome.ok


def test_what_a_command_leaves_running_is_ended(tmp_path: Path, marked: Living, wait_for: WaitFor) -> None:
    code = """
        import subprocess, sys
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", sys.argv[1]], start_new_session=True)
    """
    outcome = run_supervised(python(code, str(tmp_path)), tmp_path / "log", 30)
    assert outcome.ok
    assert marked() == []


def test_an_exception_in_the_parent_ends_the_family(
    tmp_path: Path, stubborn: tuple[list[str], Callable[[], bool]], marked: Living
) -> None:
    command, ready = stubborn

    def stop() -> bool:
        if ready():
            raise KeyboardInterrupt("in the middle")
        return False

    with pytest.raises(KeyboardInterrupt, match="in the middle"):
        run_supervised(command, tmp_path / "log", 60, stop)
    assert marked() == []


PARENT = """
import sys
from pathlib import Path
from flows.measurements.child import run_supervised
run_supervised(sys.argv[2:], Path(sys.argv[1]) / "log", 300)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_parent_that_is_killed_leaves_nothing(
    tmp_path: Path, stubborn: tuple[list[str], Callable[[], bool]], marked: Living, wait_for: WaitFor, number: signal.Signals
) -> None:
    command, ready = stubborn
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), *command], cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_for(ready, 20)
    assert len(marked()) >= 5, "parent, supervisor and the family of three"
    parent.send_signal(number)
    assert parent.wait(20) != 0
    wait_for(lambda: marked() == [], supervisor.GRACE_S + 10)


def test_a_killed_supervisor_is_a_failure_and_its_group_is_ended(tmp_path: Path, wait_for: WaitFor, marked: Living) -> None:
    code = "import os, signal; os.kill(os.getppid(), signal.SIGKILL); import time; time.sleep(300)"
    outcome = run_supervised(python(code, str(tmp_path)), tmp_path / "log", 30)
    assert outcome.returncode == -signal.SIGKILL
    assert not outcome.ok
    wait_for(lambda: marked() == [], 10)


def test_many_at_once_from_threads(tmp_path: Path) -> None:
    """No supervisor inherits the pipe of another, which would keep it from seeing its parent's end."""
    outcomes: list[Outcome] = []
    threads = [
        threading.Thread(target=lambda n=n: outcomes.append(run_supervised(python("print(1)"), tmp_path / f"{n}.log", 30)))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [o.returncode for o in outcomes] == [0] * 8


def test_the_supervisor_does_not_poll(tmp_path: Path, marked: Living) -> None:
    """An idle measurement under it stays idle: no processor time while the command sleeps."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__, "--", *python("import time; time.sleep(300)", str(tmp_path))],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    time.sleep(1.0)
    before = _processor_ticks(process.pid)
    time.sleep(1.0)
    assert _processor_ticks(process.pid) == before
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(10) == -signal.SIGTERM


def _processor_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("arguments", [[], ["--"], ["echo", "x"]])
def test_wrong_usage_is_named(arguments: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "flows.measurements.supervisor", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "usage:" in result.stderr


def test_the_module_form_works() -> None:
    read_end, write_end = os.pipe()
    command = [sys.executable, "-m", "flows.measurements.supervisor", "--", "sh", "-c", "exit 5"]
    assert subprocess.run(command, cwd=ROOT, stdin=read_end, check=False).returncode == 5
    os.close(read_end)
    os.close(write_end)


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="command is empty"):
        run_supervised([], tmp_path / "log", 1)
    with pytest.raises(ValueError, match="deadline_s 0: must be above 0"):
        run_supervised(["true"], tmp_path / "log", 0)
