"""The one place that opens DuckDB.

DuckDB lets one process have a file open for writing, and then no other may even read it. So the store is opened for moments only, and
after each change a snapshot is published beside it, by an atomic rename, for any number of readers. A reader who has the old snapshot
open keeps it. Store and snapshot are attached to a private in-memory instance: a plain `duckdb.connect(path)` would share one instance
among all openers of a path in this process, and a reader would go on seeing a snapshot that was replaced long ago.
"""

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from storage.errors import StoreBusy, StoreError, StoreMissing
from storage.migrate import migrate, refuse_newer
from storage.sql import quoted

STORE_NAME = "paceline.duckdb"
SNAPSHOT_NAME = "snapshot.duckdb"
STORAGE_VERSION = "v1.2.0"  # of the file format: clients from DuckDB 1.2 on read it
DEADLINE_S = 60.0

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,  # never reach for the network
    "autoload_known_extensions": False,
}
_path_locks: dict[Path, threading.Lock] = {}
_path_locks_guard = threading.Lock()


class Database:
    """The store at `path` (the file, or the results folder that holds it) with its snapshot beside it."""

    def __init__(self, path: Path | str, deadline_s: float = DEADLINE_S) -> None:
        self.path = store_path(path)
        self.snapshot = self.path.with_name(SNAPSHOT_NAME)
        self.deadline_s = deadline_s

    @contextmanager
    def write(self, *, publish: bool = True) -> Iterator[DuckDBPyConnection]:
        """A migrated connection for a short write; the snapshot is published when the body ends well.

        Waits for other writers. Raises StoreBusy after the deadline, StoreTooNew for a newer schema, StoreError for a file or folder
        that cannot be written. Wrap what belongs together in `storage.sql.transaction`.
        """
        deadline = time.monotonic() + self.deadline_s
        with _held(self.path, self.deadline_s):
            connection = self._attach_waiting(deadline)
            try:
                migrate(connection, self.path)
                yield connection
                if publish:
                    self.publish_snapshot(connection)
            finally:
                connection.close()

    def publish_snapshot(self, connection: DuckDBPyConnection | None = None) -> Path:
        """Replace the snapshot by a copy of the store as it is now. `connection` is one from `write`; None opens one."""
        if connection is None:
            with self.write() as opened:  # publishes as it ends
                del opened
            return self.snapshot
        for stale in self.path.parent.glob(f".{SNAPSHOT_NAME}.*"):
            stale.unlink(missing_ok=True)  # of a publisher that was killed: only the holder of the store gets here
        temporary = self.path.with_name(f".{SNAPSHOT_NAME}.{os.getpid()}")
        try:
            connection.execute(f"ATTACH {quoted(temporary)} AS published (STORAGE_VERSION '{STORAGE_VERSION}')")
            try:
                connection.execute("COPY FROM DATABASE store TO published")
            finally:
                connection.execute("DETACH published")
            _fsync(temporary)
            temporary.replace(self.snapshot)
            _fsync(self.snapshot.parent)
        except (duckdb.Error, OSError) as error:
            raise StoreError(
                f"{self.snapshot}: the snapshot could not be published, so readers still see the one before; the store itself is intact: {error}"
            ) from error
        finally:
            temporary.unlink(missing_ok=True)
            Path(f"{temporary}.wal").unlink(missing_ok=True)
        return self.snapshot

    def _attach_waiting(self, deadline: float) -> DuckDBPyConnection:
        """Attach the store read-write, again and again while another process holds it."""
        self._refuse_unwritable()
        wait_s = 0.01
        while True:
            connection = duckdb.connect(":memory:", config=_CONFIG)
            try:
                connection.execute(f"ATTACH {quoted(self.path)} AS store (STORAGE_VERSION '{STORAGE_VERSION}')")
                connection.execute("USE store")
                return connection
            except duckdb.Error as error:
                connection.close()
                if not _is_lock_conflict(error):
                    raise StoreError(_explain(self.path, error)) from error
                if time.monotonic() >= deadline:
                    raise StoreBusy(
                        f"{self.path}: held open by another process for more than {self.deadline_s:g} s; "
                        f"close it there (read {self.snapshot.name} instead: it is never locked). DuckDB says: {error}"
                    ) from error
            time.sleep(wait_s * random.uniform(0.5, 1.5))
            wait_s = min(wait_s * 1.5, 0.25)

    def _refuse_unwritable(self) -> None:
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder}: the results folder cannot be made: {error}") from error
        target = self.path if self.path.exists() else folder
        if not os.access(target, os.W_OK) or not os.access(folder, os.W_OK):
            raise StoreError(f"{target}: not writable for this user; make it writable or choose another results folder")


@contextmanager
def read(path: Path | str) -> Iterator[DuckDBPyConnection]:
    """A read-only connection to what `path` stands for: a results folder, a store (its snapshot is read, where there is one) or any snapshot.

    Raises StoreMissing where there is nothing, StoreTooNew for a newer schema, StoreError for a file that DuckDB cannot read.
    """
    target = readable_path(path)
    with _held(target, DEADLINE_S if target.name == STORE_NAME else 0.0, needed=target.name == STORE_NAME):
        connection = duckdb.connect(":memory:", config=_CONFIG)
        try:
            try:
                connection.execute(f"ATTACH {quoted(target)} AS store (READ_ONLY)")
                connection.execute("USE store")
            except duckdb.Error as error:
                raise StoreError(_explain(target, error)) from error
            refuse_newer(connection, target)
            yield connection
        finally:
            connection.close()


@contextmanager
def scratch() -> Iterator[DuckDBPyConnection]:
    """An in-memory instance, for reading Parquet and JSON files."""
    connection = duckdb.connect(":memory:", config=_CONFIG)
    try:
        yield connection
    finally:
        connection.close()


def store_path(path: Path | str) -> Path:
    """The store's file for a results folder, a snapshot or the file itself."""
    path = Path(path).absolute()
    if path.is_dir() or not path.suffix:
        return path / STORE_NAME
    return path.with_name(STORE_NAME) if path.name == SNAPSHOT_NAME else path


def readable_path(path: Path | str) -> Path:
    """The file to read for a results folder, a store or a snapshot. Raises StoreMissing where there is none."""
    path = Path(path).absolute()
    if path.is_dir() or path.name == STORE_NAME:
        store = store_path(path)
        snapshot = store.with_name(SNAPSHOT_NAME)
        path = snapshot if snapshot.exists() else store
    if not path.exists():
        raise StoreMissing(f"{path}: no results store there; `paceline validate` or `paceline ingest` makes one")
    return path


@contextmanager
def _held(path: Path, timeout_s: float, *, needed: bool = True) -> Iterator[None]:
    """One opener of a store at a time within this process: the operating system's file locks hold between processes only."""
    if not needed:
        yield
        return
    with _path_locks_guard:
        lock = _path_locks.setdefault(path.resolve(), threading.Lock())
    if not lock.acquire(timeout=timeout_s):
        raise StoreBusy(f"{path}: held by another thread of this process for more than {timeout_s:g} s")
    try:
        yield
    finally:
        lock.release()


def _is_lock_conflict(error: duckdb.Error) -> bool:
    return "Could not set lock on file" in str(error)


def _explain(path: Path, error: duckdb.Error) -> str:
    if "version number" in str(error):
        return f"{path}: written in a newer file format than DuckDB {duckdb.__version__} reads: {error}"
    return f"{path}: DuckDB cannot open it ({error}); `paceline rebuild` makes it anew from the raw records"


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
