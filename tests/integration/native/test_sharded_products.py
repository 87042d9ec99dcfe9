"""Tensor parallelism as a property of the compiled module: the ranks' packed slices give the unsharded products.

Over random models, with what goes wrong elsewhere: shares that no 128-block divides, ragged last blocks, b and a parts of a row
or two a rank, KV heads fewer than ranks. Outputs of a column-parallel product must be bitwise the unsharded ones; a row-parallel
product sums its ranks' parts in float32.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.binding import native
from engine.checkpoint import numbers
from engine.checkpoint.names import matrix_shapes, may_be_fp8
from engine.checkpoint.quantise import quantise_blocks
from engine.checkpoint.shard import Slice, shard
from engine.config import FULL, LINEAR, ModelConfig, check_ranks

ROW_PARALLEL = ("o", "down", "out")
ROWS = 3  # of x: less than any tile


@st.composite
def models(draw: st.DrawFn) -> tuple[ModelConfig, int]:
    """A hybrid that `tp` ranks share; most dimensions are no multiple of 128, and narrow parts have 1 to 3 rows a rank."""
    tp = draw(st.sampled_from([2, 4]))
    kv = draw(st.sampled_from([1, 2, 4]))
    key_heads = tp * draw(st.integers(1, 2))
    config = ModelConfig(
        family="qwen3_5",
        vocab_size=draw(st.integers(tp * tp, 300)),
        hidden_size=draw(st.sampled_from([32, 130, 160, 200, 257])),
        intermediate_size=tp * draw(st.sampled_from([1, 33, 80, 128, 150])),
        num_layers=2,
        num_heads=4 * draw(st.integers(1, 2)),
        num_kv_heads=kv,
        head_dim=draw(st.sampled_from([8, 24, 48])),
        rotary_dim=4,
        rope_theta=1e4,
        rms_norm_eps=1e-6,
        layer_types=(LINEAR, FULL),
        tied=False,
        max_positions=64,
        linear_num_key_heads=key_heads,
        linear_num_value_heads=key_heads * draw(st.integers(1, 3)),
        linear_key_head_dim=draw(st.sampled_from([8, 20])),
        linear_value_head_dim=draw(st.sampled_from([12, 36, 64])),
        linear_conv_kernel=4,
    )
    check_ranks(config, tp)
    return config, tp


class Weights:
    """Random matrices of a model, in BF16 or FP8 by turns, as a checkpoint holds them."""

    def __init__(self, config: ModelConfig, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self.stored: dict[str, tuple[Any, Any]] = {}  # data, scale or None
        for name, shape in matrix_shapes(config).items():
            values = draw.standard_normal(shape).astype(np.float32)
            narrow = may_be_fp8(name) and draw.random() < 0.6
            self.stored[name] = quantise_blocks(values) if narrow else (numbers.bf16_from_float(values), None)

    def part(self, piece: Slice) -> dict[str, Any]:
        """What the module is given for a slice: a view, the whole tensor's scales, where the slice begins."""
        data, scale = self.stored[piece.tensor]
        start, stop = piece.cols or (0, data.shape[1])
        view = data[piece.rows[0] : piece.rows[1], start:stop]
        if scale is None:
            return {"data": view, "dtype": "bf16"}
        return {"data": view, "dtype": "f8_e4m3", "scale": scale, "row_offset": piece.rows[0], "col_offset": start}

    def whole(self, tensor: str) -> Slice:
        return Slice(tensor, (0, self.stored[tensor][0].shape[0]))


def product(ops: Any, parts: list[dict[str, Any]], x: Any) -> Any:
    y = np.full((x.shape[0], sum(part["data"].shape[0] for part in parts)), np.nan, dtype=np.float32)
    ops.linear(ops.pack(parts), np.ascontiguousarray(x), y)
    return y


@pytest.mark.parametrize("isa", ["amx", "avx512_bf16", "avx512", "avx2", "portable"])
@settings(max_examples=25, deadline=None)
@given(model=models(), seed=st.integers(0, 2**32 - 1))
def test_sharded_products_are_the_unsharded_ones(isa: str, model: tuple[ModelConfig, int], seed: int) -> None:
    if not native().isa_paths()[isa]:
        pytest.skip(f"this CPU does not run {isa}")
    config, tp = model
    ops = native().ops.CpuOps(isa=isa, threads=1)
    weights, draw = Weights(config, seed), np.random.default_rng(seed)
    ranks = [shard(config, tp, rank).matrices for rank in range(tp)]
    for name, pieces in ranks[0].items():
        columns = weights.stored[pieces[0].tensor][0].shape[1]
        x = numbers.bf16_from_float(draw.standard_normal((ROWS, columns)).astype(np.float32))
        unsharded = [product(ops, [weights.part(weights.whole(piece.tensor))], x) for piece in pieces]
        if name.rpartition(".")[2] in ROW_PARALLEL:
            parts = [product(ops, [weights.part(own[name][0])], x[:, slice(*own[name][0].cols or ())]) for own in ranks]
            total = np.sum(parts, axis=0, dtype=np.float32)
            error = np.linalg.norm(total - unsharded[0]) / np.linalg.norm(unsharded[0])
            assert error < 2e-6, f"{name} tp {tp}: {error:.1e}"
            continue
        for rank, own in enumerate(ranks):
            found = product(ops, [weights.part(piece) for piece in own[name]], x)
            expected = np.concatenate([y[:, slice(*piece.rows)] for y, piece in zip(unsharded, own[name], strict=True)], axis=1)
            assert found.tobytes() == expected.tobytes(), f"{name} rank {rank} of {tp}"
