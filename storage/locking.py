"""One writer at a time among paceline's own processes and threads.

DuckDB's lock on its file holds between processes only (two instances in one process would corrupt the file), and it says
nothing while a rebuild swaps files. A lock file beside the store covers both. It is held through `flock`, so the kernel
releases it when a process dies.
"""

import fcntl
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.errors import StoreBusy

_FIRST_WAIT_S = 0.01
_LONGEST_WAIT_S = 0.2


@contextmanager
def exclusive(store: Path, deadline: float) -> Iterator[None]:
    """Hold the lock beside the store. `deadline` is on the monotonic clock. Raises StoreBusy after it, OSError for a
    read-only folder.
    """
    lock = store.with_name(f".{store.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        waited = keep_trying(lambda: _taken(descriptor), deadline)
        if not waited:
            raise StoreBusy(f"{store}: another paceline process or thread kept writing past the deadline (it holds {lock})")
        yield
    finally:
        os.close(descriptor)


def keep_trying(attempt: Callable[[], bool], deadline: float) -> bool:
    """Whether the attempt succeeded before the deadline on the monotonic clock; made at least once, with growing, uneven
    pauses.
    """
    pause_s = _FIRST_WAIT_S
    while not attempt():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - no secret: so that two writers do not stay in step
        pause_s = min(pause_s * 1.5, _LONGEST_WAIT_S)
    return True


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
