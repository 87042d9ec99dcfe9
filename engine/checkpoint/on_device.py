"""Synthetic checkpoints too large for a disk: matrices and embedding are made on the GPU, in seconds, and exist nowhere else.

The numbers are not those of the folder that `resolve` would make of the same name; like those they depend on seed and name alone.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from engine import binding
from engine.checkpoint import numbers, synthetic
from engine.checkpoint.load import vector_of
from engine.checkpoint.shapes import Shape
from engine.checkpoint.shard import shard

FORMAT = 1  # raise it when the numbers change
LARGEST_ON_DISK = 4_000_000_000  # bytes; a shape beyond that is made on the device, where there is one


def made_on_device(checkpoint: str | Path, devices: str) -> tuple[Shape, int] | None:
    """Shape and seed of a checkpoint to be made on the device, None for one that is read from disk. Raises ConfigError."""
    if isinstance(checkpoint, Path) or not checkpoint.startswith(synthetic.SCHEME) or devices == "cpu":
        return None
    shape, seed = synthetic.parse_spec(checkpoint)
    return (shape, seed) if synthetic.size_of(shape) > LARGEST_ON_DISK else None


def digest(shape: Shape, seed: int) -> str:
    """What stands for the digest of a folder."""
    return hashlib.sha256(f"on device {FORMAT} {shape.name} {seed} {shape.config_json()}".encode()).hexdigest()


def fill(engine: Any, shape: Shape, seed: int) -> None:
    """Have the native `engine` make every tensor, then finish loading. One rank alone."""
    config = shape.config()
    parts = shard(config, 1, 0)
    with binding.translated(f"{synthetic.SCHEME}{shape.name}@{seed}"):
        engine.make_random_embedding(_seed(seed, "embed"))
        for name in parts.matrices:
            wide = not shape.fp8 or name == "head" or name.endswith(".in_ba")
            engine.make_random_matrix(0, name, "bf16" if wide else "f8_e4m3", _seed(seed, name))
        for name, pieces in parts.vectors.items():
            stored = [_vector(shape, seed, piece.tensor)[piece.rows[0] : piece.rows[1]] for piece in pieces]
            engine.set_vector(0, name, vector_of(name, np.concatenate(stored), config.norm_offset))
        engine.finish_loading()


def _vector(shape: Shape, seed: int, plain: str) -> Any:
    values = synthetic.vector(shape, seed, plain)
    return values if values.dtype == np.float32 else numbers.bf16_to_float(values)


def _seed(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "little")
