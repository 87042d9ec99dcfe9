"""Sharding as a property: over random shapes the ranks' shards are the whole, and the sharded product is the unsharded one."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.checkpoint import numbers
from engine.checkpoint.names import matrix_shapes, vector_shapes
from engine.checkpoint.quantise import quantise_blocks
from engine.checkpoint.shapes import find_shape
from engine.checkpoint.shard import Slice, even_range, kv_range, qkv_channels, shard, vocab_range
from engine.config import FULL, LINEAR, ModelConfig, check_ranks

TPS = st.sampled_from([1, 2, 4])
COLUMN = ("qkv", "gate_up", "in_qkv", "in_z", "in_ba", "head")  # cut by output rows; the rest by input columns


@st.composite
def models(draw: st.DrawFn, gated: bool | None = None) -> tuple[ModelConfig, int]:
    """A model that `tp` ranks can share, with KV heads fewer than ranks among them, and odd widths."""
    tp = draw(TPS)
    family = draw(st.sampled_from(["qwen3", "qwen3_5"])) if gated is None else "qwen3_5" if gated else "qwen3"
    kv = draw(st.sampled_from([k for k in (1, 2, 4, 8) if k % tp == 0 or tp % k == 0]))
    per_kv = draw(st.sampled_from([n for n in (1, 2, 3, 4) if kv * n % tp == 0] or [4]))
    key_heads = tp * draw(st.integers(1, 3))
    layers = (FULL,) if family == "qwen3" else (LINEAR, FULL)
    config = ModelConfig(
        family=family,
        vocab_size=draw(st.integers(tp * tp, 300)),
        hidden_size=draw(st.integers(1, 40)),
        intermediate_size=tp * draw(st.integers(1, 80)),
        num_layers=len(layers),
        num_heads=kv * per_kv,
        num_kv_heads=kv,
        head_dim=draw(st.sampled_from([2, 6, 16])),
        rotary_dim=2,
        rope_theta=1e4,
        rms_norm_eps=1e-6,
        layer_types=layers,
        tied=draw(st.booleans()),
        max_positions=64,
        linear_num_key_heads=key_heads,
        linear_num_value_heads=key_heads * draw(st.integers(1, 3)),
        linear_key_head_dim=draw(st.sampled_from([2, 5])),
        linear_value_head_dim=draw(st.sampled_from([2, 3])),
        linear_conv_kernel=4,
    )
    check_ranks(config, tp)
    return config, tp


def cut(tensors: dict[str, np.ndarray], piece: Slice) -> np.ndarray:
    rows = tensors[piece.tensor][piece.rows[0] : piece.rows[1]]
    return rows if piece.cols is None else rows[:, piece.cols[0] : piece.cols[1]]


def random_tensors(config: ModelConfig) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(7)
    shapes = {**matrix_shapes(config), **vector_shapes(config)}
    return {name: draw.standard_normal(shape) for name, shape in shapes.items()}


@settings(max_examples=60, deadline=None)
@given(models())
def test_every_element_is_taken_once_or_by_the_ranks_that_share_a_kv_head(model: tuple[ModelConfig, int]) -> None:
    config, tp = model
    taken = {name: np.zeros(shape, int) for name, shape in {**matrix_shapes(config), **vector_shapes(config)}.items()}
    for rank in range(tp):
        own = shard(config, tp, rank)
        for pieces in (*own.matrices.values(), *own.vectors.values()):
            for piece in pieces:
                cut(taken, piece)[...] += 1
    shared = max(1, tp // config.num_kv_heads)
    for name, count in taken.items():
        if name == "embed_tokens.weight" and not config.tied:
            expected = 0  # the table is given whole, beside the shards
        elif name.endswith("norm.weight"):
            expected = tp
        else:
            expected = shared if ".k_proj" in name or ".v_proj" in name else 1
        assert (count == expected).all(), name


@settings(max_examples=60, deadline=None)
@given(models())
def test_sharded_products_are_the_unsharded_ones(model: tuple[ModelConfig, int]) -> None:
    config, tp = model
    tensors = random_tensors(config)
    draw = np.random.default_rng(3)
    shards = [shard(config, tp, rank) for rank in range(tp)]
    for name in shards[0].matrices:
        pieces = [own.matrices[name] for own in shards]
        whole = tensors[pieces[0][0].tensor]
        x = draw.standard_normal(whole.shape[1])
        if name.rsplit(".", 1)[-1] in COLUMN:
            for part in range(len(pieces[0])):
                sources = {own[part].tensor for own in pieces}
                assert len(sources) == 1
                for own in pieces:
                    rows = slice(*own[part].rows)
                    np.testing.assert_allclose(
                        cut(tensors, own[part]) @ x, (tensors[own[part].tensor] @ x)[rows], rtol=1e-12, atol=1e-12
                    )
        else:
            partial = sum(cut(tensors, own[0]) @ x[slice(*own[0].cols or ())] for own in pieces)
            np.testing.assert_allclose(partial, whole @ x, rtol=1e-9, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(models())
def test_attention_over_ranks_is_attention_over_heads(model: tuple[ModelConfig, int]) -> None:
    """Grouped-query attention done per rank, with each rank's own KV heads, then through o, against the whole."""
    config, tp = model
    layer = config.layer_types.index(FULL)
    tensors = random_tensors(config)
    x = np.random.default_rng(5).standard_normal((3, config.hidden_size))

    def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        q = q.reshape(3, -1, config.head_dim * (2 if config.gated else 1))
        k, v = (part.reshape(3, -1, config.head_dim) for part in (k, v))
        group = q.shape[1] // k.shape[1]
        out = []
        for head in range(q.shape[1]):
            scores = q[:, head, : config.head_dim] @ k[:, head // group].T
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            mixed = weights / weights.sum(axis=1, keepdims=True) @ v[:, head // group]
            out.append(mixed * (q[:, head, config.head_dim :] if config.gated else 1.0))
        return np.concatenate(out, axis=1)

    whole_names = [f"layers.{layer}.self_attn.{part}_proj.weight" for part in "qkv"]
    expected = attend(*(x @ tensors[name].T for name in whole_names)) @ tensors[f"layers.{layer}.self_attn.o_proj.weight"].T
    total = np.zeros_like(expected)
    for rank in range(tp):
        own = shard(config, tp, rank).matrices
        mixed = attend(*(x @ cut(tensors, piece).T for piece in own[f"layers.{layer}.qkv"]))
        total += mixed @ cut(tensors, own[f"layers.{layer}.o"][0]).T
    np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(models(gated=True))
def test_value_heads_stay_with_their_key_heads(model: tuple[ModelConfig, int]) -> None:
    config, tp = model
    repeat = config.linear_num_value_heads // config.linear_num_key_heads
    keys = config.linear_num_key_heads * config.linear_key_head_dim
    for rank in range(tp):
        q, k, v = qkv_channels(config, tp, rank)
        key_heads = range(q[0] // config.linear_key_head_dim, q[1] // config.linear_key_head_dim)
        value_heads = range((v[0] - 2 * keys) // config.linear_value_head_dim, (v[1] - 2 * keys) // config.linear_value_head_dim)
        assert [head // repeat for head in value_heads] == [head for head in key_heads for _ in range(repeat)]
        assert (k[0] - keys, k[1] - keys) == q
        own = shard(config, tp, rank)
        linear = config.layer_types.index(LINEAR)
        assert [p.rows for p in own.matrices[f"layers.{linear}.in_qkv"]] == [p.rows for p in own.vectors[f"layers.{linear}.conv"]]
        assert [p.tensor.rsplit("_", 1)[-1] for p in own.matrices[f"layers.{linear}.in_ba"]] == ["b.weight", "a.weight"]


@given(st.integers(1, 3000), TPS)
def test_vocabulary_rows(vocab: int, tp: int) -> None:
    ranges = [vocab_range(vocab, tp, rank) for rank in range(tp)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == vocab
    assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))
    assert all(start == min(rank * -(-vocab // tp), vocab) for rank, (start, _) in enumerate(ranges))


def test_kv_heads_fewer_than_ranks() -> None:
    assert [kv_range(2, 4, rank, 10) for rank in range(4)] == [(0, 10), (0, 10), (10, 20), (10, 20)]
    assert [kv_range(1, 4, rank) for rank in range(4)] == [(0, 1)] * 4
    assert [kv_range(4, 2, rank, 3) for rank in range(2)] == [even_range(4, 2, rank, 3) for rank in range(2)] == [(0, 6), (6, 12)]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.data())
def test_block_scales_follow_a_slice_by_its_offsets(rows: int, cols: int, data: st.DataObject) -> None:
    """What the native module is given for an FP8 slice: its own codes, the whole tensor's scales, and where it starts."""
    weight = np.random.default_rng(rows * 1000 + cols).standard_normal((rows, cols)).astype(np.float32)
    codes, scales = quantise_blocks(weight)
    assert scales.shape == (-(-rows // 128), -(-cols // 128))
    whole = numbers.e4m3_table()[codes] * numbers.expand_scales(scales, rows, cols)
    r0 = data.draw(st.integers(0, rows - 1))
    r1 = data.draw(st.integers(r0 + 1, rows))
    c0 = data.draw(st.integers(0, cols - 1))
    c1 = data.draw(st.integers(c0 + 1, cols))
    by_offset = scales[(r0 + np.arange(r1 - r0))[:, None] // 128, (c0 + np.arange(c1 - c0))[None] // 128]
    np.testing.assert_array_equal(numbers.e4m3_table()[codes[r0:r1, c0:c1]] * by_offset, whole[r0:r1, c0:c1])


@pytest.mark.parametrize("rank", range(4))
def test_the_27b_at_four_ranks(rank: int) -> None:
    """The figures of the design notes: 6 query and 1 KV head, 512 + 512 + 1536 channels, MLP 4352, vocabulary 62080."""
    own = shard(find_shape("qwen3.5-27b-fp8").config(), 4, rank).matrices

    def heights(name: str) -> list[int]:
        return [piece.rows[1] - piece.rows[0] for piece in own[name]]

    assert heights("layers.3.qkv") == [6 * 2 * 256, 256, 256]
    assert heights("layers.0.in_qkv") == [512, 512, 1536]
    assert heights("layers.0.in_ba") == [12, 12]
    assert heights("layers.0.gate_up") == [4352, 4352]
    assert heights("head") == [62080]
    assert own["layers.0.down"][0].cols == (4352 * rank, 4352 * (rank + 1))
    starts = [piece.rows[0] for name in ("layers.3.qkv", "layers.0.in_qkv", "layers.0.gate_up") for piece in own[name]]
    assert all(start % 128 == 0 for start in starts)
