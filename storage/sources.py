"""Finding raw records: in the results folder, in other folders, in archives from another host."""

import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from duckdb import DuckDBPyConnection

from storage.builds import BUILDS_FOLDER, build_files, insert_build
from storage.database import Database
from storage.errors import StoreError
from storage.ingest import IngestReport, ingest, setting_aside
from storage.records import TARGETS_FILE, RecordError, load
from storage.runs import PLAN_FILE, RUN_FILE, insert_run

RECORDS_FOLDER = "records"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]*")
_TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")


def record_files(folder: Path) -> list[Path]:
    """The raw records under a folder, in order of their paths: what lies in folders named `records`, or, where there is none,
    the JSON files of the folder itself.
    """
    inside = sorted(path for path in folder.rglob(f"{RECORDS_FOLDER}/*.json") if _counts(path, folder))
    return inside or sorted(path for path in folder.glob("*.json") if _counts(path, folder))


def run_folders(folder: Path) -> list[Path]:
    """The folders of runs directly in a results folder."""
    marks = (RUN_FILE, PLAN_FILE, RECORDS_FOLDER, BUILDS_FOLDER)
    return sorted(
        path for path in folder.iterdir() if _RUN_ID.fullmatch(path.name) and any((path / mark).exists() for mark in marks)
    )


def insert_folder(connection: DuckDBPyConnection, folder: Path, root: Path, report: IngestReport) -> None:
    """The rows of a run and its builds from its folder; a file that cannot be read is set aside."""
    with setting_aside(connection, folder, root, report):
        insert_run(connection, folder)
    for file in build_files(folder):
        with setting_aside(connection, file, root, report):
            insert_build(connection, file)


def adopt(db_path: Path | str, paths: Iterable[Path]) -> IngestReport:
    """Ingest files, folders and archives (tar, zip) from anywhere. What lies outside the results folder is copied into it
    first, so that the raw records there stay the whole truth. Raises StoreError for a path that is not there or an archive
    that cannot be read.
    """
    root = Database(db_path).path.parent
    inside: list[Path] = []
    rejected: list[tuple[Path, str]] = []
    runs: set[Path] = set()
    for path in paths:
        with _opened(Path(path)) as files:
            for file in files:
                if file.absolute().is_relative_to(root):
                    inside.append(file)
                    continue
                try:
                    copy = _copy_in(file, root)
                except RecordError as error:
                    rejected.append((file, str(error)))
                else:
                    inside.append(copy)
                    runs.add(copy.parent.parent)
    report = ingest(db_path, inside)
    if runs:
        with Database(db_path).write() as connection:
            for folder in sorted(runs):
                insert_folder(connection, folder, root, report)
    return IngestReport(report.added, report.unchanged, rejected + report.rejected)


@contextmanager
def _opened(path: Path) -> Iterator[list[Path]]:
    """The record files that a path stands for; an archive is unpacked for as long as that takes."""
    if path.is_dir():
        yield record_files(path)
    elif not path.exists():
        raise StoreError(f"{path}: no such file or folder")
    elif path.name.endswith((*_TAR_ENDINGS, ".zip")):
        with tempfile.TemporaryDirectory(prefix="paceline-adopt-") as folder:
            _unpack(path, Path(folder))
            yield record_files(Path(folder))
    else:
        yield [path]


def _unpack(archive: Path, folder: Path) -> None:
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)  # noqa: S202 - zipfile drops absolute and climbing names
        else:
            with tarfile.open(archive) as packed_tar:
                packed_tar.extractall(folder, filter="data")
    except (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise StoreError(f"{archive}: not an archive that can be unpacked: {error}") from error


def _copy_in(file: Path, root: Path) -> Path:
    """Copy a record, with what describes its run, to its place in the results folder. Raises RecordError for a file that is
    no record.
    """
    record = load(file)
    if not _RUN_ID.fullmatch(record.run_id):
        raise RecordError(f"{file}: field run_id: found {record.run_id!r}: it cannot name a folder")
    run = root / record.run_id
    target = run / RECORDS_FOLDER / f"{record.measurement.replace('/', '.')}.attempt{record.spec.attempt}.json"
    if not target.resolve().is_relative_to(run.resolve()):
        raise RecordError(f"{file}: field measurement: found {record.measurement!r}: it cannot name a file")
    if target.exists() and target.read_bytes() != file.read_bytes():
        target = target.with_name(f"{target.stem}.{record.record_id}.json")
    _copy_once(file, target)
    origin = file.parent.parent if file.parent.name == RECORDS_FOLDER else None
    if origin is not None:
        extras = [origin / RUN_FILE, origin / PLAN_FILE, origin / TARGETS_FILE, *build_files(origin)]
        if record.failure is not None and record.failure.log:
            extras.append(origin / record.failure.log)
        for extra in extras:
            if extra.is_file() and extra.resolve().is_relative_to(origin.resolve()):
                _copy_once(extra, run / extra.relative_to(origin))
    return target


def _copy_once(source: Path, target: Path) -> None:
    """Whole or not at all; what is there already stays."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.copyfile(source, temporary)
    temporary.replace(target)


def _counts(path: Path, folder: Path) -> bool:
    """Hidden files and folders are somebody's unfinished work."""
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
