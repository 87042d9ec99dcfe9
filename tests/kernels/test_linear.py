"""Products of every instruction set against torch in float32 on the bfloat16-rounded inputs."""

from typing import Any

import numpy as np
import pytest
import torch

# Sums of K products in float32 in another order: some units of 2^-24 times sqrt(K).
TOLERANCE = 2e-6

SHAPES = [  # (output features of each part, input features)
    ((32,), 32),
    ((64, 32, 32), 64),
    ((1,), 1),
    ((33, 7), 50),
    ((48, 48), 160),
    ((96,), 1000),
    ((130, 60), 515),
]


def bf16_part(kit: Any, rows: int, cols: int) -> dict[str, Any]:
    return {"data": kit.to_bf16(kit.normal(rows, cols, scale=cols**-0.5)), "dtype": "bf16"}


def reference(kit: Any, x: Any, parts: list[dict[str, Any]]) -> Any:
    weights = torch.from_numpy(np.concatenate([kit.from_bf16(part["data"]) for part in parts]))
    return (torch.from_numpy(kit.from_bf16(x)) @ weights.T).numpy()


@pytest.mark.parametrize(("outputs", "cols"), SHAPES)
@pytest.mark.parametrize("rows", [1, 2, 5, 8, 16, 17, 40])
def test_product_matches_torch(make_ops: Any, kit: Any, isa: str, outputs: tuple[int, ...], cols: int, rows: int) -> None:
    ops = make_ops(isa)
    parts = [bf16_part(kit, count, cols) for count in outputs]
    weight = ops.pack(parts)
    assert (weight.rows, weight.cols) == (sum(outputs), cols)
    x = kit.to_bf16(kit.normal(rows, cols))
    y = kit.guarded((rows, sum(outputs)), np.float32)
    ops.linear(weight, x, y.array)
    y.assert_intact()
    assert kit.error(y.array, reference(kit, x, parts)) <= TOLERANCE


def test_a_row_is_the_same_in_every_batch(make_ops: Any, kit: Any, isa: str) -> None:
    """Every row count from 1 to 40 and a prefill, each row bitwise equal to the row alone, whatever the threads."""
    ops = make_ops(isa)
    parts = [bf16_part(kit, 70, 1100), bf16_part(kit, 32, 1100)]
    weight = ops.pack(parts)
    x = kit.to_bf16(kit.normal(200, 1100))
    alone = np.empty((200, 102), dtype=np.float32)
    for row in range(200):
        ops.linear(weight, x[row : row + 1], alone[row : row + 1])
    for threads in (1, 3):
        other = make_ops(isa, threads=threads)
        packed = other.pack(parts)
        for rows in [*range(1, 41), 64, 67, 200]:
            y = np.zeros((rows, 102), dtype=np.float32)
            other.linear(packed, x[200 - rows :], y)
            assert (y.view(np.uint32) == alone[200 - rows :].view(np.uint32)).all(), f"{rows} rows on {threads} threads"


def test_rows_of_y_may_stand_apart(make_ops: Any, kit: Any, isa: str) -> None:
    """ld_y beyond the outputs: the columns between the rows are not written."""
    ops = make_ops(isa)
    parts = [bf16_part(kit, 45, 96)]
    weight = ops.pack(parts)
    for rows in (3, 19):
        x = kit.to_bf16(kit.normal(rows, 96))
        y = kit.guarded((rows, 60), np.float32)
        ops.linear(weight, x, y.array[:, :45])
        y.assert_intact()
        assert (y.array[:, 45:].view(np.uint32) == 0xA5A5A5A5).all()
        assert kit.error(y.array[:, :45], reference(kit, x, parts)) <= TOLERANCE


@pytest.mark.parametrize(("dtype", "torch_dtype"), [("f16", torch.float16), ("f32", torch.float32)])
def test_other_types_round_to_bfloat16_at_load(make_ops: Any, kit: Any, isa: str, dtype: str, torch_dtype: torch.dtype) -> None:
    ops = make_ops(isa)
    values = torch.from_numpy(kit.normal(40, 70)).to(torch_dtype)
    values[0, :3] = torch.tensor([6e-8, -2e-5, 0.0]).to(torch_dtype)  # half-precision subnormals
    data = values.numpy() if dtype == "f32" else values.view(torch.uint16).numpy()
    weight = ops.pack([{"data": data, "dtype": dtype}])
    x = np.zeros((70, 70), dtype=np.float32)
    np.fill_diagonal(x, 1.0)
    y = np.empty((70, 40), dtype=np.float32)
    ops.linear(weight, kit.to_bf16(x), y)
    assert (values.to(torch.bfloat16).float().numpy() == y.T).all()


def test_a_slice_of_a_wider_tensor_is_packed_in_place(make_ops: Any, kit: Any, isa: str) -> None:
    """row_stride: a rank's columns of a row-parallel weight are a view of the whole tensor."""
    ops = make_ops(isa)
    whole = kit.to_bf16(kit.normal(48, 256))
    x = kit.to_bf16(kit.normal(4, 64))
    y = np.empty((4, 48), dtype=np.float32)
    ops.linear(ops.pack([{"data": whole[:, 100:164], "dtype": "bf16"}]), x, y)
    assert kit.error(y, kit.from_bf16(x) @ kit.from_bf16(whole[:, 100:164]).T) <= TOLERANCE


def test_nan_and_infinity_come_through(make_ops: Any, kit: Any, isa: str) -> None:
    ops = make_ops(isa)
    values = kit.normal(32, 64)
    weight = ops.pack([{"data": kit.to_bf16(values), "dtype": "bf16"}])
    x = kit.to_bf16(kit.normal(3, 64))
    x[1, 5] = 0x7FC0
    x[2, 9] = 0x7F80
    y = np.empty((3, 32), dtype=np.float32)
    ops.linear(weight, x, y)
    assert np.isfinite(y[0]).all()
    assert np.isnan(y[1]).all()
    assert (y[2] == np.copysign(np.inf, values[:, 9])).all()


def test_what_does_not_fit_is_refused(make_ops: Any, native: Any, kit: Any) -> None:
    ops = make_ops("portable", threads=1)
    with pytest.raises(native.WeightError, match="part 1 has 16 input features, part 0 has 32"):
        ops.pack([bf16_part(kit, 8, 32), bf16_part(kit, 8, 16)])
    with pytest.raises(native.WeightError, match="FP8 and has no block scales"):
        ops.pack([{"data": np.zeros((8, 32), dtype=np.uint8), "dtype": "f8_e4m3"}])
    scale = np.ones((1, 1), dtype=np.float32)
    with pytest.raises(native.WeightError, match="has 1 scales a row, needs 2"):
        ops.pack([{"data": np.zeros((8, 132), dtype=np.uint8), "dtype": "f8_e4m3", "scale": scale}])
    with pytest.raises(native.ConfigError, match='isa is "sse9"'):
        make_ops("portable").__class__(isa="sse9")
