"""The Gated DeltaNet layer against a plain torch recurrence in float64, both forms, over slots, batches and cut prompts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

ROUNDING = 2.0**-8  # the output is bfloat16
EPS = 1e-6


@dataclass(frozen=True)
class Case:
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int = 4

    @property
    def channels(self) -> int:
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


CASES = [Case(2, 6, 128, 128), Case(1, 2, 32, 64), Case(3, 3, 20, 13, kernel=3), Case(2, 2, 16, 16, kernel=1)]


class Layer:
    """Random weights, and a state full of another request's leavings."""

    def __init__(self, kit: Any, case: Case, slots: int = 3) -> None:
        self.kit, self.case = kit, case
        self.conv_weight = kit.normal(case.channels, case.kernel, scale=0.5)
        self.dt_bias, self.a_log = kit.normal(case.value_heads), kit.normal(case.value_heads, scale=0.7)
        self.norm = 1 + kit.normal(case.value_dim, scale=0.2)
        self.recurrent = kit.guarded((slots, case.value_heads, case.value_dim, case.key_dim), np.float32)
        self.conv = kit.guarded((slots, max(case.kernel - 1, 0), case.channels), np.float32)
        self.recurrent.array[:], self.conv.array[:] = 1e3, 1e3

    def inputs(self, rows: int) -> dict[str, Any]:
        """One row each of everything that the projections bring."""
        case = self.case
        return {
            "qkv": self.kit.normal(rows, case.channels),
            "z": self.kit.normal(rows, case.value_heads * case.value_dim),
            "b": self.kit.normal(rows, case.value_heads),
            "a": self.kit.normal(rows, case.value_heads),
        }

    def run(
        self, backend: Any, native_ops: Any, inputs: dict[str, Any], slot: list[int], position: list[int], chunked: bool = False
    ) -> Any:
        """One step; returns bfloat16 bits [rows, value_heads * value_dim]."""
        rows = native_ops.Rows(np.array(slot, np.int32), np.array(position, np.int32), np.zeros(len(slot), np.int32))
        weights = {"conv_weight": self.conv_weight, "dt_bias": self.dt_bias, "a_log": self.a_log, "norm": self.norm, "eps": EPS}
        out = self.kit.guarded((len(slot), self.case.value_heads * self.case.value_dim), np.uint16)
        backend.delta_net(rows, self.case.key_heads, inputs | weights, self.recurrent.array, self.conv.array, chunked, out.array)
        for guard in (out, self.recurrent, self.conv):
            guard.assert_intact()
        return out.array

    def reference(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """A whole prompt from position 0 on: outputs [rows, ..] and the last state [value_heads, value_dim, key_dim]."""
        case, rows = self.case, len(inputs["qkv"])
        x = torch.from_numpy(inputs["qkv"]).double().T[None]
        weight = torch.from_numpy(self.conv_weight).double()[:, None]
        mixed = functional.silu(functional.conv1d(functional.pad(x, (case.kernel - 1, 0)), weight, groups=case.channels))[0].T
        key_width, group = case.key_heads * case.key_dim, case.value_heads // case.key_heads
        q, k, v = mixed[:, :key_width], mixed[:, key_width : 2 * key_width], mixed[:, 2 * key_width :]
        q, k = (
            (
                t.reshape(rows, case.key_heads, -1)
                * torch.rsqrt(t.reshape(rows, case.key_heads, -1).square().sum(-1, True) + 1e-6)
            ).repeat_interleave(group, 1)
            for t in (q, k)
        )
        q, v = q * case.key_dim**-0.5, v.reshape(rows, case.value_heads, -1)
        bias, rate = torch.from_numpy(self.dt_bias).double(), torch.from_numpy(self.a_log).double().exp()
        decay = torch.exp(-rate * functional.softplus(torch.from_numpy(inputs["a"]).double() + bias))
        beta = torch.sigmoid(torch.from_numpy(inputs["b"]).double())
        state = torch.zeros(case.value_heads, case.value_dim, case.key_dim, dtype=torch.float64)
        outputs = []
        for i in range(rows):
            state = state * decay[i, :, None, None]
            delta = (v[i] - torch.einsum("hvk,hk->hv", state, k[i])) * beta[i, :, None]
            state = state + delta[:, :, None] * k[i][:, None, :]
            outputs.append(torch.einsum("hvk,hk->hv", state, q[i]))
        z = torch.from_numpy(inputs["z"]).double().reshape(rows, case.value_heads, -1)
        norm = torch.from_numpy(self.norm).double()
        out = functional.rms_norm(torch.stack(outputs), (case.value_dim,), norm, EPS) * functional.silu(z)
        return out.reshape(rows, -1), state


def assert_close(kit: Any, found: Any, expected: torch.Tensor) -> None:
    """Half a rounding is bfloat16's; the rest is for outputs that hang on a nearly vanishing k . q, where float32 cancels."""
    assert kit.error(kit.from_bf16(found), expected.numpy()) <= ROUNDING


def rows_of(inputs: dict[str, Any], index: Any) -> dict[str, Any]:
    return {name: np.ascontiguousarray(values[index]) for name, values in inputs.items()}


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("length", [1, 2, 7, 64, 150])
@pytest.mark.parametrize("chunked", [False, True], ids=["sequential", "chunked"])
def test_a_prompt_matches_torch(
    make_ops: Any, ops: Any, kit: Any, vector_isa: str, case: Case, length: int, chunked: bool
) -> None:
    """Over a dirty slot: position 0 starts from nothing."""
    layer = Layer(kit, case)
    inputs = layer.inputs(length)
    found = layer.run(make_ops(vector_isa), ops, inputs, [1] * length, list(range(length)), chunked)
    expected, state = layer.reference(inputs)
    assert_close(kit, found, expected)
    assert kit.error(layer.recurrent.array[1], state.numpy()) <= 2e-5
    tail = np.concatenate([np.zeros((case.kernel - 1, case.channels), np.float32), inputs["qkv"]])
    assert (layer.conv.array[1] == tail[len(tail) - (case.kernel - 1) :]).all()
    for other in (0, 2):
        assert (layer.recurrent.array[other] == 1e3).all(), "another slot's state was written"
        assert (layer.conv.array[other] == 1e3).all(), "another slot's convolution state was written"


def test_the_two_forms_agree(make_ops: Any, ops: Any, kit: Any, vector_isa: str) -> None:
    """States in float32 over 400 rows, decays near one included."""
    layer, other = Layer(kit, CASES[0]), Layer(kit, CASES[0])
    layer.a_log = layer.a_log - np.float32(4.0)
    for name in ("conv_weight", "dt_bias", "a_log", "norm"):
        setattr(other, name, getattr(layer, name))
    inputs = layer.inputs(400)
    backend = make_ops(vector_isa)
    sequential = layer.run(backend, ops, inputs, [0] * 400, list(range(400)))
    chunked = other.run(backend, ops, inputs, [0] * 400, list(range(400)), chunked=True)
    assert kit.error(other.recurrent.array[0], layer.recurrent.array[0]) <= 1e-5
    assert kit.error(kit.from_bf16(chunked), kit.from_bf16(sequential)) <= 0.5 * ROUNDING


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_are_the_same_however_a_step_is_made_up(make_ops: Any, ops: Any, kit: Any, vector_isa: str, case: Case) -> None:
    """Token by token with slots interleaved, against whole prompts: outputs and states bitwise equal."""
    lengths = [23, 5, 11]
    layer, other = Layer(kit, case), Layer(kit, case)
    for name in ("conv_weight", "dt_bias", "a_log", "norm"):
        setattr(other, name, getattr(layer, name))
    prompts = [layer.inputs(length) for length in lengths]
    backend = make_ops(vector_isa)
    whole = [layer.run(backend, ops, prompt, [i] * lengths[i], list(range(lengths[i]))) for i, prompt in enumerate(prompts)]
    together = {name: np.concatenate([prompt[name] for prompt in prompts]) for name in prompts[0]}
    starts = np.cumsum([0, *lengths])
    for position in range(max(lengths)):
        alive = [i for i in (2, 0, 1) if position < lengths[i]]
        step = other.run(
            make_ops(vector_isa, threads=1),
            ops,
            rows_of(together, [starts[i] + position for i in alive]),
            alive,
            [position] * len(alive),
        )
        for row, i in enumerate(alive):
            assert (step[row] == whole[i][position]).all(), f"prompt {i} at {position}"
    assert (other.recurrent.array == layer.recurrent.array).all()
    assert (other.conv.array == layer.conv.array).all()


def test_several_prompts_in_one_step(make_ops: Any, ops: Any, kit: Any, vector_isa: str) -> None:
    """Runs of different slots side by side, one of them going on from an earlier step."""
    case = CASES[0]
    layer, other = Layer(kit, case), Layer(kit, case)
    for name in ("conv_weight", "dt_bias", "a_log", "norm"):
        setattr(other, name, getattr(layer, name))
    first, second = layer.inputs(20), layer.inputs(9)
    backend = make_ops(vector_isa)
    expected = [
        layer.run(backend, ops, first, [2] * 20, list(range(20))),
        layer.run(backend, ops, second, [0] * 9, list(range(9))),
    ]
    other.run(backend, ops, rows_of(first, slice(0, 6)), [2] * 6, list(range(6)))
    both = {name: np.concatenate([first[name][6:], second[name]]) for name in first}
    found = other.run(backend, ops, both, [2] * 14 + [0] * 9, [*range(6, 20), *range(9)])
    assert (found[:14] == expected[0][6:]).all()
    assert (found[14:] == expected[1]).all()


def test_chunks_end_at_multiples_of_64_wherever_a_prompt_is_cut(make_ops: Any, ops: Any, kit: Any, vector_isa: str) -> None:
    """Cut at a multiple of 64 the chunked form gives the same bits as uncut."""
    layer, other = Layer(kit, CASES[1]), Layer(kit, CASES[1])
    for name in ("conv_weight", "dt_bias", "a_log", "norm"):
        setattr(other, name, getattr(layer, name))
    inputs = layer.inputs(200)
    backend = make_ops(vector_isa)
    whole = layer.run(backend, ops, inputs, [0] * 200, list(range(200)), chunked=True)
    first = other.run(backend, ops, rows_of(inputs, slice(0, 128)), [0] * 128, list(range(128)), chunked=True)
    second = other.run(backend, ops, rows_of(inputs, slice(128, 200)), [0] * 72, list(range(128, 200)), chunked=True)
    assert (np.concatenate([first, second]) == whole).all()
    assert (other.recurrent.array[0] == layer.recurrent.array[0]).all()


def test_fused_projections_have_a_row_stride_of_their_own(make_ops: Any, ops: Any, kit: Any, vector_isa: str) -> None:
    """qkv, z, b and a as views of wider rows: the convolution's channels are not the row's length."""
    case = CASES[1]
    layer, other = Layer(kit, case), Layer(kit, case)
    for name in ("conv_weight", "dt_bias", "a_log", "norm"):
        setattr(other, name, getattr(layer, name))
    inputs = layer.inputs(10)
    wide = {}
    for name, values in inputs.items():
        room = np.full((10, values.shape[1] + 9), np.nan, dtype=np.float32)
        room[:, : values.shape[1]] = values
        wide[name] = room[:, : values.shape[1]]
    backend = make_ops(vector_isa)
    expected = layer.run(backend, ops, inputs, [0] * 10, list(range(10)))
    assert (other.run(backend, ops, wide, [0] * 10, list(range(10))) == expected).all()
