"""NaN in weights: found wherever it stands, refused by name, and nothing else is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from engine import Session, SessionOptions
from engine.checkpoint import values
from engine.checkpoint.index import Checkpoint
from engine.checkpoint.load import Source
from engine.config import read_config
from engine.errors import CheckpointError

QKV = "model.layers.0.linear_attn.in_proj_qkv.weight"


@given(st.integers(1, 70), st.integers(1, 9), st.data())
def test_a_nan_code_is_found_at_its_place(rows: int, cols: int, data: st.DataObject) -> None:
    codes = np.random.default_rng(rows).integers(0, 256, (rows, cols), dtype=np.uint8)
    codes[codes & 0x7F == 0x7F] = 0x7E
    assert values.first_nan_code(codes) is None
    places = data.draw(st.sets(st.integers(0, codes.size - 1), min_size=1, max_size=3))
    for place in places:
        codes.flat[place] = data.draw(st.sampled_from([0x7F, 0xFF]))
    assert values.first_nan_code(codes) == min(places)


def test_every_other_code_is_a_number() -> None:
    codes = np.array([c for c in range(256) if c & 0x7F != 0x7F], np.uint8)
    assert values.first_nan_code(np.tile(codes, (8, 1))) is None


@pytest.mark.parametrize("place", [values._BAND - 1, values._BAND, 2 * values._BAND + 5])
def test_a_nan_code_is_found_in_every_band(place: int) -> None:
    codes = np.zeros((2 * values._BAND + 6, 1), np.uint8)
    codes[place] = 0xFF
    assert values.first_nan_code(codes) == place


def spoilt(source: Path, target: Path, name: str, change: Callable[[torch.Tensor], object]) -> Path:
    tensors: dict[str, torch.Tensor] = {}
    for path in source.glob("*.safetensors"):
        tensors |= load_file(path)
    change(tensors[name])
    target.mkdir()
    save_file(tensors, target / "model.safetensors")
    (target / "config.json").write_text((source / "config.json").read_text())
    return target


@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (QKV, lambda t: t.view(torch.uint8)[3, 5].fill_(0x7F), r"in_proj_qkv\.weight: row 3, column 5: found FP8 code 0x7f"),
        (QKV, lambda t: t.view(torch.uint8)[-1, -1].fill_(0xFF), r"row 1023, column 127: found FP8 code 0xff, which is NaN"),
        (QKV + "_scale_inv", lambda t: t[2, 0].fill_(torch.nan), r"_scale_inv: element \[2, 0\]: found nan, expected a finite"),
        (QKV + "_scale_inv", lambda t: t[0, 0].fill_(torch.inf), r"_scale_inv: element \[0, 0\]: found inf"),
        ("model.norm.weight", lambda t: t[7].fill_(torch.nan), r"model\.norm\.weight: element \[7\]: found nan"),
    ],
)
def test_a_damaged_weight_is_refused_at_load(  # type: ignore[no-untyped-def]
    checkpoints, tmp_path: Path, tp: int, name: str, change: Callable[[torch.Tensor], object], message: str
) -> None:
    folder = spoilt(checkpoints("tiny-fp8"), tmp_path / "bad", name, change)
    with pytest.raises(CheckpointError, match=message) as caught:
        Session.open(folder, SessionOptions(mode="batch", tp=tp, context=32))
    assert "model.safetensors" in str(caught.value)
    assert "download or quantise it again" in str(caught.value)


def test_the_reference_refuses_it_too(checkpoints, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = spoilt(checkpoints("tiny-fp8"), tmp_path / "bad", QKV, lambda t: t.view(torch.uint8)[0, 0].fill_(0x7F))
    with pytest.raises(CheckpointError, match="row 0, column 0"):
        Source(read_config(folder), Checkpoint(folder)).matrix("layers.0.linear_attn.in_proj_qkv.weight")
