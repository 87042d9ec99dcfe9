"""Locks between processes of one host, held for as long as the holder lives: flock, so that nothing is left after SIGKILL."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_SHARED = (Path("/run/lock"), Path("/tmp"))  # folders that all users of a host write to  # noqa: S108


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock file; `on_wait` is called once where someone else holds it. A signal's exception ends the wait."""
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def try_exclusive(path: Path) -> Iterator[bool]:
    """Hold the lock file where nobody else does; whether it is held."""
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def hold_shared(path: Path) -> int:
    """Hold the lock file beside any number of others who share it, until the descriptor is closed or this process ends."""
    descriptor = _open(path)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def measuring_lock() -> Path:
    """The lock that keeps measurements of one host apart, whoever runs them and whatever his own TMPDIR is."""
    shared = (place for place in _SHARED if os.access(place, os.W_OK))
    return next(shared, Path(tempfile.gettempdir())) / "paceline.measuring.lock"


def _open(path: Path) -> int:
    """Open for locking alone: flock needs no right to write, so the file may belong to another user."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
