"""Every checkpoint that cannot be served, and its message: file, tensor, what was found, what was expected, what to do.

The same table holds for a session that is opened and for the look beforehand, which loads nothing. After a run the messages are
printed with `pytest -rP`.
"""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine import Session, SessionOptions
from engine.admission import Asked, admit
from engine.errors import CheckpointError, ConfigError, EngineError, OutOfMemory

Damage = Callable[[Path], object]
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
UP = "model.layers.0.mlp.up_proj.weight"


def config(**changes: Any) -> Damage:
    """Fields of config.json changed; None takes one away."""

    def damage(folder: Path) -> None:
        body = json.loads((folder / "config.json").read_text()) | changes
        (folder / "config.json").write_text(json.dumps({k: v for k, v in body.items() if v is not None}))

    return damage


def index(change: Callable[[dict[str, str]], object]) -> Damage:
    def damage(folder: Path) -> None:
        body = json.loads((folder / INDEX).read_text())
        change(body["weight_map"])
        (folder / INDEX).write_text(json.dumps(body))

    return damage


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    """All tensors in one file, changed."""

    def damage(folder: Path) -> None:
        held: dict[str, torch.Tensor] = {}
        for path in folder.glob("*.safetensors"):
            held |= load_file(path)
            path.unlink()
        (folder / INDEX).unlink()
        change(held)
        save_file(held, folder / "model.safetensors")

    return damage


def header(change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(folder: Path) -> None:
        raw = (folder / FIRST).read_bytes()
        (length,) = struct.unpack("<Q", raw[:8])
        body = json.loads(raw[8 : 8 + length])
        change(body)
        text = json.dumps(body).encode()
        (folder / FIRST).write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])

    return damage


def cut(bytes_left: int) -> Damage:
    return lambda folder: (folder / FIRST).write_bytes((folder / FIRST).read_bytes()[:bytes_left])


def foreign(content: bytes) -> Damage:
    return lambda folder: (folder / FIRST).write_bytes(content)


def no_weights(folder: Path) -> None:
    for path in (*folder.glob("*.safetensors"), folder / INDEX):
        path.unlink()
    (folder / "model.gguf").write_bytes(b"GGUF")


BAD: dict[str, tuple[str, Damage, type[EngineError], tuple[str, ...]]] = {
    "another family": (
        "tiny", config(model_type="llama", architectures=["LlamaForCausalLM"]), ConfigError,
        ("config.json: model_type: found 'llama'", "LlamaForCausalLM", "served: qwen3, qwen3_5"),
    ),
    "experts": ("tiny-hybrid", config(num_experts=64), ConfigError, ("config.json: num_experts: found 64", "served: dense")),
    "another quantisation": (
        "tiny", config(quantization_config={"quant_method": "awq"}), ConfigError,
        ("quantization_config: quant_method: found 'awq'", "served: 'fp8'"),
    ),
    "other FP8 blocks": (
        "tiny-fp8", config(quantization_config={"quant_method": "fp8", "weight_block_size": [64, 64]}), ConfigError,
        ("weight_block_size: found [64, 64]", "served: [128, 128]"),
    ),
    "no config": (
        "tiny", lambda folder: (folder / "config.json").unlink(), CheckpointError,
        ("config.json: not found", "beside its safetensors files"),
    ),
    "a config cut short": (
        "tiny", lambda folder: (folder / "config.json").write_text('{"model_type": "qw'), CheckpointError,
        ("config.json: not readable as JSON", "download or write the file again"),
    ),
    "a missing tensor": (
        "tiny", tensors(lambda t: t.pop(UP)), CheckpointError,
        ("tensor layers.0.mlp.up_proj.weight: missing in model.safetensors", "expected shape [256, 128]", "from one checkpoint"),
    ),
    "a surplus tensor": (
        "tiny", tensors(lambda t: t.update({"model.layers.0.self_attn.q_proj.bias": torch.zeros(4)})), CheckpointError,
        ("model.safetensors: tensor model.layers.0.self_attn.q_proj.bias: surplus", "a variant with other tensors is not served"),
    ),
    "a wrong shape": (
        "tiny", tensors(lambda t: t.update({UP: torch.zeros(255, 128).bfloat16()})), CheckpointError,
        (f"model.safetensors: tensor {UP}: found shape [255, 128], expected [256, 128]",),
    ),
    "a wrong type": (
        "tiny", tensors(lambda t: t.update({UP: torch.zeros(256, 128, dtype=torch.int8)})), CheckpointError,
        (f"model.safetensors: tensor {UP}: found dtype I8, expected one of BF16, F16, F32, F8_E4M3",),
    ),
    "FP8 without scales": (
        "tiny-fp8", tensors(lambda t: t.pop(UP + "_scale_inv")), CheckpointError,
        (f"model.safetensors: tensor {UP}: found F8_E4M3 without its scales {UP}_scale_inv",),
    ),
    "scales of another grid": (
        "tiny-fp8", tensors(lambda t: t.update({UP + "_scale_inv": torch.ones(4, 1)})), CheckpointError,
        (f"tensor {UP}_scale_inv: found shape [4, 1], expected [2, 1]",),
    ),
    "a file cut in its data": ("tiny", cut(100_000), CheckpointError, (FIRST, ": tensor ", "found ", "expected ", "cut short")),
    "a file cut in its header": ("tiny", cut(200), CheckpointError, (FIRST, "found 200 bytes", "expected a header", "cut short")),
    "an empty file": ("tiny", cut(0), CheckpointError, (FIRST, "found 0 bytes", "cut short: download")),
    "a pickled file": (
        "tiny", foreign(b"PK\x03\x04" + b"\xff" * 64), CheckpointError, (FIRST, "not a safetensors file", "save_pretrained"),
    ),
    "an error page": (
        "tiny", foreign(b"<html>404 Not Found</html>"), CheckpointError, (FIRST, "not a safetensors file", "save_pretrained"),
    ),
    "a pointer of git LFS": (
        "tiny", foreign(b"version https://git-lfs.github.com/spec/v1\n"), CheckpointError, (FIRST, "git lfs pull"),
    ),
    "offsets beside the shape": (
        "tiny", header(lambda h: h["model.norm.weight" if "model.norm.weight" in h else UP].update(shape=[7])), CheckpointError,
        (FIRST, ": tensor ", "found ", "expected 14 for BF16 [7]", "download or write the file again"),
    ),
    "a shard that is not there": (
        "tiny", lambda folder: (folder / SECOND).unlink(), CheckpointError,
        (f"{INDEX}: names {SECOND}", "found no such file", "download what is missing"),
    ),
    "an index of another checkpoint": (
        "tiny", index(lambda m: m.update({"model.layers.9.mlp.up_proj.weight": FIRST})), CheckpointError,
        (f"{INDEX}: tensor model.layers.9.mlp.up_proj.weight: expected in {FIRST}, not found there", "download them again"),
    ),
    "an index that points outside": (
        "tiny", index(lambda m: m.update({UP: "../up.safetensors"})), CheckpointError,
        (f"{INDEX}: tensor {UP}: found file '../up.safetensors', expected the name of a .safetensors file in the same folder",),
    ),
    "no safetensors": (
        "tiny", no_weights, CheckpointError, ("found neither model.safetensors nor", "model.gguf", "save the model with"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("shape", "damage", "kind", "says"), BAD.values(), ids=BAD)
def test_a_bad_checkpoint_is_named(
    copy_of: Callable[[str], Path], shape: str, damage: Damage, kind: type[EngineError], says: tuple[str, ...]
) -> None:
    folder = copy_of(shape)
    damage(folder)
    with pytest.raises(kind) as beforehand:
        admit(str(folder), Asked(tp=1, slots=8, context=48))
    with pytest.raises(kind) as opened:
        Session.open(folder, SessionOptions(mode="batch", context=48))
    assert str(opened.value) == str(beforehand.value)
    message = str(opened.value)
    print(message.replace(str(folder.parent) + "/", ""))
    assert str(folder) in message
    for part in says:
        assert part in message


@pytest.mark.parametrize(
    ("checkpoint", "asked", "kind", "says"),
    [
        ("synthetic:tiny-hybrid", Asked(8, 8, 48), ConfigError, ("tp: found 8", "linear_num_key_heads 4", "work: [1, 2, 4]")),
        ("synthetic:tiny", Asked(3, 8, 48), ConfigError, ("tp: found 3", "num_attention_heads 8", "that work: [1, 2, 4, 8]")),
        ("synthetic:tiny", Asked(1, 8, 50_000), ConfigError, ("context: found 50000", "allows 40960", "lower context")),
        (
            "synthetic:tiny",
            Asked(1, 8, 40_000, available=100_000_000),
            OutOfMemory,
            (
                "needs at least",
                "8 slots of 40000 positions",
                "0.09 GiB are available",
                "lower slots (now 8) or context (now 40000)",
            ),
        ),
        ("synthetic:qwen3.5-27b-fp8", Asked(4, 8, 48, available=8 << 30), OutOfMemory, ("of weights", "a smaller or an FP8")),
        ("synthetic:huge", Asked(1, 8, 48), ConfigError, ("synthetic shape: found 'huge'", "allowed: tiny, tiny-hybrid")),
        ("synthetic:small-hybrid", Asked(1, 8, 48), ConfigError, ("found 'small-hybrid'", "small-fp8, small-dense")),
        ("synthetic:tiny@x", Asked(1, 8, 48), ConfigError, ("seed: found 'x'", "synthetic:tiny@0")),
        ("/no/where", Asked(1, 8, 48), CheckpointError, ("/no/where: no such folder", "give a Hugging Face checkpoint folder")),
    ],
)
def test_what_cannot_be_served_as_asked(checkpoint: str, asked: Asked, kind: type[EngineError], says: tuple[str, ...]) -> None:
    with pytest.raises(kind) as caught:
        admit(checkpoint, asked)
    print(caught.value)
    for part in says:
        assert part in str(caught.value)


@pytest.mark.parametrize("shape", ["tiny", "tiny-hybrid", "tiny-fp8"])
def test_a_sound_one_is_admitted_from_a_folder_and_by_name(checkpoints: Callable[[str], Path], shape: str) -> None:
    for checkpoint in (str(checkpoints(shape)), f"synthetic:{shape}"):
        admit(checkpoint, Asked(tp=4, slots=8, context=48, available=1 << 30))


def test_a_context_larger_than_memory_is_refused_natively_too(checkpoints: Callable[[str], Path]) -> None:
    """With the scratch and the limits of the process's own group, which the look beforehand leaves out."""
    with pytest.raises(OutOfMemory, match=r"lower slots \(now 1024\) or context \(now 40000\)") as caught:
        Session.open(checkpoints("tiny"), SessionOptions(mode="batch", slots=1024, context=40_000))
    print(caught.value)
