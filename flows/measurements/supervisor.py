"""Runs one command and leaves nothing behind. Standard library only, so that it starts in milliseconds.

    python -P -m flows.measurements.supervisor [--keep DESCRIPTOR] -- COMMAND...

The parent starts it as the leader of a session of its own and holds the write end of its standard input, and nothing is ever
written there: end of file means that the parent is gone, however it died, and everything the command started is ended.
So it is on SIGTERM, and when the command ends with processes of its own still running. Ended means SIGTERM, three seconds,
SIGKILL. The supervisor then ends as the command ended: with its exit code, or by its signal.

It is a subreaper: a grandchild whose parent has died, or that took a session of its own, is still found and ended.
"""

import ctypes
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable

GRACE_S = 3.0  # between SIGTERM and SIGKILL
_PR_SET_CHILD_SUBREAPER = 36
_USAGE = 2


def main(argv: list[str]) -> int:
    """Run the command after `--`; return its exit code (it is negative when a signal ended it)."""
    kept: tuple[int, ...] = ()
    if len(argv) > 2 and argv[0] == "--keep" and argv[1].isdigit():
        kept, argv = (int(argv[1]),), argv[2:]
    if len(argv) < 2 or argv[0] != "--":
        print("usage: python -P -m flows.measurements.supervisor [--keep N] -- COMMAND [ARGUMENT...]", file=sys.stderr)
        return _USAGE
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed: orphans could escape")
    signals = _watch_signals()
    try:
        child = subprocess.Popen(argv[1:], stdin=subprocess.DEVNULL, pass_fds=kept)
    except OSError as error:
        print(f"supervisor: cannot start {argv[1]!r}: {error}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126
    for descriptor in kept:
        os.close(descriptor)  # the command's alone: who holds the other end must see it die
    _wait(child, signals)
    end_all(child, GRACE_S)
    return child.wait()


def _watch_signals() -> int:
    """Route SIGTERM, SIGINT, SIGHUP and SIGCHLD into a pipe; returns its read end. No polling: an idle window stays idle."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    os.set_blocking(read_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda _number, _frame: None)
    return read_end


def _wait(child: subprocess.Popen[bytes], signals: int) -> None:
    """Return when the command has ended, the parent is gone, or someone asks for the end."""
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(signals, selectors.EVENT_READ)
        while child.poll() is None:
            for key, _ in selector.select():
                if key.fd == 0 and not os.read(0, 4096):
                    return
                if key.fd == signals and any(number != signal.SIGCHLD for number in os.read(signals, 4096)):
                    return


def end_all(child: subprocess.Popen[bytes], grace_s: float) -> None:
    """SIGTERM to every descendant, then SIGKILL, until none is left. A subreaper without children has no descendants."""
    deadline = time.monotonic() + grace_s
    _signal(descendants(), signal.SIGTERM)
    while _reap(child):
        if time.monotonic() >= deadline:
            _signal(descendants(), signal.SIGKILL)
        time.sleep(0.02)


def descendants() -> set[int]:
    """Process ids of everything that descends from this process, as /proc has it now."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])  # after the name: state, parent, ...
        except OSError:
            continue  # it ended while we looked
        children.setdefault(parent, []).append(int(name))
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting.extend(below)
    return found


def _reap(child: subprocess.Popen[bytes]) -> bool:
    """Collect what has ended (the command's own status goes where Popen keeps it); whether any child is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _end_as(code: int) -> None:
    """End this process with an exit code, or by the signal that ended the command, so that the parent sees the same."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0:
        signal.set_wakeup_fd(-1)
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    _end_as(main(sys.argv[1:]))
