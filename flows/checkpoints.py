"""Checkpoints that a served run may choose: synthetic shapes, and the folders below those that the settings name."""

from collections.abc import Iterable
from pathlib import Path

GIB = 2**30
# Shape -> bytes that a measuring process of it needs at most: mapped file, packed copy, caches. The engine has the shapes.
SYNTHETIC = {
    "tiny": 0.5 * GIB,
    "tiny-hybrid": 0.5 * GIB,
    "tiny-fp8": 0.5 * GIB,
    "small": 2 * GIB,
    "small-fp8": 2 * GIB,
    "small-dense": 2 * GIB,
    "qwen3-0.6b": 4 * GIB,
    "qwen3-0.6b-fp8": 3 * GIB,
    "qwen3.5-0.8b": 5 * GIB,
    "qwen3.5-0.8b-fp8": 4 * GIB,
    "qwen3.5-27b-fp8": 64 * GIB,
}
_PREFIX = "synthetic:"
_BESIDE = 1 * GIB  # interpreter, caches, results


def choices(folders: Iterable[Path]) -> list[str]:
    """Every checkpoint that may be chosen now: synthetic names at seed 0, then folders, by name."""
    return [*(f"{_PREFIX}{shape}@0" for shape in SYNTHETIC), *map(str, found(folders))]


def found(folders: Iterable[Path]) -> list[Path]:
    """Checkpoints in the folders: the folder itself or one directly in it that has a config.json and safetensors."""
    candidates = [place for folder in folders for place in (folder, *sorted(folder.glob("*"))) if place.is_dir()]
    return [place for place in candidates if (place / "config.json").is_file() and any(place.glob("*.safetensors"))]


def allowed(checkpoint: str, folders: Iterable[Path]) -> bool:
    """Whether a served run may use it: a synthetic name, or a checkpoint that really lies in one of the folders."""
    if checkpoint.startswith(_PREFIX):
        shape, _, seed = checkpoint.removeprefix(_PREFIX).partition("@")
        return shape in SYNTHETIC and (not seed or seed.isdecimal())
    places = list(folders)
    path = Path(checkpoint)
    inside = path.is_absolute() and any(path.resolve().is_relative_to(folder.resolve()) for folder in places)
    return inside and path.resolve() in {place.resolve() for place in found(places)}


def memory_needed(checkpoint: str) -> float:
    """Bytes of memory that one measuring process needs: twice the weights (mapped, and packed by the engine), and some."""
    if checkpoint.startswith(_PREFIX):
        return SYNTHETIC.get(checkpoint.removeprefix(_PREFIX).partition("@")[0], 2 * GIB)
    return 2 * sum(file.stat().st_size for file in Path(checkpoint).glob("*.safetensors")) + _BESIDE
