"""Hands a checkpoint to the native engine: every tensor accounted for, each rank given views of its slices, nothing copied."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from engine import binding
from engine.checkpoint import numbers
from engine.checkpoint.index import Checkpoint, Tensor
from engine.checkpoint.names import SCALE_SUFFIX, Names, matrix_shapes, may_be_fp8, sort_names, vector_shapes
from engine.checkpoint.shard import Shard, Slice, shard
from engine.checkpoint.values import refuse_nan_codes, refuse_not_finite
from engine.config import FP8_BLOCK, ModelConfig
from engine.errors import CheckpointError

_log = logging.getLogger(__name__)
_SHOWN = 5  # faults spelled out in one error
_WIDE = ("bf16", "f16", "f32")


class Source:
    """A checkpoint checked against what its config promises, addressed by plain names."""

    def __init__(self, config: ModelConfig, checkpoint: Checkpoint, *, partial: bool = False) -> None:
        """With `partial` the checkpoint may hold more layers than `config` has. Raises CheckpointError naming the faults."""
        self.config = config
        self.checkpoint = checkpoint
        self.names = self._accounted(partial)
        self._scales: dict[str, npt.NDArray[np.float32]] = {}

    def tensor(self, plain: str) -> Tensor:
        """The tensor by its plain name."""
        return self.checkpoint[self.names.plain[plain]]

    def scale(self, plain: str) -> npt.NDArray[np.float32] | None:
        """Block scales of the whole matrix: float32 [ceil(rows/128), ceil(cols/128)], made once; None where it is not FP8.

        Raises CheckpointError where a scale is not finite or a code of the matrix is NaN.
        """
        if self.tensor(plain).dtype != "f8_e4m3":
            return None
        if plain not in self._scales:
            stored = self.tensor(plain + SCALE_SUFFIX)
            values = scale_values(stored)
            refuse_not_finite(stored, values)
            refuse_nan_codes(self.tensor(plain))
            self._scales[plain] = values
        return self._scales[plain]

    def vector(self, plain: str) -> npt.NDArray[np.float32]:
        """A norm, bias, decay or convolution tensor widened to float32, in its stored shape. Raises CheckpointError for NaN."""
        tensor = self.tensor(plain)
        values = numbers.to_float(tensor.view(), tensor.dtype)
        refuse_not_finite(tensor, values)
        return values

    def matrix(self, plain: str) -> npt.NDArray[np.float32]:
        """A weight matrix widened, and scaled where it is FP8: float32 [rows, cols]. A copy: for the reference and the tools."""
        tensor, scale = self.tensor(plain), self.scale(plain)
        values = numbers.to_float(tensor.view(), tensor.dtype)
        return values if scale is None else values * numbers.expand_scales(scale, *values.shape)

    def weight_bytes(self, tp: int) -> int:
        """Bytes of the matrices over all ranks, in their stored types: what the engine holds beside the mapped embedding."""
        total = 0
        for rank in range(tp):
            for pieces in shard(self.config, tp, rank).matrices.values():
                total += sum(part_view(self, piece).nbytes for piece in pieces)
        return total

    def _accounted(self, partial: bool) -> Names:
        names = sort_names(self.checkpoint)
        if partial:
            names = Names({p: n for p, n in names.plain.items() if _layer(p) < self.config.num_layers}, names.skipped)
        if self.config.tied and names.plain.pop("lm_head.weight", ""):
            names.skipped["lm_head.weight (tied to the embedding) "] = 1
        matrices, vectors = matrix_shapes(self.config), vector_shapes(self.config)
        faults = [*self._missing(names, matrices | vectors), *self._surplus(names, matrices, vectors.keys())]
        for plain, shape in matrices.items():
            if plain in names.plain:
                faults += self._matrix_faults(names, plain, shape)
        for plain, vector_shape in vectors.items():
            if plain in names.plain:
                faults += _faults(self.checkpoint[names.plain[plain]], vector_shape, _WIDE)
        if faults:
            more = f"\n  and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
            listed = "\n  ".join(faults[:_SHOWN])
            raise CheckpointError(
                f"{self.checkpoint.folder}: the tensors are not those config.json describes:\n  {listed}{more}\n"
                "take config.json and all weight files from one checkpoint, whole; a variant with other tensors is not served"
            )
        return names

    def _missing(self, names: Names, expected: Mapping[str, tuple[int, ...]]) -> list[str]:
        files = ", ".join(file.path.name for file in self.checkpoint.files[:2]) + (
            ", ..." if len(self.checkpoint.files) > 2 else ""
        )
        faults = []
        for plain in sorted(expected.keys() - names.plain.keys()):
            fault = f"tensor {plain}: missing in {files}; expected shape {list(expected[plain])}"
            if plain == "lm_head.weight":
                fault += "; config.json says tie_word_embeddings false: set it to true if the head is the embedding"
            faults.append(fault)
        return faults

    def _surplus(self, names: Names, matrices: dict[str, tuple[int, int]], vectors: Iterable[str]) -> list[str]:
        known = {*matrices, *vectors, *(m + SCALE_SUFFIX for m in matrices)}
        faults = [
            f"{self._file(name)}: tensor {name}: surplus, no part of this model"
            for plain, name in names.plain.items()
            if plain not in known
        ]
        for plain in matrices:
            scale = names.plain.get(plain + SCALE_SUFFIX)
            if scale and plain in names.plain and self.checkpoint[names.plain[plain]].stored != "F8_E4M3":
                stored = self.checkpoint[names.plain[plain]].stored
                faults.append(f"{self._file(scale)}: tensor {scale}: surplus, its weight is {stored}, expected F8_E4M3")
        return faults

    def _file(self, name: str) -> str:
        return self.checkpoint[name].file.path.name

    def _matrix_faults(self, names: Names, plain: str, shape: tuple[int, int]) -> list[str]:
        tensor = self.checkpoint[names.plain[plain]]
        faults = _faults(tensor, shape, (*_WIDE, "f8_e4m3") if may_be_fp8(plain) else _WIDE)
        if tensor.stored != "F8_E4M3" or faults:
            return faults
        if plain + SCALE_SUFFIX not in names.plain:
            return [
                f"{tensor.file.path.name}: tensor {tensor.name}: found F8_E4M3 without its scales {tensor.name}{SCALE_SUFFIX}"
            ]
        blocks = (-(-shape[0] // FP8_BLOCK), -(-shape[1] // FP8_BLOCK))
        return _faults(self.checkpoint[names.plain[plain + SCALE_SUFFIX]], blocks, (*_WIDE, "ue8m0", "u8"))


def scale_values(tensor: Tensor) -> npt.NDArray[np.float32]:
    """Block scales as float32, from wide floats or from ue8m0 bytes (2^(b - 127))."""
    if tensor.dtype in ("ue8m0", "u8"):
        return numbers.ue8m0_to_float(tensor.view())
    return np.ascontiguousarray(numbers.to_float(tensor.view(), tensor.dtype))


def load(engine: Any, source: Source, tp: int) -> None:
    """Give every rank of the native `engine` its matrices and vectors, then finish loading.

    Raises CheckpointError when the engine finds something missing or misshapen. Says once what of the checkpoint is skipped.
    """
    if source.names.skipped:
        _log.warning("%s: skipped: %s", source.checkpoint.folder, source.names.said())
    shards = [shard(source.config, tp, rank) for rank in range(tp)]
    with binding.translated(str(source.checkpoint.folder)):
        embedding = source.tensor("embed_tokens.weight")
        engine.set_embedding(embedding.view(), embedding.dtype)
        for rank in range(tp):
            for name in shards[rank].vectors:
                engine.set_vector(rank, name, vector_values(source, shards[rank], name))
        # Product by product, so that the ranks' slices of a tensor are read from the disk once; the head, the largest, first,
        # when little is packed beside its mapped pages.
        for name in sorted(shards[0].matrices, key=lambda name: name != "head"):
            for rank in range(tp):
                engine.set_matrix(rank, name, [_part(source, piece) for piece in shards[rank].matrices[name]])
            for piece in shards[0].matrices[name]:  # packed: mapped pages beside the packed copy would be the weights twice
                source.tensor(piece.tensor).release()
        engine.finish_loading()


def part_view(source: Source, piece: Slice) -> npt.NDArray[Any]:
    """The slice as a view into the mapped file: rows apart by the whole tensor's row length, columns contiguous."""
    start, stop = piece.cols or (None, None)
    return source.tensor(piece.tensor).view()[piece.rows[0] : piece.rows[1], start:stop]


def vector_values(source: Source, shard_: Shard, name: str) -> npt.NDArray[np.float32]:
    """One native vector: float32, 1-D, or [channels, taps] for the convolution. Norms hold the multiplier itself: (1 + w) where
    the family stores w, except the gated norm of a linear layer, which is plain.
    """
    parts = [source.vector(piece.tensor)[piece.rows[0] : piece.rows[1]] for piece in shard_.vectors[name]]
    return vector_of(name, np.concatenate(parts), source.config.norm_offset)


def vector_of(name: str, values: npt.NDArray[np.float32], norm_offset: float) -> npt.NDArray[np.float32]:
    """What the native vector `name` holds, from what is stored, widened."""
    kind = name.rsplit(".", 1)[-1]
    if kind == "conv":
        values = values.reshape(values.shape[0], -1)
    elif kind in ("input_norm", "post_norm", "q_norm", "k_norm", "norm"):
        values = values + np.float32(norm_offset)
    return np.ascontiguousarray(values)


def _part(source: Source, piece: Slice) -> Any:
    return binding.native().MatrixPart(
        data=part_view(source, piece),
        dtype=source.tensor(piece.tensor).dtype,
        scale=source.scale(piece.tensor),
        row_offset=piece.rows[0],
        col_offset=piece.cols[0] if piece.cols else 0,
    )


def _faults(tensor: Tensor, shape: tuple[int, ...], dtypes: tuple[str, ...]) -> list[str]:
    where = f"{tensor.file.path.name}: tensor {tensor.name}"
    faults = []
    if tensor.shape != shape:
        faults.append(f"{where}: found shape {list(tensor.shape)}, expected {list(shape)}")
    try:
        found = tensor.dtype
    except CheckpointError:
        found = tensor.stored
    if found not in dtypes:
        faults.append(f"{where}: found dtype {tensor.stored}, expected one of {', '.join(d.upper() for d in dtypes)}")
    return faults


def _layer(plain: str) -> int:
    """The layer a plain name belongs to, -1 for what belongs to none."""
    parts = plain.split(".")
    return int(parts[1]) if parts[0] == "layers" and len(parts) > 1 and parts[1].isdigit() else -1
