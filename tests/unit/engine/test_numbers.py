"""Narrow formats against torch, which has them natively."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine.checkpoint import numbers

FLOATS = hnp.arrays(np.float32, st.integers(1, 64), elements=st.floats(width=32, allow_nan=False))


def test_all_256_e4m3_codes_are_exact() -> None:
    codes = np.arange(256, dtype=np.uint8)
    expected = torch.from_numpy(codes).view(torch.float8_e4m3fn).float().numpy()
    np.testing.assert_array_equal(numbers.e4m3_table(), expected)


def test_every_e4m3_value_and_midpoint_rounds_to_even() -> None:
    values = np.unique(numbers.e4m3_table()[~np.isnan(numbers.e4m3_table())]).astype(np.float64)
    middles = (values[1:] + values[:-1]) / 2
    nudged = [np.nextafter(middles.astype(np.float32), np.float32(sign * 1000)) for sign in (-1, 1)]
    for probe in (values.astype(np.float32), middles.astype(np.float32), *nudged):
        expected = torch.from_numpy(probe).to(torch.float8_e4m3fn).float().numpy()
        np.testing.assert_array_equal(numbers.e4m3_table()[numbers.e4m3_from_float(probe)], expected)


@given(FLOATS)
def test_e4m3_rounds_as_torch_and_saturates(values: np.ndarray) -> None:
    clipped = torch.from_numpy(np.clip(values, -448, 448)).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    np.testing.assert_array_equal(numbers.e4m3_from_float(values), clipped)


@given(FLOATS)
def test_bf16_rounds_as_torch(values: np.ndarray) -> None:
    expected = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(numbers.bf16_from_float(values), expected)


def test_every_bf16_code_survives_a_round_trip() -> None:
    codes = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    widened = numbers.bf16_to_float(codes)
    finite = ~np.isnan(widened)
    np.testing.assert_array_equal(numbers.bf16_from_float(widened)[finite], codes[finite])
    assert np.isnan(numbers.bf16_to_float(numbers.bf16_from_float(widened[~finite]))).all()


def test_nan_stays_nan() -> None:
    nan = np.array([np.nan, -np.nan], np.float32)
    assert (numbers.e4m3_from_float(nan) & 0x7F == 0x7F).all()


def test_ue8m0_codes_are_powers_of_two() -> None:
    codes = np.arange(256, dtype=np.uint8)
    scales = numbers.ue8m0_to_float(codes)
    assert scales[127] == 1.0
    assert scales[0] == 2.0**-127
    assert np.isnan(scales[255])
    assert (scales[1:255] == 2 * scales[:254]).all()


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_widening_is_exact(dtype: str) -> None:
    torch_type = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
    values = torch.linspace(-3, 3, 50).to(torch_type)
    stored = values.numpy() if dtype == "f32" else values.view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(numbers.to_float(stored, dtype), values.float().numpy())


def test_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="no conversion from 'i8'"):
        numbers.to_float(np.zeros(1, np.int8), "i8")
