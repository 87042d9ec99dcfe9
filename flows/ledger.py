"""Which flow runs this machine has begun and not ended: a file each, locked while the run's process lives.

The Prefect server cannot know whether a process of ours is gone: the lock does, whatever way it went. The next start reads the
files whose lock is free, and says to the server what became of them.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID


@contextmanager
def alive(folder: Path, flow_run: UUID) -> Iterator[None]:
    """Hold the entry of a flow run; it goes when the flow comes to its own end, and stays behind when its process is killed.

    An interruption (any exception that is no error of the flow's own) leaves the entry too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / str(flow_run)
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield
        except Exception:
            path.unlink()
            raise
        path.unlink()
    finally:
        os.close(descriptor)


def left_behind(folder: Path) -> Iterator[UUID]:
    """Flow runs whose process is gone. Each entry is removed once the caller asks for the next."""
    for path in sorted(folder.glob("*")) if folder.is_dir() else []:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield UUID(path.name)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)
