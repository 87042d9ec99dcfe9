"""The folder of builds: what is in use stays, what was used longest ago goes where there is too much.

A process that opens a build holds its lock file, shared, until it ends or lets go; who removes builds asks for that lock alone.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from flows.locks import hold_shared, try_exclusive

NATIVE = "native"  # compiled modules, beside the builds that they are part of
DESCRIPTIONS = ("build.json", "native.json")  # one of them makes a folder whole; its time is that of the last use

_held: dict[Path, int] = {}  # by folder: the descriptor of its lock


def lock_of(folder: Path) -> Path:
    """The lock file of a build folder."""
    return folder.with_name(f"{folder.name}.lock")


def pin(folder: Path) -> None:
    """Keep a build, made already or not, from being removed while this process lives, and note that it is used."""
    folder = folder.absolute()
    if folder not in _held:
        _held[folder] = hold_shared(lock_of(folder))
    for name in DESCRIPTIONS:
        try:
            os.utime(folder / name)
        except OSError:  # not made yet, or another user's: then its time is that of its making
            continue


def unpin(folder: Path) -> None:
    """Let a build go: it stays until room is needed."""
    descriptor = _held.pop(folder.absolute(), None)
    if descriptor is not None:
        os.close(descriptor)


def make_room(builds: Path, limit_bytes: float) -> list[Path]:
    """Remove builds, those used longest ago first, until the rest fits. Returns what is gone. Only the one builder calls this."""
    known = sorted((_last_use(folder), folder) for folder in _folders(builds))
    sizes = {folder: _size(folder) for _, folder in known}
    total, gone = sum(sizes.values()), []
    for _, folder in known:
        if total <= limit_bytes:
            break
        with try_exclusive(lock_of(folder)) as free:
            if free:
                hidden = folder.with_name(f".{folder.name}.{os.getpid()}")
                folder.rename(hidden)  # at once: nobody finds half a build
                shutil.rmtree(hidden, ignore_errors=True)
                total -= sizes[folder]
                gone.append(folder)
    return gone


def clear_leftovers(builds: Path) -> None:
    """Remove what builders that were killed left behind: hidden folders whose process is gone."""
    for folder in (*builds.glob(".*.*"), *(builds / NATIVE).glob(".*.*")):
        owner = folder.name.rpartition(".")[2]
        if folder.is_dir() and owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _folders(builds: Path) -> Iterator[Path]:
    for folder in (*builds.glob("[!.]*"), *(builds / NATIVE).glob("[!.]*")):
        if any((folder / name).is_file() for name in DESCRIPTIONS):
            yield folder


def _last_use(folder: Path) -> float:
    return max((folder / name).stat().st_mtime for name in DESCRIPTIONS if (folder / name).exists())


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
