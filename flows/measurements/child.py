"""The parent's side of a supervised process: start, watch, end.

Whoever starts a measurement, a build or a commit's tests does it through `run_supervised`: whatever ends the caller, a signal,
a timeout, an exception injected by a task runner or SIGKILL, nothing it started survives.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from flows.measurements import supervisor

POLL_S = 0.2  # how often the parent looks; an exception can be injected between two looks
_SLACK_S = 2.0  # beyond the supervisor's own grace, before the whole group gets SIGKILL


@dataclass(frozen=True)
class Outcome:
    """How a supervised command ended."""

    returncode: int  # as subprocess has it: negative where a signal ended it
    timed_out: bool  # the deadline passed, so it was ended
    stopped: bool  # should_stop() said so, so it was ended
    wall_s: float

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.returncode == 0 and not self.timed_out and not self.stopped

    def describe(self) -> str:
        """One phrase for a person: what happened and after how long."""
        if self.timed_out:
            return f"ended at its deadline after {self.wall_s:.1f} s"
        if self.stopped:
            return f"stopped on request after {self.wall_s:.1f} s"
        if self.returncode < 0:
            return f"ended by {_signal_name(-self.returncode)} after {self.wall_s:.1f} s"
        return f"exit code {self.returncode} after {self.wall_s:.1f} s"


def run_supervised(
    command: Sequence[str | os.PathLike[str]],
    log: Path,
    deadline_s: float,
    should_stop: Callable[[], bool] = lambda: False,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    keep: int | None = None,
) -> Outcome:
    """Run a command under the supervisor; its output is appended to `log`. `keep`: a descriptor of ours that it inherits.

    At the deadline (seconds), when `should_stop()` turns true, or on any exception (KeyboardInterrupt and injected ones too) the
    command's whole family gets SIGTERM and three seconds later SIGKILL. An exception is raised again after that.
    Raises ValueError for an empty command or a deadline that is not positive.
    """
    if not command:
        raise ValueError("run_supervised: command is empty")
    if not deadline_s > 0:
        raise ValueError(f"run_supervised: deadline_s {deadline_s!r}: must be above 0")
    options = [] if keep is None else ["--keep", str(keep)]
    program = [sys.executable, "-I", "-S", supervisor.__file__, *options, "--", *(os.fspath(word) for word in command)]
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=env,
            cwd=cwd,
            pass_fds=() if keep is None else (keep,),
        )
    timed_out = stopped = False
    try:
        with _Exit(process) as ended:
            while not (ended.within(POLL_S) or timed_out or stopped):
                timed_out = time.monotonic() - started >= deadline_s
                stopped = not timed_out and should_stop()
    finally:
        _end(process)
    return Outcome(process.returncode, timed_out, stopped, time.monotonic() - started)


class _Exit:
    """Waits for a process through its pidfd: five wake-ups a second, where Popen.wait with a timeout makes fifty."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._descriptor = os.pidfd_open(process.pid)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def within(self, seconds: float) -> bool:
        """Whether the process has ended, after at most so many seconds."""
        self._poll.poll(seconds * 1e3)
        return self._process.poll() is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the supervisor and all it started; does nothing where it has ended by itself."""
    try:
        if process.poll() is None:
            process.terminate()  # the supervisor alone: it passes the signal on, once
            with suppress(subprocess.TimeoutExpired):
                process.wait(supervisor.GRACE_S + _SLACK_S)
    finally:
        # A second interrupt, a supervisor that is stuck, or one that was killed before it could end the others.
        if process.poll() in (None, -signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
