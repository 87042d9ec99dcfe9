"""The one place that opens DuckDB.

DuckDB lets one process have a file open for writing, and then no other may even read it. So the store is opened for moments
only, and after each change a snapshot is published beside it, by an atomic rename, for any number of readers. A reader who
has the old snapshot open keeps it. Store and snapshot are attached to a private in-memory instance: a plain
`duckdb.connect(path)` would share one instance among all openers of a path in this process, and a reader would go on seeing a
snapshot replaced long ago.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from storage.errors import StoreBusy, StoreError, StoreMissing
from storage.locking import exclusive, keep_trying
from storage.migrate import migrate, refuse_newer
from storage.sql import quoted

STORE_NAME = "paceline.duckdb"
SNAPSHOT_NAME = "snapshot.duckdb"
STORAGE_VERSION = "v1.2.0"  # of the file format: clients from DuckDB 1.2 on read it
DEADLINE_S = 60.0

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,  # never reach for the network
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # a name that is no table is an error, not a variable of the caller
}


class Database:
    """The store at `path` (the file, or the results folder that holds it) with its snapshot beside it."""

    def __init__(self, path: Path | str, deadline_s: float = DEADLINE_S) -> None:
        self.path = store_path(path)
        self.snapshot = self.path.with_name(SNAPSHOT_NAME)
        self.deadline_s = deadline_s

    @contextmanager
    def write(self, *, publish: bool = True, upto: int | None = None) -> Iterator[DuckDBPyConnection]:
        """A migrated connection for a short write; the snapshot is published when the body ends well.

        Waits for other writers. Raises StoreBusy after the deadline, StoreTooNew for a newer schema, StoreError for a file or
        folder that cannot be written, a full disk, or SQL that fails. Wrap what belongs together in
        `storage.sql.transaction`. `upto`: migrate to that version only.
        """
        with self.locked(), self.attached() as connection:
            try:
                migrate(connection, self.path, upto)
                yield connection
            except duckdb.Error as error:
                raise StoreError(f"{self.path}: a write failed, and nothing of its transaction was kept: {error}") from error
            if publish:
                self._publish(connection)

    def publish_snapshot(self) -> Path:
        """Replace the snapshot by a copy of the store as it is now. Raises as `write` does; then readers keep the one before."""
        with self.write():
            return self.snapshot

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other writer of paceline out. Raises StoreError where the folder cannot be written."""
        self._refuse_unwritable()
        with exclusive(self.path, time.monotonic() + self.deadline_s):
            yield

    @contextmanager
    def attached(self) -> Iterator[DuckDBPyConnection]:
        """The store attached for writing, as it is, within `locked`. Waits while a foreign process has it open."""
        connection = duckdb.connect(":memory:", config=_CONFIG)
        try:
            refusal: list[duckdb.Error] = []
            if not keep_trying(lambda: self._attach(connection, refusal), time.monotonic() + self.deadline_s):
                raise StoreBusy(
                    f"{self.path}: held open by another process for more than {self.deadline_s:g} s; close it there "
                    f"(and read {self.snapshot.name} instead: it is never locked): {refusal[-1]}"
                ) from refusal[-1]
            connection.execute("USE store")
            yield connection
        finally:
            connection.close()

    def _attach(self, connection: DuckDBPyConnection, refusal: list[duckdb.Error]) -> bool:
        try:
            connection.execute(f"ATTACH {quoted(self.path)} AS store (STORAGE_VERSION '{STORAGE_VERSION}')")
        except duckdb.Error as error:
            if "Could not set lock on file" not in str(error):
                raise StoreError(_explain(self.path, error)) from error
            refusal[:] = [error]
            return False
        return True

    def _publish(self, connection: DuckDBPyConnection) -> None:
        for stale in self.path.parent.glob(f".{SNAPSHOT_NAME}.*"):
            stale.unlink(missing_ok=True)  # of a publisher that was killed: only the holder of the lock gets here
        temporary = self.path.with_name(f".{SNAPSHOT_NAME}.{os.getpid()}")
        try:
            # After a checkpoint the file is whole, and it is in the format that old clients read: a plain copy does, where
            # COPY FROM DATABASE would write all of history anew. Closing the file that was read gives up this process's POSIX
            # lock on the store, so this is the connection's last act; paceline's own lock is still held.
            connection.execute("CHECKPOINT store")
            shutil.copyfile(self.path, temporary)
            _fsync(temporary)
            temporary.replace(self.snapshot)
            _fsync(self.snapshot.parent)
        except (duckdb.Error, OSError) as error:
            raise StoreError(
                f"{self.snapshot}: the snapshot could not be published, so readers still see the one before; "
                f"the store itself is intact: {error}"
            ) from error
        finally:
            temporary.unlink(missing_ok=True)

    def _refuse_unwritable(self) -> None:
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder}: the results folder cannot be made: {error}") from error
        for target in (folder, self.path):
            if target.exists() and not os.access(target, os.W_OK):
                raise StoreError(f"{target}: not writable for this user; make it writable or choose another results folder")


@contextmanager
def read(path: Path | str) -> Iterator[DuckDBPyConnection]:
    """A read-only connection to a results folder, a store (its snapshot is read, where there is one) or any snapshot.

    Raises StoreMissing where there is nothing, StoreTooNew for a newer schema, StoreError for a file that DuckDB cannot read.
    """
    target = readable_path(path)
    shared = target.name == STORE_NAME and os.access(target.parent, os.W_OK)
    with exclusive(target, time.monotonic() + DEADLINE_S) if shared else nullcontext():
        connection = duckdb.connect(":memory:", config=_CONFIG)
        try:
            if not keep_trying(lambda: _attached_whole(connection, target), time.monotonic() + DEADLINE_S):
                raise StoreBusy(f"{target}: replaced each time it was opened, for more than {DEADLINE_S:g} s; try once more")
            connection.execute("USE store")
            refuse_newer(connection, target)
            yield connection
        finally:
            connection.close()


def _attached_whole(connection: DuckDBPyConnection, target: Path) -> bool:
    """Whether the file was attached and not replaced meanwhile.

    DuckDB 2.0 opens a file twice, for its header and for its blocks: a snapshot published in between gives the header of one
    and the blocks of another. The file held open here keeps its inode from being given to the next snapshot.
    """
    try:
        with target.open("rb") as held:
            refusal: duckdb.Error | None = None
            try:
                connection.execute(f"ATTACH {quoted(target)} AS store (READ_ONLY)")
            except duckdb.Error as error:
                refusal = error
            replaced = not os.path.samestat(os.fstat(held.fileno()), target.stat())
    except OSError as error:
        raise StoreError(f"{target}: cannot be read: {error}") from error
    if refusal is not None and not replaced:
        raise StoreError(_explain(target, refusal)) from refusal
    if replaced and refusal is None:
        connection.execute("DETACH store")
    return not replaced


def store_path(path: Path | str) -> Path:
    """The store's file for a results folder, a snapshot or the file itself."""
    path = Path(path).absolute()
    if path.is_dir() or not (path.is_file() or path.suffix == ".duckdb"):
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


def _explain(path: Path, error: duckdb.Error) -> str:
    if "version number" in str(error):
        return f"{path}: written in a file format newer than DuckDB {duckdb.__version__} reads: {error}"
    return f"{path}: DuckDB cannot open it ({error}); `paceline rebuild` makes it anew from the raw records"


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
