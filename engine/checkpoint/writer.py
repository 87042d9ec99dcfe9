"""Writes safetensors folders: a header, then each tensor's bytes at their place; a folder appears whole or not at all."""

import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.checkpoint.index import INDEX, SINGLE
from engine.errors import CheckpointError

WIDTH = {"F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "F8_E8M0": 1}
_SPARE = 1 << 28  # bytes of disk left over beside a new checkpoint


@dataclass(frozen=True)
class Entry:
    """A tensor to be written."""

    name: str
    stored: str  # the format's name of the element type
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * WIDTH[self.stored]


@dataclass(frozen=True)
class Group:
    """Tensors that are made together (an FP8 matrix and its scales). `make` returns their storage, in the entries' order."""

    entries: tuple[Entry, ...]
    make: Callable[[], Sequence[npt.NDArray[Any]]]

    @property
    def size(self) -> int:
        """Bytes over all entries."""
        return sum(entry.size for entry in self.entries)


def write_folder(
    folder: Path, config: dict[str, Any], files: Sequence[tuple[str, Sequence[Group]]], metadata: dict[str, str]
) -> None:
    """Write config.json and the named safetensors files, with an index where there is more than one, into a new `folder`.

    Readers see the whole folder or none. Raises CheckpointError when `folder` exists or the disk has no room.
    """
    total = sum(group.size for _, groups in files for group in groups)
    with new_folder(folder, total) as temporary:
        for name, groups in files:
            write_file(temporary / name, groups, metadata)
        if len(files) > 1:
            weight_map = {entry.name: name for name, groups in files for group in groups for entry in group.entries}
            _write_json(temporary / INDEX, {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))})
        _write_json(temporary / "config.json", config)


@contextmanager
def new_folder(folder: Path, size: int) -> Iterator[Path]:
    """A temporary folder beside `folder` that becomes it when the block ends well, and vanishes when it does not."""
    if folder.exists() and any(folder.iterdir()):
        raise CheckpointError(f"{folder}: exists and is not empty; choose another folder, or remove this one")
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if free < size + _SPARE:
        raise CheckpointError(
            f"{folder}: found {free / 1e9:.1f} GB of disk free, expected {(size + _SPARE) / 1e9:.1f} GB; choose another disk"
        )
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        os.rename(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_file(path: Path, groups: Sequence[Group], metadata: dict[str, str]) -> None:
    """Write one safetensors file; wide elements first, so that every tensor is aligned to its own."""
    entries = sorted((e for group in groups for e in group.entries), key=lambda e: (-WIDTH[e.stored], e.name))
    header: dict[str, Any] = {"__metadata__": metadata}
    offsets: dict[str, int] = {}
    position = 0
    for entry in entries:
        offsets[entry.name] = position
        header[entry.name] = {
            "dtype": entry.stored,
            "shape": list(entry.shape),
            "data_offsets": [position, position + entry.size],
        }
        position += entry.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + position)
        for group in groups:
            for entry, array in zip(group.entries, group.make(), strict=True):
                if array.nbytes != entry.size:
                    raise CheckpointError(
                        f"{path}: tensor {entry.name}: found {array.nbytes} bytes to write, expected {entry.size}"
                    )
                file.seek(8 + len(text) + offsets[entry.name])
                file.write(np.ascontiguousarray(array).data)
        file.flush()
        os.fsync(file.fileno())


def split(groups: Sequence[Group], shards: int) -> list[tuple[str, list[Group]]]:
    """Spread groups over `shards` files of about the same size, in order, none of them empty."""
    if not 1 <= shards <= len(groups):
        raise CheckpointError(f"shards: found {shards}, expected 1 to {len(groups)}, the number of tensors")
    if shards == 1:
        return [(SINGLE, list(groups))]
    total, done = sum(group.size for group in groups), 0
    parts: list[list[Group]] = [[]]
    for index, group in enumerate(groups):
        left = len(groups) - index  # groups still to place, and files still to open below
        if parts[-1] and len(parts) < shards and (done >= total * len(parts) / shards or left <= shards - len(parts)):
            parts.append([])
        parts[-1].append(group)
        done += group.size
    return [(f"model-{i + 1:05d}-of-{shards:05d}.safetensors", part) for i, part in enumerate(parts)]


def _write_json(path: Path, body: dict[str, Any]) -> None:
    path.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
