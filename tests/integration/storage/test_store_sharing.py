"""Many at once: writers wait for each other, readers wait for nobody (case 28); folders that cannot be written, disks that
are full.
"""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from storage.database import Database, read
from storage.errors import StoreBusy, StoreError
from storage.ingest import ingest, store_run
from storage.rebuild import rebuild

INGESTER = """
import sys
from pathlib import Path
from storage.ingest import ingest
for file in sys.argv[2:]:
    report = ingest(sys.argv[1], [Path(file)])
    assert report.added == 1, str(report)
"""
READER = """
import sys, time
from pathlib import Path
from storage.database import read
seen, looks = 0, 0
while not Path(sys.argv[2]).exists():
    with read(sys.argv[1]) as connection:
        (count,) = connection.execute("SELECT count(*) FROM records").fetchone()
        (figures,) = connection.execute("SELECT count(*) FROM level_table").fetchone()
    assert count >= seen, (count, seen)
    seen, looks = count, looks + 1
    time.sleep(0.05)
print(looks, seen)
"""
REPLACER = """
import shutil, sys
from itertools import cycle
from pathlib import Path
snapshot, *others = map(Path, sys.argv[1:])
for source in cycle(others):
    coming = snapshot.with_name("coming")
    shutil.copyfile(source, coming)
    coming.replace(snapshot)
"""
HOLDER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def python(program: str, *arguments: Any, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True, **options)


def many(kit: Any, results: Any, pairs: int, readers: int) -> None:
    """Two ingesters, some readers: no loss, no error, and nobody sees fewer records than before."""
    files = results.write(kit.make.make_run({2: 1.8}, pairs=pairs))
    Database(results.store).publish_snapshot()
    done = results.root / "done"
    watching = [python(READER, results.root, done, stderr=subprocess.PIPE) for _ in range(readers)]
    writing = [python(INGESTER, results.store, *files[start::2], stderr=subprocess.PIPE) for start in (0, 1)]
    try:
        for writer in writing:
            _, errors = writer.communicate(timeout=250)
            assert writer.returncode == 0, errors
    finally:
        done.touch()
    for reader in watching:
        output, errors = reader.communicate(timeout=60)
        assert reader.returncode == 0, errors
        looks, _ = map(int, output.split())
        assert looks > 1
    assert results.query("SELECT count(*) FROM records") == [(2 * pairs,)]
    rebuild(results.root, results.root.parent / "rebuilt")
    assert kit.contents(results.root) == kit.contents(results.root.parent / "rebuilt")


def test_two_ingesters_and_four_readers(kit: Any, results: Any) -> None:
    many(kit, results, pairs=4, readers=4)


@pytest.mark.slow
def test_two_ingesters_and_four_readers_for_a_minute(kit: Any, results: Any) -> None:
    many(kit, results, pairs=150, readers=4)


def test_threads_of_one_process(kit: Any, results: Any) -> None:
    files = results.write(kit.make.make_run({2: 1.8}, pairs=4))
    added: list[int] = []
    threads = [
        threading.Thread(target=lambda part=part: added.append(ingest(results.store, part).added))
        for part in (files[:4], files[4:])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(added) == [4, 4]
    assert results.query("SELECT count(*) FROM records") == [(8,)]


def test_an_open_reader_keeps_its_snapshot_and_blocks_nothing(kit: Any, results: Any) -> None:
    ingest(results.store, results.write(kit.make.make_pair(2, 1.8, pair=0)))
    with read(results.root) as open_reader:
        assert open_reader.execute("SELECT count(*) FROM records").fetchone() == (2,)
        ingest(results.store, results.write(kit.make.make_pair(2, 1.8, pair=1)))
        assert open_reader.execute("SELECT count(*) FROM rounds").fetchone() == (12,)
        assert open_reader.execute("SELECT count(*) FROM records").fetchone() == (2,)
        assert results.query("SELECT count(*) FROM records") == [(4,)]


def test_a_snapshot_replaced_while_it_is_opened_is_read_whole(kit: Any, results: Any) -> None:
    """DuckDB opens a file twice: what is published in between must not give one snapshot's header and another's blocks.

    Chance decides whether a publication falls in between; the next test makes it certain.
    """
    files = results.write(kit.make.make_run({2: 1.8}, pairs=40))
    few, many = results.root / "few", results.root / "many"
    for part, copy in ((files[:2], few), (files[2:], many)):
        ingest(results.store, part)
        shutil.copyfile(results.snapshot, copy)
    counts = "SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM rounds)"
    with python(REPLACER, results.snapshot, few, many) as replacer:
        seen = {results.query(counts)[0] for _ in range(100)}
        replacer.kill()
    assert seen == {(2, 12), (80, 480)}


class Replaced:
    """A connection under which the snapshot is replaced right after, or in the middle of, its first ATTACH."""

    def __init__(self, connection: Any, coming: Path, snapshot: Path) -> None:
        self.connection, self.coming, self.snapshot = connection, coming, snapshot

    def execute(self, sql: str) -> Any:
        try:
            return self.connection.execute(sql)
        finally:
            if self.coming.exists():
                self.coming.replace(self.snapshot)

    def close(self) -> None:
        self.connection.close()


@pytest.mark.parametrize("before", ["whole", "torn"])
def test_a_replaced_snapshot_is_opened_again(kit: Any, results: Any, monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    files = results.write(kit.make.make_run({2: 1.8}, pairs=2))
    ingest(results.store, files)
    coming = results.root / "coming"
    shutil.copyfile(results.snapshot, coming)
    if before == "whole":
        empty = results.root / "elsewhere"
        ingest(empty, files[:1])
        (empty / results.snapshot.name).replace(results.snapshot)
    else:
        os.truncate(results.snapshot, 20_000)  # the headers, and no block
    connect = duckdb.connect
    monkeypatch.setattr(
        duckdb, "connect", lambda *given, **options: Replaced(connect(*given, **options), coming, results.snapshot)
    )
    assert results.query("SELECT count(*) FROM records") == [(4,)]
    assert not coming.exists()


def test_a_foreign_holder_of_the_store_is_waited_for_and_then_named(kit: Any, results: Any) -> None:
    files = results.write(kit.make.make_pair(2, 1.8))
    ingest(results.store, files[:1])
    with python(HOLDER, results.store, stdin=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreBusy, match=r"held open by another process.*snapshot\.duckdb"):
            Database(results.store, deadline_s=0.3).publish_snapshot()
        assert results.query("SELECT count(*) FROM records") == [(1,)]
        threading.Timer(0.5, holder.stdin.close).start()
        assert ingest(results.store, files).added == 1
    assert results.query("SELECT count(*) FROM records") == [(2,)]


def test_a_paceline_writer_that_never_ends_is_named(results: Any) -> None:
    database = Database(results.store)
    with database.write():
        start = time.monotonic()
        with pytest.raises(StoreBusy, match="another paceline process or thread"):
            Database(results.store, deadline_s=0.3).publish_snapshot()
        assert time.monotonic() - start < 5


def test_the_snapshot_can_be_read_by_a_plain_client(kit: Any, results: Any) -> None:
    """People open it with whatever they have: views included, under the file's own name."""
    ingest(results.store, results.write(kit.make.make_pair(2, 1.8)))
    program = (
        "import duckdb, sys\nc = duckdb.connect(sys.argv[1], read_only=True)\n"
        "views = c.execute('SELECT view_name FROM duckdb_views() WHERE NOT internal').fetchall()\n"
        "for (v,) in views: c.execute(f'FROM {v}').fetchall()\n"
        "print(c.execute('SELECT count(*) FROM target_ratios').fetchone())"
    )
    done = subprocess.run([sys.executable, "-c", program, str(results.snapshot)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(1,)\n", "")


READ_THEN_WRITE = """
import sys
from pathlib import Path
from storage import queries
from storage.errors import StoreError
from storage.ingest import ingest
print(len(queries.target_ratios(sys.argv[1])))
try:
    ingest(sys.argv[1], [Path(sys.argv[2])])
except StoreError as error:
    print(error)
"""


def as_an_ordinary_user() -> list[str]:
    """What stands before a command so that file modes bind it, root too."""
    if os.getuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("a read-only folder does not bind root: needs setpriv, of util-linux")
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]


def test_a_read_only_folder_is_read_and_refused(kit: Any, results: Any, tmp_path: Path) -> None:
    files = results.write(kit.make.make_pair(2, 1.8))
    ingest(results.store, files)
    before = kit.contents(results.root)
    results.root.chmod(0o555)
    program = [sys.executable, "-c", READ_THEN_WRITE, str(results.root), str(files[0])]
    try:
        done = subprocess.run([*as_an_ordinary_user(), *program], capture_output=True, text=True, check=True)
    finally:
        results.root.chmod(0o755)
    lines = done.stdout.splitlines()
    assert lines[0] == "1"
    assert str(results.root) in lines[1]
    assert "not writable" in lines[1]
    assert kit.contents(results.root) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    folder = tmp_path / "small disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.getuid() != 0:
        pytest.skip("a full disk needs root and mount, to make a small tmpfs")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"a full disk needs the right to mount a tmpfs: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(kit: Any, results: Any, small_disk: Path) -> None:
    """Whatever fails is said; what was stored before stays; with room again, the store equals a rebuild."""
    files = results.write(kit.make.make_run({2: 1.8, 4: 3.0}, pairs=2))
    store = small_disk / "paceline.duckdb"
    filler = small_disk / "filler"
    ingest(store, files[:2], root=results.root)
    before = kit.contents(small_disk)

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 4096)

    with pytest.raises(OSError, match="No space"):
        fill()
    with pytest.raises(StoreError, match=r"space|full|write"):
        ingest(store, files, root=results.root)
    assert kit.contents(small_disk / "snapshot.duckdb") == before
    filler.unlink()
    ingest(store, files, root=results.root)
    rebuild(results.root, results.root.parent / "rebuilt")
    assert kit.contents(store) == kit.contents(small_disk) == kit.contents(results.root.parent / "rebuilt")


LIMITED = """
import resource, sys
from pathlib import Path
from storage.errors import StoreError
from storage.ingest import ingest
limit = Path(sys.argv[1]).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    ingest(sys.argv[1], [Path(file) for file in sys.argv[2:]])
except StoreError as error:
    print(error)
"""


def test_a_file_that_may_not_grow(kit: Any, results: Any) -> None:
    """The same without root: writes fail at a limit on the size of files."""
    first = results.write(kit.make.make_pair(2, 1.8))
    ingest(results.store, first)
    before = kit.contents(results.root)
    more = results.write(kit.make.make_run({8: 5.0}, pairs=20))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(results.store), *map(str, more)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(results.root) in done.stdout
    assert kit.contents(results.snapshot) == before
    ingest(results.store, more)
    rebuild(results.root, results.root.parent / "rebuilt")
    assert kit.contents(results.store) == kit.contents(results.snapshot) == kit.contents(results.root.parent / "rebuilt")


def test_a_failed_write_leaves_the_snapshot_and_the_store(kit: Any, results: Any) -> None:
    ingest(results.store, results.write(kit.make.make_pair(2, 1.8)))
    before = kit.contents(results.root)

    def fail_halfway() -> None:
        with Database(results.store).write() as connection:
            connection.execute("BEGIN")
            connection.execute("DELETE FROM records")
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        fail_halfway()
    assert kit.contents(results.store) == kit.contents(results.snapshot) == before
    store_run(results.store, "fine")
    assert results.query("SELECT run_id FROM runs") == [("fine",)]
