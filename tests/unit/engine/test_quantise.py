"""The block quantiser: near the original, exact at the edges, and folders that transformers reads as we do."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from engine.checkpoint import numbers, synthetic
from engine.checkpoint.index import Checkpoint
from engine.checkpoint.load import Source
from engine.checkpoint.quantise import quantise_blocks, quantise_folder
from engine.checkpoint.shapes import find_shape
from engine.config import read_config
from engine.errors import CheckpointError, ConfigError


def restored(codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return numbers.e4m3_table()[codes] * numbers.expand_scales(scales, *codes.shape)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 280), st.integers(1, 280), st.sampled_from(["float", "ue8m0"]))
def test_each_block_is_near_and_its_largest_value_fits(rows: int, cols: int, scale_format: str) -> None:
    draw = np.random.default_rng(rows * 997 + cols)
    weight = (draw.standard_normal((rows, cols)) * np.exp(draw.standard_normal((rows, 1)) * 3)).astype(np.float32)
    codes, scales = quantise_blocks(weight, scale_format)
    step = numbers.expand_scales(scales, rows, cols) * 2.0**-9
    assert (np.abs(restored(codes, scales) - weight) <= np.maximum(np.abs(weight) / 16, step) * 1.0001).all()
    if scale_format == "ue8m0":
        assert (np.log2(scales) == np.round(np.log2(scales))).all()


def test_zeros_and_extremes() -> None:
    weight = np.zeros((130, 3), np.float32)
    weight[129] = [3e38, -1e-38, 0]
    codes, scales = quantise_blocks(weight)
    assert scales[0, 0] == 1.0
    assert (restored(codes, scales)[:128] == 0).all()
    assert restored(codes, scales)[129, 0] == pytest.approx(3e38)


@pytest.mark.parametrize("shape", ["tiny", "tiny-hybrid"])
def test_a_quantised_folder_is_what_transformers_reads(shape: str, checkpoints: Callable[[str], Path], tmp_path: Path) -> None:
    target = tmp_path / "fp8"
    quantise_folder(checkpoints(shape), target)
    source = Source(read_config(target), Checkpoint(target))
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
    theirs = {name.removeprefix("model."): tensor for name, tensor in model.state_dict().items()}
    narrow = 0
    for plain in source.names.plain:
        if plain.endswith("_proj.weight") or (".in_proj_" in plain and plain.endswith(".weight")):
            np.testing.assert_array_equal(source.matrix(plain), theirs[plain].numpy(), err_msg=plain)
            narrow += source.tensor(plain).dtype == "f8_e4m3"
    assert narrow >= 14


def test_quantising_the_wide_shape_gives_the_fp8_shape(checkpoints: Callable[[str], Path], tmp_path: Path) -> None:
    quantise_folder(checkpoints("tiny-hybrid"), tmp_path / "fp8")
    ours, shape = Checkpoint(tmp_path / "fp8"), Checkpoint(checkpoints("tiny-fp8"))
    assert ours.keys() == shape.keys()
    assert all(ours[name].view().tobytes() == shape[name].view().tobytes() for name in shape)
    body = json.loads((tmp_path / "fp8" / "config.json").read_text())
    assert sorted(body["quantization_config"]["modules_to_not_convert"]) == sorted(find_shape("tiny-fp8").ignored_modules())


def test_powers_of_two_are_written_as_such(checkpoints: Callable[[str], Path], tmp_path: Path) -> None:
    quantise_folder(checkpoints("tiny"), tmp_path / "fp8", scale_format="ue8m0")
    source = Source(read_config(tmp_path / "fp8"), Checkpoint(tmp_path / "fp8"))
    assert source.config.fp8 is not None
    assert source.config.fp8.scale_format == "ue8m0"
    assert source.tensor("layers.0.mlp.up_proj.weight_scale_inv").stored == "F8_E8M0"
    wide = Source(read_config(checkpoints("tiny")), Checkpoint(checkpoints("tiny"))).matrix("layers.0.mlp.up_proj.weight")
    assert np.linalg.norm(source.matrix("layers.0.mlp.up_proj.weight") - wide) / np.linalg.norm(wide) < 0.05


def test_what_cannot_be_quantised_is_named(checkpoints: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="quantization_config: found fp8"):
        quantise_folder(checkpoints("tiny-fp8"), tmp_path / "x")
    with pytest.raises(ConfigError, match="scale_format: found 'int4'; allowed: float, ue8m0"):
        quantise_folder(checkpoints("tiny"), tmp_path / "x", scale_format="int4")
    with pytest.raises(CheckpointError, match="found no linear"):
        quantise_folder(checkpoints("tiny"), tmp_path / "x", ignored=("proj",))
    assert not (tmp_path / "x").exists()


def test_bands_of_rows_are_whole_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = synthetic._fp8_matrix(0, "x", (700, 96))
    monkeypatch.setattr(synthetic, "_BAND", 128 * 96)
    bands = synthetic._fp8_matrix(0, "x", (700, 96))
    np.testing.assert_array_equal(whole[0], bands[0])
    np.testing.assert_array_equal(whole[1], bands[1])
