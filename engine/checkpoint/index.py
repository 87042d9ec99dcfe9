"""The tensors of a checkpoint folder: safetensors headers parsed and checked, bytes mapped as numpy views, nothing copied.

A safetensors file is an 8-byte little-endian header length, a JSON header {name: {dtype, shape, data_offsets}} and the raw bytes.
"""

import hashlib
import json
import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.errors import CheckpointError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_HEADER_LIMIT = 100_000_000  # bytes; the format's own limit

# Element types of the format: bytes an element. Those the engine reads also have a name and a numpy type.
_WIDTH = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "BF16": 2, "F16": 2, "I16": 2, "U16": 2,
    "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
_STORAGE: dict[str, tuple[str, type[np.generic]]] = {
    "BF16": ("bf16", np.uint16),
    "F16": ("f16", np.uint16),
    "F32": ("f32", np.float32),
    "F8_E4M3": ("f8_e4m3", np.uint8),
    "F8_E8M0": ("ue8m0", np.uint8),
    "U8": ("u8", np.uint8),
}


@dataclass(frozen=True)
class Tensor:
    """One tensor as it lies in its file."""

    name: str
    file: "SafetensorsFile"
    stored: str  # the format's name of the element type, as in the header
    shape: tuple[int, ...]
    start: int  # bytes from the beginning of the data
    stop: int

    @property
    def dtype(self) -> str:
        """bf16, f16, f32, f8_e4m3, ue8m0 or u8. Raises CheckpointError for a type the engine does not read."""
        return self._storage()[0]

    def view(self) -> npt.NDArray[Any]:
        """The tensor in its shape: a read-only view of the mapped file (16-bit floats as uint16, FP8 as uint8).

        A tensor whose bytes are not aligned to its elements, which the format's own writer never makes, is copied.
        """
        array = np.frombuffer(
            self.file.data, dtype=self._storage()[1], count=math.prod(self.shape), offset=self.file.data_start + self.start
        )
        return (array if array.flags.aligned else array.copy()).reshape(self.shape)

    def release(self) -> None:
        """Give the process's pages of it back. A view stays good: what is read again comes from the file again."""
        data = self.file.data
        first, last = self.file.data_start + self.start, self.file.data_start + self.stop
        if isinstance(data, mmap.mmap) and first < last:
            first -= first % mmap.PAGESIZE
            data.madvise(mmap.MADV_DONTNEED, first, last - first)

    def _storage(self) -> tuple[str, type[np.generic]]:
        if self.stored not in _STORAGE:
            raise CheckpointError(
                f"{self.file.path}: tensor {self.name}: found dtype {self.stored}, expected one of {', '.join(_STORAGE)}; "
                "save the checkpoint in BF16"
            )
        return _STORAGE[self.stored]


class SafetensorsFile:
    """One mapped file. The mapping lives as long as any view of it."""

    def __init__(self, path: Path) -> None:
        """Map `path` and check its header against its size. Raises CheckpointError."""
        self.path = path
        try:
            with path.open("rb") as file:
                self.size = path.stat().st_size
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else b""
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be opened: {error.strerror}; download or write the file again") from error
        self.header, self.data_start = self._read_header()
        self.metadata: dict[str, str] = self.header.pop("__metadata__", {})
        self.tensors = {name: self._tensor(name, entry) for name, entry in self.header.items()}
        self._check_layout()

    def header_bytes(self) -> bytes:
        """The length field and the JSON header, as they stand."""
        return self.data[: self.data_start]

    def _read_header(self) -> tuple[dict[str, Any], int]:
        if self.size < 8:
            raise CheckpointError(
                f"{self.path}: found {self.size} bytes, expected a safetensors header of at least 8; the file is cut short: "
                "download or write it again"
            )
        (length,) = struct.unpack("<Q", self.data[:8])
        if length > _HEADER_LIMIT:
            raise self._foreign(f"its first 8 bytes would be a header length of {length}")
        if 8 + length > self.size:
            raise CheckpointError(
                f"{self.path}: found {self.size} bytes, expected a header of {length} bytes after the first 8; "
                "the file is cut short or not a safetensors file: download or write it again"
            )
        try:
            header = json.loads(self.data[8 : 8 + length])
        except ValueError as error:
            raise self._foreign(f"its header is not JSON ({error})") from error
        if not isinstance(header, dict):
            raise self._foreign(f"its header is a JSON {type(header).__name__}, expected an object")
        return header, 8 + length

    def _foreign(self, reason: str) -> CheckpointError:
        begins = bytes(self.data[:16])
        todo = "save the model with save_pretrained, which writes safetensors, or download the file again"
        if begins.startswith(b"version https://"):
            todo = "this is a pointer of git LFS: run git lfs pull in that folder"
        return CheckpointError(f"{self.path}: not a safetensors file: {reason}; it begins with {begins!r}; {todo}")

    def _tensor(self, name: str, entry: Any) -> Tensor:
        try:
            stored, shape, (start, stop) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            numbers = (*shape, start, stop)
        except (TypeError, KeyError, ValueError) as error:
            raise CheckpointError(
                f"{self.path}: tensor {name}: found header entry {entry!r}, expected dtype, shape and data_offsets; "
                "download or write the file again"
            ) from error
        if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers):
            raise CheckpointError(
                f"{self.path}: tensor {name}: found shape {shape}, offsets [{start}, {stop}]; expected whole numbers from 0"
            )
        if stored not in _WIDTH:
            raise CheckpointError(f"{self.path}: tensor {name}: found dtype {stored!r}, expected one of {', '.join(_WIDTH)}")
        expected = math.prod(shape) * _WIDTH[stored]
        if stop - start != expected:
            raise CheckpointError(
                f"{self.path}: tensor {name}: found {stop - start} bytes (offsets [{start}, {stop}]), "
                f"expected {expected} for {stored} {list(shape)}; the header is damaged: download or write the file again"
            )
        return Tensor(name, self, stored, shape, start, stop)

    def _check_layout(self) -> None:
        """Tensors must follow one another without overlap, and end where the file ends."""
        end, before = 0, None
        for tensor in sorted(self.tensors.values(), key=lambda t: (t.start, t.stop)):
            if tensor.start < end and before is not None:
                raise CheckpointError(
                    f"{self.path}: tensor {tensor.name}: found offsets [{tensor.start}, {tensor.stop}], "
                    f"which overlap tensor {before.name} [{before.start}, {before.stop}]; "
                    "the header is damaged: download or write the file again"
                )
            end, before = tensor.stop, tensor
        found = self.size - self.data_start
        if found < end:
            last = before.name if before else "?"
            raise CheckpointError(
                f"{self.path}: tensor {last}: found {found} bytes of data, expected {end}; "
                "the file is cut short: download or write it again"
            )
        if found > end:
            raise CheckpointError(
                f"{self.path}: found {found} bytes of data, expected {end} by its header; "
                "the file was appended to or mixed up: download or write it again"
            )


class Checkpoint(Mapping[str, Tensor]):
    """All tensors of a folder by their names, over one file or many."""

    def __init__(self, folder: Path) -> None:
        """Open every file of `folder`. Raises CheckpointError naming the file and what to do."""
        self.folder = folder
        self.files: list[SafetensorsFile] = []
        self._tensors: dict[str, Tensor] = {}
        index = folder / INDEX
        weight_map = _read_weight_map(index) if index.exists() else None
        for path in self._paths(weight_map):
            file = SafetensorsFile(path)
            self.files.append(file)
            for name, tensor in file.tensors.items():
                if name in self._tensors:
                    raise CheckpointError(
                        f"{path}: tensor {name}: found a second time, already in {self._tensors[name].file.path}; remove one file"
                    )
                self._tensors[name] = tensor
        for name, file_name in (weight_map or {}).items():
            if name not in self._tensors or self._tensors[name].file.path.name != file_name:
                raise CheckpointError(
                    f"{index}: tensor {name}: expected in {file_name}, not found there; "
                    "index and files are of two checkpoints: download them again"
                )

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def digest(self) -> str:
        """What identifies the checkpoint, without reading its gigabytes: sha256 over config.json, then over each file by order
        of name: the name, the size and the header (names, types, shapes, offsets, metadata). 64 hex digits.
        """
        total = hashlib.sha256((self.folder / "config.json").read_bytes())
        for file in sorted(self.files, key=lambda f: f.path.name):
            total.update(f"\n{file.path.name} {file.size}\n".encode())
            total.update(file.header_bytes())
        return total.hexdigest()

    def _paths(self, weight_map: dict[str, str] | None) -> list[Path]:
        if weight_map is None:
            single = self.folder / SINGLE
            if not single.exists():
                others = sorted(
                    p.name for p in self.folder.glob("*") if p.suffix in (".safetensors", ".bin", ".gguf", ".pt", ".pth")
                )
                raise CheckpointError(
                    f"{self.folder}: found neither {SINGLE} nor {INDEX} (weight files there: {others or 'none'}); "
                    "save the model with save_pretrained, which writes safetensors"
                )
            return [single]
        paths = [self.folder / name for name in sorted(set(weight_map.values()))]
        missing = [path.name for path in paths if not path.exists()]
        if missing:
            count = sum(1 for name in weight_map.values() if name in missing)
            raise CheckpointError(
                f"{self.folder / INDEX}: names {', '.join(missing)} (for {count} tensors), found no such file in {self.folder}; "
                "download what is missing"
            )
        return paths


def _read_weight_map(path: Path) -> dict[str, str]:
    try:
        weight_map = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path}: expected a JSON object with weight_map, found none ({error!r}); download the file again"
        ) from error
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{path}: weight_map: found {weight_map!r}, expected an object from tensor names to file names")
    for name, file in weight_map.items():
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise CheckpointError(
                f"{path}: tensor {name}: found file {file!r}, expected the name of a .safetensors file in the same folder"
            )
    return weight_map
