"""Checkpoints made from a shape and a seed: real Hugging Face folders, the same bytes everywhere, without torch.

Every tensor has a generator of its own, seeded from (seed, plain name): the order of making changes nothing, and an FP8 shape
is the quantised form of the BF16 shape with the same dimensions.
"""

import fcntl
import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.checkpoint import numbers
from engine.checkpoint.names import matrix_shapes, vector_shapes
from engine.checkpoint.quantise import Codes, quantise_blocks, quantised_group
from engine.checkpoint.shapes import Shape, find_shape
from engine.checkpoint.writer import Entry, Group, split, write_folder
from engine.config import FP8_BLOCK
from engine.errors import ConfigError

FORMAT = 3  # raise it when the bytes of any shape change
SCHEME = "synthetic:"
_LARGE = 4_000_000_000  # bytes from which making a checkpoint is worth a warning
_BAND = 1 << 24  # elements made at a time
_log = logging.getLogger(__name__)


def parse_spec(spec: str) -> tuple[Shape, int]:
    """`synthetic:<shape>[@seed]` -> shape, seed. Raises ConfigError."""
    name, _, seed = spec.removeprefix(SCHEME).partition("@")
    if seed and not (seed.isdecimal() and int(seed) < 1 << 63):
        raise ConfigError(f"checkpoint {spec!r}: seed: found {seed!r}; expected a whole number from 0, as in {SCHEME}{name}@0")
    return find_shape(name), int(seed or 0)


def resolve(spec: str | Path, cache: Path | None = None) -> Path:
    """The folder of a checkpoint spec: a path as it stands, or the folder of a synthetic one, made at the first call.

    Synthetic ones are kept under `cache`/checkpoints; None: ~/.cache/paceline (the caller knows of $XDG_CACHE_HOME).
    Raises ConfigError for an unknown shape, CheckpointError when the disk has no room.
    """
    if isinstance(spec, Path) or not spec.startswith(SCHEME):
        return Path(spec).expanduser()
    shape, seed = parse_spec(spec)
    folder = (cache or Path.home() / ".cache" / "paceline") / "checkpoints" / f"{shape.name}-{seed}-{FORMAT}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(f".{folder.name}.lock")):
            if not folder.exists():  # another process may have made it while this one waited
                save(shape, seed, folder)
    return folder


def save(shape: Shape | str, seed: int, folder: str | Path, shards: int = 1) -> None:
    """Write the checkpoint into a new `folder`, whole or not at all, over `shards` safetensors files.

    Raises ConfigError for an unknown shape, CheckpointError when the folder exists or the disk has no room for it.
    """
    shape = find_shape(shape) if isinstance(shape, str) else shape
    groups = _groups(shape, seed)
    size = sum(group.size for group in groups)
    if size > _LARGE:
        _log.warning("%s: making a synthetic checkpoint of %.1f GB; this takes minutes", folder, size / 1e9)
    metadata = {"format": "pt", "paceline": f"synthetic {shape.name} seed {seed} format {FORMAT}"}
    write_folder(Path(folder), shape.config_json(), split(groups, shards), metadata)


def size_of(shape: Shape | str) -> int:
    """Bytes of the shape's tensors as saved."""
    return sum(group.size for group in _groups(find_shape(shape) if isinstance(shape, str) else shape, 0))


def vector(shape: Shape, seed: int, plain: str) -> npt.NDArray[Any]:
    """One vector as it is stored, by its plain name: float32, or bfloat16 as uint16."""
    config = shape.config()
    return _vector(seed, plain, vector_shapes(config)[plain], config.norm_offset)[0]


def _groups(shape: Shape, seed: int) -> list[Group]:
    config = shape.config()
    ignored = tuple(f"{module}.weight" for module in shape.ignored_modules())
    groups = []
    for plain, matrix in matrix_shapes(config).items():
        name = plain if plain.startswith("lm_head") else shape.prefix + plain
        if shape.fp8 and plain != "embed_tokens.weight" and name not in ignored:
            groups.append(quantised_group(name, matrix, partial(_fp8_matrix, seed, plain, matrix)))
        else:
            groups.append(Group((Entry(name, "BF16", matrix),), partial(_bf16_matrix, seed, plain, matrix)))
    for plain, vector in vector_shapes(config).items():
        stored = "F32" if plain.endswith("A_log") else "BF16"
        entry = Entry(shape.prefix + plain, stored, vector)
        groups.append(Group((entry,), partial(_vector, seed, plain, vector, config.norm_offset)))
    return groups


def _generator(seed: int, plain: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed} {plain}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))


def _bands(seed: int, plain: str, shape: tuple[int, int]) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """The matrix in bands of rows (whole FP8 blocks high): normal, 1 / sqrt(fan in): a normed input gives outputs near 1."""
    generator = _generator(seed, plain)
    rows, cols = shape
    band = max(1, _BAND // (FP8_BLOCK * cols)) * FP8_BLOCK
    for start in range(0, rows, band):
        values = generator.standard_normal((min(band, rows - start), cols), dtype=np.float32)
        yield start, values * np.float32(cols**-0.5)


def _bf16_matrix(seed: int, plain: str, shape: tuple[int, int]) -> tuple[npt.NDArray[np.uint16]]:
    out = np.empty(shape, np.uint16)
    for start, values in _bands(seed, plain, shape):
        out[start : start + len(values)] = numbers.bf16_from_float(values)
    return (out,)


def _fp8_matrix(seed: int, plain: str, shape: tuple[int, int]) -> tuple[Codes, npt.NDArray[np.float32]]:
    parts = []
    for _, values in _bands(seed, plain, shape):
        parts.append(quantise_blocks(numbers.bf16_to_float(numbers.bf16_from_float(values))))
    return np.concatenate([codes for codes, _ in parts]), np.concatenate([scales for _, scales in parts])


def _vector(seed: int, plain: str, shape: tuple[int, ...], norm_offset: float) -> tuple[npt.NDArray[Any]]:
    generator = _generator(seed, plain)
    if plain.endswith("A_log"):  # decays as trained models start with them: A in 1..16
        return (np.log(generator.uniform(1.0, 16.0, shape)).astype(np.float32),)
    if plain.endswith("dt_bias"):  # time steps of 0.001..0.1, through the inverse of softplus
        steps = np.exp(generator.uniform(np.log(0.001), np.log(0.1), shape))
        values = steps + np.log(-np.expm1(-steps))
    elif plain.endswith("conv1d.weight"):
        # Wide enough for SiLU to act as a rectifier: queries and keys then share a direction, as trained ones do. Near-orthogonal
        # ones read almost nothing from the state, which the gated norm blows up, rounding errors and all.
        values = generator.standard_normal(shape) * 4 * shape[-1] ** -0.5
    else:  # norms: multipliers near one
        offset = 0.0 if plain.endswith("linear_attn.norm.weight") else norm_offset
        values = 1.0 - offset + 0.1 * generator.standard_normal(shape)
    return (numbers.bf16_from_float(values.astype(np.float32)),)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """An exclusive lock on a file, held for the block."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
