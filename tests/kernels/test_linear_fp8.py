"""FP8 E4M3 weights with 128 x 128 block scales: exact codes, exact blocks, ragged edges, slices of a whole tensor."""

from typing import Any

import numpy as np
import pytest
import torch

TOLERANCE = 2e-6  # float32 sums in another order


def code_values() -> Any:
    return torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy()


def quantised(kit: Any, rows: int, cols: int) -> tuple[Any, Any]:
    """Codes [rows, cols] without NaN, and scales for the whole tensor that differ from block to block."""
    codes = kit.rng.integers(0, 256, (rows, cols), dtype=np.uint8)
    codes[(codes & 0x7F) == 0x7F] = 0x7E
    scale = (2.0 ** kit.rng.uniform(-9, -6, (-(-rows // 128), -(-cols // 128)))).astype(np.float32)
    return codes, scale


def dequantised(codes: Any, scale: Any) -> Any:
    rows, cols = codes.shape
    return code_values()[codes] * np.repeat(np.repeat(scale, 128, 0)[:rows], 128, 1)[:, :cols]


def part(codes: Any, scale: Any, row: int = 0, col: int = 0) -> dict[str, Any]:
    return {"data": codes, "dtype": "f8_e4m3", "scale": scale, "row_offset": row, "col_offset": col}


def test_all_256_codes_are_exact(make_ops: Any, kit: Any, isa: str) -> None:
    """One code a row, times one: subnormals, both zeros and NaN too, from every place of a block."""
    ops = make_ops(isa)
    scale = np.ones((2, 1), dtype=np.float32)
    one = kit.to_bf16(np.ones((1, 1), dtype=np.float32))
    for turn in range(0, 256, 32):
        codes = np.roll(np.arange(256, dtype=np.uint8), turn + turn // 32).reshape(256, 1)
        y = np.empty((1, 256), dtype=np.float32)
        ops.linear(ops.pack([part(codes, scale)]), one, y)
        expected = code_values()[codes[:, 0]]
        assert (np.isnan(y[0]) == np.isnan(expected)).all()
        assert (y[0][~np.isnan(expected)] == expected[~np.isnan(expected)]).all()


@pytest.mark.parametrize(("rows", "cols"), [(128, 128), (32, 256), (160, 384), (1, 1), (45, 200), (200, 130)])
@pytest.mark.parametrize("batch", [1, 3, 8, 16, 21, 40])
def test_product_matches_torch(make_ops: Any, kit: Any, isa: str, rows: int, cols: int, batch: int) -> None:
    ops = make_ops(isa)
    codes, scale = quantised(kit, rows, cols)
    x = kit.to_bf16(kit.normal(batch, cols))
    y = kit.guarded((batch, rows), np.float32)
    ops.linear(ops.pack([part(codes, scale)]), x, y.array)
    y.assert_intact()
    expected = torch.from_numpy(kit.from_bf16(x)).double() @ torch.from_numpy(dequantised(codes, scale)).double().T
    assert kit.error(y.array, expected.numpy()) <= TOLERANCE


@pytest.mark.parametrize("code", [0x7F, 0xFF])
@pytest.mark.parametrize(("rows", "cols"), [(128, 256), (45, 200)])
def test_a_nan_code_reaches_its_own_output_and_no_other(
    make_ops: Any, kit: Any, isa: str, code: int, rows: int, cols: int
) -> None:
    """Whatever the width of the batch, whatever stands at its place in x: never silently a number."""
    ops = make_ops(isa)
    codes, scale = quantised(kit, rows, cols)
    spoilt = {0, rows // 2, rows - 1}
    for row, col in zip(sorted(spoilt), (cols - 1, 0, cols // 2), strict=True):
        codes[row, col] = code
    weight = ops.pack([part(codes, scale)])
    for batch in (1, 8, 16, 40):
        x = kit.to_bf16(kit.normal(batch, cols))
        x[:, 0] = 0  # 0 * NaN is NaN
        y = np.empty((batch, rows), dtype=np.float32)
        ops.linear(weight, x, y)
        assert (np.isnan(y) == np.isin(np.arange(rows), sorted(spoilt))).all()


@pytest.mark.parametrize(("row", "rows"), [(0, 64), (100, 70), (128, 128), (17, 31), (120, 16)])
@pytest.mark.parametrize(("col", "cols"), [(0, 128), (64, 192), (50, 77), (255, 129), (383, 1)])
def test_a_slice_keeps_the_tensors_own_scale_grid(
    make_ops: Any, kit: Any, isa: str, row: int, rows: int, col: int, cols: int
) -> None:
    ops = make_ops(isa)
    codes, scale = quantised(kit, 256, 384)
    own = codes[row : row + rows, col : col + cols]
    weight = ops.pack([part(own, scale, row, col)])
    expected_weight = dequantised(codes, scale)[row : row + rows, col : col + cols].astype(np.float64)
    for batch in (2, 18):
        x = kit.to_bf16(kit.normal(batch, cols))
        y = kit.guarded((batch, rows), np.float32)
        ops.linear(weight, x, y.array)
        y.assert_intact()
        assert kit.error(y.array, kit.from_bf16(x).astype(np.float64) @ expected_weight.T) <= TOLERANCE


def test_parts_of_both_kinds_share_a_product(make_ops: Any, kit: Any, isa: str) -> None:
    ops = make_ops(isa)
    codes, scale = quantised(kit, 70, 200)
    plain = kit.to_bf16(kit.normal(33, 200))
    weight = ops.pack([part(codes, scale), {"data": plain, "dtype": "bf16"}])
    whole = np.concatenate([dequantised(codes, scale), kit.from_bf16(plain)]).astype(np.float64)
    for batch in (1, 17):
        x = kit.to_bf16(kit.normal(batch, 200))
        y = kit.guarded((batch, 103), np.float32)
        ops.linear(weight, x, y.array)
        y.assert_intact()
        assert kit.error(y.array, kit.from_bf16(x).astype(np.float64) @ whole.T) <= TOLERANCE


def test_a_row_is_the_same_in_every_batch(make_ops: Any, kit: Any, isa: str) -> None:
    ops = make_ops(isa)
    codes, scale = quantised(kit, 90, 700)
    weight = ops.pack([part(codes, scale)])
    x = kit.to_bf16(kit.normal(100, 700))
    alone = np.empty((100, 90), dtype=np.float32)
    for row in range(100):
        ops.linear(weight, x[row : row + 1], alone[row : row + 1])
    for rows in [*range(1, 41), 100]:
        y = np.zeros((rows, 90), dtype=np.float32)
        ops.linear(weight, x[100 - rows :], y)
        assert (y.view(np.uint32) == alone[100 - rows :].view(np.uint32)).all(), f"{rows} rows"


def test_weights_stay_bytes_in_memory(make_ops: Any, kit: Any) -> None:
    codes, scale = quantised(kit, 256, 512)
    packed = make_ops("portable").pack([part(codes, scale)])
    assert packed.bytes <= 256 * 512 * 1.005
