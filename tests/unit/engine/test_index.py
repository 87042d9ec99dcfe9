"""Safetensors files: read as their own library writes them, and every kind of damage named."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.checkpoint.index import INDEX, Checkpoint, SafetensorsFile
from engine.errors import CheckpointError


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    return {
        "bf16": torch.randn(5, 7, generator=draw).to(torch.bfloat16),
        "f16": torch.randn(3, generator=draw).half(),
        "f32": torch.randn(2, 3, 4, generator=draw),
        "fp8": torch.randn(9, 3, generator=draw).to(torch.float8_e4m3fn),
        "e8m0": torch.full((2, 2), 0.25).to(torch.float8_e8m0fnu),
    }


def damaged(path: Path, change: Callable[[dict[str, dict[str, list[int] | str]]], None]) -> Path:
    """The file with its header changed, its data as it was."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])
    return path


def test_every_type_is_read_in_place(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    save_file(tensors, tmp_path / "model.safetensors")
    file = SafetensorsFile(tmp_path / "model.safetensors")
    assert {t.name: t.dtype for t in file.tensors.values()} == {
        "bf16": "bf16", "f16": "f16", "f32": "f32", "fp8": "f8_e4m3", "e8m0": "ue8m0",
    }  # fmt: skip
    for name, tensor in tensors.items():
        view = file.tensors[name].view()
        raw = tensor.view(torch.uint8).numpy() if tensor.dtype != torch.float32 else tensor.numpy()
        assert view.shape == tuple(tensor.shape)
        assert view.tobytes() == raw.tobytes()
        assert not view.flags.owndata
        assert not view.flags.writeable


def test_views_outlive_the_file_object(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    save_file(tensors, tmp_path / "a.safetensors")
    view = SafetensorsFile(tmp_path / "a.safetensors").tensors["f32"].view()
    np.testing.assert_array_equal(view, tensors["f32"].numpy())


@pytest.mark.parametrize("keep", [0, 4, 60])
def test_a_cut_header_is_named(tensors: dict[str, torch.Tensor], tmp_path: Path, keep: int) -> None:
    path = tmp_path / "a.safetensors"
    save_file(tensors, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=rf"a\.safetensors: found {keep} bytes, expected .*cut short"):
        SafetensorsFile(path)


def test_cut_data_names_tensor_and_sizes(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file(tensors, path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match=r"a\.safetensors: tensor \w+: found \d+ bytes of data, expected \d+; .*cut short"):
        SafetensorsFile(path)


def test_appended_data_is_named(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file(tensors, path)
    path.write_bytes(path.read_bytes() + b"12345")
    with pytest.raises(CheckpointError, match="by its header"):
        SafetensorsFile(path)


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04" + b"\xff" * 60, b"GGUF\x03\0\0\0" + b"\0" * 60, struct.pack("<Q", 8) + b"not json" + b"\0"]
)
def test_a_foreign_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        SafetensorsFile(path)


def test_overlap_names_both_tensors(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"a": tensors["bf16"], "b": tensors["bf16"].clone()}, path)
    damaged(path, lambda header: header["b"].update(data_offsets=[10, 80]))
    with pytest.raises(CheckpointError, match=r"tensor b: found offsets \[10, 80\], which overlap tensor a \[0, 70\]"):
        SafetensorsFile(path)


def test_offsets_that_do_not_fit_the_shape(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"a": tensors["bf16"]}, path)
    damaged(path, lambda header: header["a"].update(shape=[5, 8]))
    with pytest.raises(CheckpointError, match=r"tensor a: found 70 bytes .*expected 80 for BF16 \[5, 8\]"):
        SafetensorsFile(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "Q4_K"}, "tensor a: found dtype 'Q4_K', expected one of"),
        ({"shape": [-5, 7]}, r"tensor a: found shape \(-5, 7\)"),
        ({"data_offsets": [0]}, "expected dtype, shape and data_offsets"),
        ({"data_offsets": [True, 70]}, "expected whole numbers"),
    ],
)
def test_a_bad_header_entry_is_named(tensors: dict[str, torch.Tensor], tmp_path: Path, change: dict, message: str) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"a": tensors["bf16"]}, path)
    damaged(path, lambda header: header["a"].update(change))
    with pytest.raises(CheckpointError, match=message):
        SafetensorsFile(path)


def test_a_type_we_do_not_read_is_refused_at_use(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(3, dtype=torch.int64)}, tmp_path / "a.safetensors")
    tensor = SafetensorsFile(tmp_path / "a.safetensors").tensors["a"]
    with pytest.raises(CheckpointError, match="tensor a: found dtype I64, expected one of BF16"):
        tensor.view()


def test_folder_over_shards(checkpoints: Callable[[str], Path]) -> None:
    folder = checkpoints("tiny")
    checkpoint = Checkpoint(folder)
    expected: dict[str, torch.Tensor] = {}
    for path in folder.glob("*.safetensors"):
        expected |= load_file(path)
    assert len(checkpoint.files) == 2
    assert {name: t.shape for name, t in checkpoint.items()} == {name: tuple(t.shape) for name, t in expected.items()}


def test_index_naming_a_missing_shard(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("tiny")
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(
        CheckpointError, match=r"index\.json: names model-00002-of-00002\.safetensors \(for \d+ tensors\), found no such file"
    ):
        Checkpoint(folder)


def test_index_and_files_that_disagree(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("tiny")
    body = json.loads((folder / INDEX).read_text())
    body["weight_map"]["model.extra.weight"] = "model-00001-of-00002.safetensors"
    (folder / INDEX).write_text(json.dumps(body))
    with pytest.raises(
        CheckpointError, match=r"tensor model\.extra\.weight: expected in model-00001-of-00002\.safetensors, not found"
    ):
        Checkpoint(folder)


def test_the_same_tensor_in_two_files(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("tiny")
    (folder / "model-00002-of-00002.safetensors").write_bytes((folder / "model-00001-of-00002.safetensors").read_bytes())
    with pytest.raises(CheckpointError, match="found a second time"):
        Checkpoint(folder)


@pytest.mark.parametrize("weight_map", ["[]", "{}", '{"a": "../a.safetensors"}', '{"a": 3}', '{"a": "a.bin"}'])
def test_a_bad_index_is_named(tmp_path: Path, weight_map: str) -> None:
    (tmp_path / INDEX).write_text(f'{{"weight_map": {weight_map}}}')
    with pytest.raises(CheckpointError, match=r"index\.json: .*expected"):
        Checkpoint(tmp_path)


def test_a_folder_without_safetensors_says_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"found neither .*\['pytorch_model\.bin'\].*save_pretrained"):
        Checkpoint(tmp_path)


def test_digest_follows_config_and_headers(copy_of: Callable[[str], Path], checkpoints: Callable[[str], Path]) -> None:
    folder = copy_of("tiny")
    digest = Checkpoint(folder).digest()
    assert digest == Checkpoint(checkpoints("tiny")).digest()
    assert digest != Checkpoint(checkpoints("tiny-hybrid")).digest()
    (folder / "config.json").write_text((folder / "config.json").read_text() + "\n")
    assert Checkpoint(folder).digest() != digest
