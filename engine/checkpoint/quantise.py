"""The block quantiser: FP8 E4M3 with one scale a 128 x 128 block, of an array or of a whole checkpoint folder. numpy only."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.checkpoint import numbers
from engine.checkpoint.index import Checkpoint, SafetensorsFile, Tensor
from engine.checkpoint.names import SCALE_SUFFIX, matrix_shapes, may_be_fp8, sort_names
from engine.checkpoint.shapes import FP8_IGNORED_LINEAR, fp8_json
from engine.checkpoint.writer import Entry, Group, write_folder
from engine.config import FP8_BLOCK, read_config
from engine.errors import CheckpointError, ConfigError

Codes = npt.NDArray[np.uint8]
Quantised = tuple[Codes, npt.NDArray[np.float32]]
SCALE_FORMATS = ("float", "ue8m0")
DEFAULT_IGNORED = ("lm_head", *FP8_IGNORED_LINEAR)


def quantise_blocks(weight: npt.NDArray[np.float32], scale_format: str = "float") -> tuple[Codes, npt.NDArray[np.float32]]:
    """Quantise [rows, cols] so that weight is about code value * scale: codes [rows, cols], float32 scales [ceil(rows/128),
    ceil(cols/128)]. A block's largest magnitude lands on 448; with ue8m0 the scale is the next power of two. Zeros get scale 1.
    """
    rows, cols = weight.shape
    row_blocks, col_blocks = -(-rows // FP8_BLOCK), -(-cols // FP8_BLOCK)
    padded = np.zeros((row_blocks * FP8_BLOCK, col_blocks * FP8_BLOCK), np.float32)
    padded[:rows, :cols] = weight
    blocks = padded.reshape(row_blocks, FP8_BLOCK, col_blocks, FP8_BLOCK)
    largest = np.abs(blocks).max(axis=(1, 3))
    scales = np.where(largest > 0, largest / np.float32(numbers.E4M3_MAX), np.float32(1.0)).astype(np.float32)
    if scale_format == "ue8m0":
        scales = np.exp2(np.ceil(np.log2(scales))).astype(np.float32)
    scaled = (blocks / scales[:, None, :, None]).astype(np.float32, copy=False)
    codes = numbers.e4m3_from_float(scaled)
    return codes.reshape(padded.shape)[:rows, :cols], scales


def quantised_group(name: str, shape: tuple[int, int], make: Callable[[], Quantised], scale_format: str = "float") -> Group:
    """The writer's group for an FP8 matrix and its scales. `make` returns (codes, float32 scales)."""
    blocks = (-(-shape[0] // FP8_BLOCK), -(-shape[1] // FP8_BLOCK))
    stored = "F8_E8M0" if scale_format == "ue8m0" else "F32"

    def arrays() -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        codes, scales = make()
        return codes, (np.log2(scales) + 127).astype(np.uint8) if scale_format == "ue8m0" else scales

    return Group((Entry(name, "F8_E4M3", shape), Entry(name + SCALE_SUFFIX, stored, blocks)), arrays)


def quantise_folder(
    source: Path, target: Path, *, ignored: tuple[str, ...] = DEFAULT_IGNORED, scale_format: str = "float"
) -> None:
    """Write `target` as the FP8 form of the checkpoint folder `source`, file by file.

    Every linear whose module name does not end with one of `ignored` is quantised; all else is copied as it stands.
    Raises ConfigError for an unknown scale format or a source that is FP8 already, CheckpointError for a folder that cannot be
    read or written.
    """
    if scale_format not in SCALE_FORMATS:
        raise ConfigError(f"scale_format: found {scale_format!r}; allowed: {', '.join(SCALE_FORMATS)}")
    config = read_config(source)
    if config.fp8 is not None:
        raise ConfigError(f"{source}: quantization_config: found fp8; expected a checkpoint of BF16, F16 or F32 weights")
    checkpoint = Checkpoint(source)
    linears = {name for name, shape in matrix_shapes(config).items() if may_be_fp8(name)}
    plain = {name: short for short, name in sort_names(checkpoint).plain.items()}
    left = [name.removesuffix(".weight") for name, short in plain.items() if short in linears and _ends(name, ignored)]
    chosen = {name for name, short in plain.items() if short in linears} - {name + ".weight" for name in left}
    if not chosen:
        raise CheckpointError(f"{source}: found no linear to quantise outside {', '.join(ignored)}")
    files = [(file.path.name, _groups(file, chosen, scale_format)) for file in checkpoint.files]
    body = json.loads((source / "config.json").read_text(encoding="utf-8"))
    body["quantization_config"] = fp8_json(sorted(left), scale_format)
    write_folder(target, body, files, {"format": "pt", "paceline": f"block-quantised {scale_format}"})


def _groups(file: SafetensorsFile, chosen: set[str], scale_format: str) -> list[Group]:
    groups = []
    for name, tensor in file.tensors.items():
        if name in chosen:
            shape = (tensor.shape[0], tensor.shape[1])
            groups.append(quantised_group(name, shape, partial(_quantise_tensor, tensor, scale_format), scale_format))
        else:
            groups.append(Group((Entry(name, tensor.stored, tensor.shape),), partial(_copy, tensor)))
    return groups


def _quantise_tensor(tensor: Tensor, scale_format: str) -> tuple[Codes, npt.NDArray[np.float32]]:
    """In bands of rows, so that a large matrix is never whole in float32."""
    view = tensor.view()
    band = max(1, (1 << 24) // (FP8_BLOCK * view.shape[1])) * FP8_BLOCK
    parts = [
        quantise_blocks(numbers.to_float(view[r : r + band], tensor.dtype), scale_format) for r in range(0, view.shape[0], band)
    ]
    return np.concatenate([codes for codes, _ in parts]), np.concatenate([scales for _, scales in parts])


def _copy(tensor: Tensor) -> tuple[npt.NDArray[Any]]:
    return (tensor.view(),)


def _ends(name: str, ignored: tuple[str, ...]) -> bool:
    return name.removesuffix(".weight").endswith(ignored)
