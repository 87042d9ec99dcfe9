"""Raw records read, checked, and turned into the lines that DuckDB loads: one file at a time, or many side by side.

Reading costs more than storing, so many files are read by processes of their own. Such a process speaks over its standard input
and output alone: when its parent goes away, whatever way it went, its input ends and so does it.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, cast

from storage.errors import StoreError
from storage.records import RecordError, load_with_digest
from storage.rows import rows_of

MANY = 1000  # files from which on readers of their own pay for their start
_READERS = 8  # at most; beyond that DuckDB is what is waited for
_CHUNK = 50  # files of one question to a reader
_LINE = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_READER = "import sys; sys.path[:] = {path!r}; from storage.reading import answer; answer()"


@dataclass(frozen=True)
class Reading:
    """A file that is a record: its rows as JSON lines, by table."""

    path: Path
    name: str  # as it is noted in the store
    record_id: str
    digest: str
    lines: dict[str, list[str]]


@dataclass(frozen=True)
class Refusal:
    """A file that is none, and why."""

    path: Path
    reason: str


def read_batches(batches: Iterable[list[Path]], root: Path, readers: int) -> Generator[list[Reading | Refusal], None, None]:
    """Every batch, read; with readers, the next one is read while this one is used. Raises StoreError where a reader dies."""
    if readers < 2:
        yield from ([read_file(path, root) for path in batch] for batch in batches)
        return
    with ExitStack() as stack:
        idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for _ in range(readers):
            idle.put(stack.enter_context(_reader()))
        pool = stack.enter_context(ThreadPoolExecutor(readers))
        stack.callback(pool.shutdown, cancel_futures=True)
        ahead: list[Future[list[Reading | Refusal]]] | None = None
        for batch in batches:
            chunks = [batch[first : first + _CHUNK] for first in range(0, len(batch), _CHUNK)]
            coming = [pool.submit(_ask, idle, chunk, root) for chunk in chunks]
            if ahead is not None:
                yield [item for future in ahead for item in future.result()]
            ahead = coming
        if ahead is not None:
            yield [item for future in ahead for item in future.result()]


def readers_for(files: int) -> int:
    """How many processes should read so many files; 0: this one alone."""
    processors = len(os.sched_getaffinity(0))
    return min(processors, _READERS) if files >= MANY and processors > 1 else 0


def read_file(path: Path, root: Path) -> Reading | Refusal:
    """One file."""
    try:
        record, digest = load_with_digest(path)
    except RecordError as error:
        return Refusal(path, str(error))
    name = shown(path, root)
    rows = rows_of(record, digest, name)
    return Reading(path, name, record.record_id, digest, {table: [_LINE.encode(row) for row in rows[table]] for table in rows})


def shown(path: Path, folder: Path) -> str:
    """A path relative to the results folder where it lies in it, so that a moved folder rebuilds to the same rows."""
    path = path.absolute()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def answer() -> None:
    """What a reader does: read the files of each question, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is our parent's to answer
    asked, told = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            paths, root = pickle.load(asked)  # noqa: S301 - our own parent wrote it
            pickle.dump([read_file(path, root) for path in paths], told, pickle.HIGHEST_PROTOCOL)
            told.flush()
        except (EOFError, BrokenPipeError):
            return


def _reader() -> subprocess.Popen[bytes]:
    program = _READER.format(path=sys.path)
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _ask(idle: SimpleQueue[subprocess.Popen[bytes]], paths: list[Path], root: Path) -> list[Reading | Refusal]:
    reader = idle.get()
    try:
        asked, told = cast(IO[bytes], reader.stdin), cast(IO[bytes], reader.stdout)
        pickle.dump((paths, root), asked, pickle.HIGHEST_PROTOCOL)
        asked.flush()
        found: list[Reading | Refusal] = pickle.load(told)  # noqa: S301 - our own child wrote it
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        raise StoreError(f"{paths[0]}: a process that reads records died: exit code {reader.wait(10)}") from error
    finally:
        idle.put(reader)
    return found
