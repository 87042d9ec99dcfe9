"""Attention against torch in float64: norms, RoPE, the cache in bfloat16, splits, GQA, the gate, slots and batches."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

ROUNDING = 2.0**-8  # the output is bfloat16
EPS = 1e-6


@dataclass(frozen=True)
class Case:
    heads: int
    kv_heads: int
    head_dim: int
    rotary_dim: int
    gated: bool


CASES = [
    Case(4, 2, 128, 128, gated=False),
    Case(6, 1, 256, 64, gated=True),
    Case(3, 3, 32, 32, gated=False),
    Case(2, 1, 20, 6, gated=True),
    Case(5, 1, 72, 0, gated=False),
]


class Layer:
    """Random weights and an empty cache of one attention layer."""

    def __init__(self, kit: Any, case: Case, slots: int, context: int) -> None:
        self.kit, self.case, self.context = kit, case, context
        self.q_norm, self.k_norm = 1 + kit.normal(case.head_dim, scale=0.2), 1 + kit.normal(case.head_dim, scale=0.2)
        angles = np.arange(context)[:, None] * 1e4 ** (-np.arange(case.rotary_dim // 2) * 2 / max(1, case.rotary_dim))
        self.rope = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
        shape = (slots, case.kv_heads, context, case.head_dim)
        self.key, self.value = kit.guarded(shape, np.uint16), kit.guarded(shape, np.uint16)
        self.key.array[:], self.value.array[:] = 0x7FC0, 0x7FC0  # NaN: whatever reads past a row's length shows

    @property
    def width(self) -> int:
        case = self.case
        return ((2 if case.gated else 1) * case.heads + 2 * case.kv_heads) * case.head_dim

    def run(self, ops: Any, native_ops: Any, qkv: Any, slot: list[int], position: list[int]) -> Any:
        """One step; returns bfloat16 bits [rows, heads * head_dim]."""
        rows = native_ops.Rows(np.array(slot, np.int32), np.array(position, np.int32), np.zeros(len(slot), np.int32))
        inputs = {
            "qkv": qkv,
            "heads": self.case.heads,
            "gated": self.case.gated,
            "q_norm": self.q_norm,
            "k_norm": self.k_norm,
            "eps": EPS,
            "rotary_dim": self.case.rotary_dim,
            "rope": self.rope,
        }
        out = self.kit.guarded((len(slot), self.case.heads * self.case.head_dim), np.uint16)
        ops.attention(rows, inputs, self.key.array, self.value.array, out.array)
        for guard in (out, self.key, self.value):
            guard.assert_intact()
        return out.array

    def norm_and_rotate(self, x: torch.Tensor, weight: Any) -> torch.Tensor:
        """x [positions, heads, head_dim]."""
        x = torch.nn.functional.rms_norm(x, (self.case.head_dim,), torch.from_numpy(weight).double(), EPS)
        half = self.case.rotary_dim // 2
        rope = torch.from_numpy(self.rope).double()[: x.shape[0], None]
        cosine, sine = rope[..., :half], rope[..., half:]
        low, high, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return torch.cat([low * cosine - high * sine, high * cosine + low * sine, rest], dim=-1)

    def reference(self, qkv: Any) -> torch.Tensor:
        """A whole prompt [positions, width] from position 0 on."""
        case, dim = self.case, self.case.head_dim
        x = torch.from_numpy(qkv).double()
        query_width = (2 if case.gated else 1) * case.heads * dim
        queries = x[:, :query_width].reshape(len(x), case.heads, -1)
        keys, values = x[:, query_width:].reshape(len(x), 2, case.kv_heads, dim).unbind(1)
        q = self.norm_and_rotate(queries[..., :dim], self.q_norm)
        k = self.norm_and_rotate(keys, self.k_norm).to(torch.bfloat16).double()
        v = values.to(torch.bfloat16).double()
        group = case.heads // case.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        out = torch.nn.functional.scaled_dot_product_attention(
            q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), is_causal=True
        ).transpose(0, 1)
        if case.gated:
            out = out * torch.sigmoid(queries[..., dim:])
        return out.reshape(len(x), -1)


def assert_close(kit: Any, found: Any, expected: torch.Tensor) -> None:
    """bfloat16 of the right value, up to the cache's own roundings that fall the other way (float32 against float64)."""
    assert kit.error(kit.from_bf16(found), expected.numpy()) <= 0.5 * ROUNDING
    assert np.abs(kit.from_bf16(found) - expected.numpy()).max() <= 2 * ROUNDING * float(expected.abs().max())


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("length", [1, 5, 70, 600])
def test_a_prompt_matches_torch(make_ops: Any, ops: Any, kit: Any, vector_isa: str, case: Case, length: int) -> None:
    layer = Layer(kit, case, slots=2, context=length + 3)
    qkv = kit.normal(length, layer.width)
    found = layer.run(make_ops(vector_isa), ops, qkv, [1] * length, list(range(length)))
    assert_close(kit, found, layer.reference(qkv))
    untouched = layer.key.array[0]
    assert (untouched == 0x7FC0).all(), "another slot was written"
    assert (layer.key.array[1, :, length:] == 0x7FC0).all(), "positions behind the prompt were written"


def test_rows_are_the_same_however_a_step_is_made_up(make_ops: Any, ops: Any, kit: Any, vector_isa: str) -> None:
    """Three prompts of different lengths: cut into steps, mixed with each other, or token by token: the same bits."""
    case, lengths = CASES[1], [300, 17, 64]
    backend = make_ops(vector_isa)
    layers = [Layer(kit, case, slots=4, context=310) for _ in range(3)]
    for layer in layers[1:]:
        layer.q_norm, layer.k_norm = layers[0].q_norm, layers[0].k_norm
    prompts = [kit.normal(length, layers[0].width) for length in lengths]
    whole = [
        layers[0].run(backend, ops, prompt, [slot] * len(prompt), list(range(len(prompt)))) for slot, prompt in enumerate(prompts)
    ]
    single = [np.empty_like(rows) for rows in whole]  # token by token, slots interleaved and other than before
    for position in range(max(lengths)):
        alive = [i for i, length in enumerate(lengths) if position < length]
        step = layers[1].run(
            backend, ops, np.stack([prompts[i][position] for i in alive]), [3 - i for i in alive], [position] * len(alive)
        )
        for row, i in enumerate(alive):
            single[i][position] = step[row]
    mixed = [np.empty_like(rows) for rows in whole]  # chunks of 50 of all prompts in one step, on one thread
    for start in range(0, max(lengths), 50):
        spans = [(i, start, min(start + 50, lengths[i])) for i in range(3) if start < lengths[i]]
        slots = [i for i, first, last in spans for _ in range(first, last)]
        positions = [p for _, first, last in spans for p in range(first, last)]
        qkv = np.concatenate([prompts[i][first:last] for i, first, last in spans])
        step = layers[2].run(make_ops(vector_isa, threads=1), ops, qkv, slots, positions)
        for i, first, last in spans:
            mixed[i][first:last] = step[: last - first]
            step = step[last - first :]
    for i in range(3):
        assert (single[i] == whole[i]).all()
        assert (mixed[i] == whole[i]).all()


def test_a_slot_used_again_sees_nothing_of_the_last_request(make_ops: Any, ops: Any, kit: Any, vector_isa: str) -> None:
    layer = Layer(kit, CASES[0], slots=1, context=40)
    backend = make_ops(vector_isa)
    layer.run(backend, ops, kit.normal(40, layer.width, scale=5.0), [0] * 40, list(range(40)))
    qkv = kit.normal(9, layer.width)
    found = layer.run(backend, ops, qkv, [0] * 9, list(range(9)))
    assert_close(kit, found, layer.reference(qkv))


def test_qkv_rows_may_stand_apart(make_ops: Any, ops: Any, kit: Any, vector_isa: str) -> None:
    layer = Layer(kit, CASES[3], slots=1, context=8)
    wide = np.full((6, layer.width + 7), np.nan, dtype=np.float32)
    wide[:, : layer.width] = kit.normal(6, layer.width)
    found = layer.run(make_ops(vector_isa), ops, wide[:, : layer.width], [0] * 6, list(range(6)))
    assert_close(kit, found, layer.reference(np.ascontiguousarray(wide[:, : layer.width])))


def test_shapes_that_no_kernel_serves_are_refused(make_ops: Any, ops: Any, native: Any, kit: Any) -> None:
    layer = Layer(kit, Case(3, 2, 16, 16, gated=False), slots=1, context=4)
    with pytest.raises(native.ConfigError, match="heads is 3, must be a multiple of the 2 KV heads"):
        layer.run(make_ops("portable"), ops, kit.normal(1, layer.width), [0], [0])
