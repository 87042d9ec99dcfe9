"""Every tensor accounted for; the views and vectors that the native engine is handed."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.checkpoint.index import Checkpoint
from engine.checkpoint.load import Source, part_view, vector_values
from engine.checkpoint.shard import shard
from engine.config import read_config
from engine.errors import CheckpointError

Tensors = dict[str, torch.Tensor]


def open_source(folder: Path, partial: bool = False) -> Source:
    return Source(read_config(folder), Checkpoint(folder), partial=partial)


@pytest.fixture
def rewritten(checkpoints: Callable[[str], Path], tmp_path: Path) -> Callable[[str, Callable[[Tensors], None]], Path]:
    """A single-file copy of a shape whose tensors a test has changed."""

    def rewrite(shape: str, change: Callable[[Tensors], None]) -> Path:
        source, target = checkpoints(shape), tmp_path / "changed"
        tensors: Tensors = {}
        for path in source.glob("*.safetensors"):
            tensors |= load_file(path)
        change(tensors)
        target.mkdir()
        save_file(tensors, target / "model.safetensors")
        (target / "config.json").write_text((source / "config.json").read_text())
        return target

    return rewrite


NORM = "model.norm.weight"
QKV = "model.layers.0.linear_attn.in_proj_qkv.weight"


def test_what_is_missing_and_surplus_is_named(rewritten: Callable[..., Path]) -> None:
    def change(tensors: Tensors) -> None:
        del tensors[NORM]
        tensors["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(3)

    with pytest.raises(CheckpointError) as caught:
        open_source(rewritten("tiny", change))
    assert "tensor norm.weight: missing" in str(caught.value)
    assert "tensor model.layers.0.self_attn.q_proj.bias: surplus, no part of this model" in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "change", "message"),
    [
        (
            "tiny",
            lambda t: t.update({NORM: torch.zeros(7).bfloat16()}),
            r"tensor model\.norm\.weight: found shape \[7\], expected \[128\]",
        ),
        (
            "tiny",
            lambda t: t.update({NORM: torch.zeros(128, dtype=torch.int32)}),
            r"norm\.weight: found dtype I32, expected one of BF16, F16, F32",
        ),
        ("tiny-fp8", lambda t: t.pop(QKV + "_scale_inv"), r"in_proj_qkv\.weight: found F8_E4M3 without its scales"),
        (
            "tiny-fp8",
            lambda t: t.update({QKV: torch.zeros(512, 128).bfloat16()}),
            "_scale_inv: surplus, its weight is BF16, expected F8_E4M3",
        ),
        (
            "tiny-fp8",
            lambda t: t.update({QKV + "_scale_inv": torch.ones(3, 3)}),
            r"_scale_inv: found shape \[3, 3\], expected \[8, 1\]",
        ),
        (
            "tiny",
            lambda t: t.update({"model.embed_tokens.weight": torch.zeros(512, 128).to(torch.float8_e4m3fn)}),
            r"embed_tokens\.weight: found dtype F8_E4M3, expected one of BF16, F16, F32",
        ),
        (
            "tiny-hybrid",
            lambda t: t.pop("lm_head.weight"),
            r"lm_head\.weight: missing in .*; config\.json says tie_word_embeddings false",
        ),
    ],
)
def test_each_fault_is_named(rewritten: Callable[..., Path], shape: str, change: Callable[[Tensors], None], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        open_source(rewritten(shape, change))


def test_many_faults_are_counted(rewritten: Callable[..., Path]) -> None:
    with pytest.raises(CheckpointError, match="and 19 more"):
        open_source(rewritten("tiny", lambda t: [t.pop(name) for name in list(t) if name != NORM] and t.update(x=torch.zeros(1))))


def test_vision_and_prediction_tensors_are_set_aside(rewritten: Callable[..., Path]) -> None:
    extra = {"model.visual.blocks.0.w": torch.zeros(2, dtype=torch.int64), "mtp.fc.weight": torch.zeros(2)}
    source = open_source(rewritten("tiny-hybrid", lambda t: t.update(extra)))
    assert source.names.said() == "1 tensors model.visual.*, 1 tensors mtp.*"


def test_the_nested_prefix_is_read(rewritten: Callable[..., Path]) -> None:
    def rename(tensors: Tensors) -> None:
        for name in [n for n in tensors if n.startswith("model.")]:
            tensors["model.language_model." + name.removeprefix("model.")] = tensors.pop(name)

    folder = rewritten("tiny-hybrid", rename)
    text = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3_5", "text_config": text}))
    assert open_source(folder).tensor("layers.0.mlp.up_proj.weight").name == "model.language_model.layers.0.mlp.up_proj.weight"


def test_a_tied_head_that_is_saved_too_is_set_aside(rewritten: Callable[..., Path]) -> None:
    source = open_source(rewritten("tiny", lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()})))
    assert "lm_head.weight (tied to the embedding)" in source.names.said()


def test_the_first_layers_alone(checkpoints: Callable[[str], Path]) -> None:
    folder = checkpoints("tiny-hybrid")
    config = read_config(folder).truncated(2)
    assert Source(config, Checkpoint(folder), partial=True).tensor("layers.1.mlp.up_proj.weight").shape == (256, 128)
    with pytest.raises(CheckpointError, match=r"layers\.2\..*surplus"):
        Source(config, Checkpoint(folder))


@pytest.mark.parametrize("shape", ["tiny", "tiny-hybrid", "tiny-fp8"])
@pytest.mark.parametrize("tp", [1, 4])
def test_parts_are_views_with_contiguous_columns(checkpoints: Callable[[str], Path], shape: str, tp: int) -> None:
    source = open_source(checkpoints(shape))
    for rank in range(tp):
        for name, pieces in shard(source.config, tp, rank).matrices.items():
            for piece in pieces:
                view, whole = part_view(source, piece), source.tensor(piece.tensor)
                assert not view.flags.owndata
                assert view.dtype == (np.uint8 if whole.dtype == "f8_e4m3" else np.uint16)
                assert view.strides == (whole.shape[1] * view.itemsize, view.itemsize), name
                assert np.shares_memory(view, whole.view())
                assert name.rsplit(".", 1)[-1] in ("o", "down", "out") or view.flags.c_contiguous


def test_weight_bytes_are_those_of_the_slices(checkpoints: Callable[[str], Path]) -> None:
    source = open_source(checkpoints("tiny-hybrid"))
    matrices = [t for n, t in source.checkpoint.items() if len(t.shape) == 2 and "embed_tokens" not in n]
    assert source.weight_bytes(1) == source.weight_bytes(2) == sum(t.stop - t.start for t in matrices)
    shared = sum(t.stop - t.start for n, t in source.checkpoint.items() if ".k_proj" in n or ".v_proj" in n)
    assert source.weight_bytes(4) == source.weight_bytes(2) + shared  # each of the 2 KV heads goes to two ranks


def test_vectors_hold_the_multiplier_itself(checkpoints: Callable[[str], Path]) -> None:
    hybrid, dense = open_source(checkpoints("tiny-hybrid")), open_source(checkpoints("tiny"))
    own = shard(hybrid.config, 4, 2)
    for name, plain in [("norm", "norm.weight"), ("layers.3.q_norm", "layers.3.self_attn.q_norm.weight")]:
        np.testing.assert_array_equal(vector_values(hybrid, own, name), 1 + hybrid.vector(plain))
    np.testing.assert_array_equal(
        vector_values(hybrid, own, "layers.0.linear_norm"), hybrid.vector("layers.0.linear_attn.norm.weight")
    )
    np.testing.assert_array_equal(vector_values(hybrid, own, "layers.0.a_log"), hybrid.vector("layers.0.linear_attn.A_log")[4:6])
    np.testing.assert_array_equal(vector_values(dense, shard(dense.config, 1, 0), "norm"), dense.vector("norm.weight"))
    conv, whole = vector_values(hybrid, own, "layers.0.conv"), hybrid.vector("layers.0.linear_attn.conv1d.weight")[:, 0]
    np.testing.assert_array_equal(
        conv, np.concatenate([whole[128:192], whole[256 + 128 : 256 + 192], whole[512 + 256 : 512 + 384]])
    )
    for name in own.vectors:
        values = vector_values(hybrid, own, name)
        assert values.dtype == np.float32
        assert values.flags.c_contiguous


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float8_e8m0fnu, torch.uint8])
def test_scales_come_in_every_spelling(rewritten: Callable[..., Path], stored: torch.dtype) -> None:
    codes = torch.tensor([[120], [121], [127], [128], [1], [2], [3], [200]], dtype=torch.uint8)
    expected = (2.0 ** (codes.float() - 127)).numpy()

    def change(tensors: Tensors) -> None:
        scale = codes if stored == torch.uint8 else codes.view(torch.float8_e8m0fnu)
        tensors[QKV + "_scale_inv"] = (
            scale if stored in (torch.uint8, torch.float8_e8m0fnu) else torch.from_numpy(expected).to(stored)
        )

    scale = open_source(rewritten("tiny-fp8", change)).scale("layers.0.linear_attn.in_proj_qkv.weight")
    assert scale is not None
    assert scale.dtype == np.float32
    np.testing.assert_array_equal(scale, expected)
