"""Norms, SwiGLU, embedding, gather, argmax and partial sums against torch, ragged widths included."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

ROUNDING = 2.0**-8  # one bfloat16 rounding, relative
WIDTHS = [1, 3, 15, 16, 17, 64, 127, 1024, 3000]


def assert_bf16_close(kit: Any, found: Any, expected: Any) -> None:
    """Each element within one bfloat16 rounding, the whole within the mean of it."""
    values = kit.from_bf16(found)
    assert (np.abs(values - expected) <= ROUNDING * np.abs(expected) + 1e-30).all()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_rms_norm(make_ops: Any, kit: Any, vector_isa: str, width: int, rows: int) -> None:
    x, weight = kit.normal(rows, width, scale=3.0), kit.normal(width)
    out = kit.guarded((rows, width), np.uint16)
    make_ops(vector_isa).rms_norm(x, weight, 1e-6, out.array)
    out.assert_intact()
    expected = functional.rms_norm(torch.from_numpy(x).double(), (width,), torch.from_numpy(weight).double(), 1e-6).numpy()
    assert_bf16_close(kit, out.array, expected)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [1, 7])
def test_swiglu(make_ops: Any, kit: Any, vector_isa: str, width: int, rows: int) -> None:
    gate_up = kit.normal(rows, 2 * width, scale=6.0)
    out = kit.guarded((rows, width), np.uint16)
    make_ops(vector_isa).swiglu(gate_up, out.array)
    out.assert_intact()
    gate, up = torch.from_numpy(gate_up).double().reshape(rows, 2, width).unbind(1)
    assert_bf16_close(kit, out.array, (functional.silu(gate) * up).numpy())


def test_the_exponential_over_its_whole_range(make_ops: Any, kit: Any, vector_isa: str) -> None:
    """silu at the ends of float32: no NaN where torch has none, NaN where it has."""
    gate = np.concatenate([np.linspace(-120, 120, 4001), [0.0, -0.0, 1e-40, 3e38, -3e38, np.inf, np.nan]]).astype(np.float32)
    gate_up = np.stack([gate, np.ones_like(gate)]).reshape(1, -1)
    out = np.empty((1, gate.size), dtype=np.uint16)
    make_ops(vector_isa).swiglu(gate_up, out)
    found = kit.from_bf16(out)[0]
    expected = functional.silu(torch.from_numpy(gate).double()).numpy()
    assert (np.isnan(found) == np.isnan(expected)).all()
    plain = np.isfinite(expected)
    assert (np.abs(found[plain] - expected[plain]) <= ROUNDING * np.abs(expected[plain]) + 1e-36).all()
    assert found[-2] == np.inf


def test_rounding_to_bfloat16_is_to_nearest_even(make_ops: Any, vector_isa: str) -> None:
    """Through swiglu, whose silu(100) is 100 exactly."""
    up = np.array([1.0, 1.00390625, 1.01171875, -1.00390625, 1.0039063, np.inf, 3.4e38], dtype=np.float32)
    gate = np.full_like(up, 100.0)
    out = np.empty((1, up.size), dtype=np.uint16)
    make_ops(vector_isa).swiglu(np.concatenate([gate, up / 100.0]).reshape(1, -1), out)
    expected = (torch.from_numpy(up / np.float32(100.0)) * 100.0).to(torch.bfloat16).view(torch.uint16).numpy()
    assert (out[0] == expected).all()


@pytest.mark.parametrize(("dtype", "torch_dtype"), [("bf16", torch.bfloat16), ("f16", torch.float16), ("f32", torch.float32)])
@pytest.mark.parametrize("width", [1, 30, 256])
def test_embed(make_ops: Any, kit: Any, vector_isa: str, dtype: str, torch_dtype: torch.dtype, width: int) -> None:
    table = torch.from_numpy(kit.normal(50, width)).to(torch_dtype)
    token = kit.rng.integers(0, 50, 37, dtype=np.int32)
    data = table.numpy() if dtype == "f32" else table.view(torch.uint16).numpy()
    out = kit.guarded((37, width), np.float32)
    make_ops(vector_isa).embed(token, data, dtype, out.array)
    out.assert_intact()
    assert (out.array == table.float().numpy()[token]).all()


def test_gather(make_ops: Any, kit: Any, vector_isa: str) -> None:
    x = kit.normal(9, 33)
    out = kit.guarded((3, 33), np.float32)
    make_ops(vector_isa).gather(x, [8, 0, 4], out.array)
    out.assert_intact()
    assert (out.array == x[[8, 0, 4]]).all()


@pytest.mark.parametrize("width", [1, 2, 31, 512, 2047, 2048, 2049, 8192, 20011, 70000])
@pytest.mark.parametrize("rows", [1, 3])
def test_argmax_takes_the_lowest_index_of_equals(make_ops: Any, kit: Any, vector_isa: str, width: int, rows: int) -> None:
    ops = make_ops(vector_isa)
    ld = width + 5
    for levels in (3, 1000, 10**6):
        x = np.full((rows, ld), 1e30, dtype=np.float32)  # what stands between the rows must not be seen
        x[:, :width] = kit.rng.integers(-levels, levels, (rows, width))
        value, index = kit.guarded((rows,), np.float32), kit.guarded((rows,), np.int32)
        ops.argmax(x[:, :width], value.array, index.array)
        value.assert_intact()
        index.assert_intact()
        assert (index.array == x[:, :width].argmax(axis=1)).all()
        assert (value.array == x[:, :width].max(axis=1)).all()


@pytest.mark.parametrize("width", [5, 3000, 30000])
def test_argmax_of_infinities_and_nan(make_ops: Any, kit: Any, vector_isa: str, width: int) -> None:
    """NaN counts as the largest, as in torch, so that a broken row is noticed."""
    ops = make_ops(vector_isa)
    value, index = np.empty(1, dtype=np.float32), np.empty(1, dtype=np.int32)
    x = np.full((1, width), -np.inf, dtype=np.float32)
    ops.argmax(x, value, index)
    assert (value[0], index[0]) == (-np.inf, 0)
    for place in {0, width // 2, width - 1}:
        x = kit.normal(1, width)
        x[0, (place + 1) % width] = np.inf
        x[0, (place + 2) % width] = -np.inf
        ops.argmax(x, value, index)
        assert (value[0], index[0]) == (np.inf, (place + 1) % width)
        x[0, place] = np.nan
        ops.argmax(x, value, index)
        assert np.isnan(value[0])
        assert index[0] == int(torch.from_numpy(x).argmax()) == place


@pytest.mark.parametrize("count", [1, 17, 1000, 100001])
def test_partials_add_in_rank_order(make_ops: Any, kit: Any, vector_isa: str, count: int) -> None:
    partials = [kit.normal(count, scale=10.0**rank) for rank in range(4)]
    target = kit.guarded((count,), np.float32)
    target.array[:] = kit.normal(count)
    expected = target.array.copy()
    for partial in partials:
        expected += partial
    make_ops(vector_isa, threads=3).add_partials(partials, target.array)
    target.assert_intact()
    assert (target.array == expected).all()


def test_more_threads_than_processors_finish(make_ops: Any, kit: Any) -> None:
    """Every thread sleeps on the futex at once: many small steps, each with the right answer."""
    ops = make_ops("auto", threads=8)
    x, weight = kit.normal(64, 1024), np.ones(1024, dtype=np.float32)
    expected, out = np.empty((64, 1024), dtype=np.uint16), np.empty((64, 1024), dtype=np.uint16)
    make_ops("auto", threads=1).rms_norm(x, weight, 1e-6, expected)
    for _ in range(300):
        out[:] = 0
        ops.rms_norm(x, weight, 1e-6, out)
        assert (out == expected).all()
