"""config.json in the spellings that exist, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForImageTextToText, Qwen3_5TextConfig, Qwen3Config

from engine.checkpoint.names import matrix_shapes, plain_name, sort_names, vector_shapes
from engine.checkpoint.shapes import SHAPES, find_shape
from engine.config import check_ranks, parse_config, read_config
from engine.errors import CheckpointError, ConfigError

DENSE = find_shape("tiny").config_json()
HYBRID = find_shape("tiny-hybrid").config_json()


def without(body: dict[str, Any], *names: str, **changes: Any) -> dict[str, Any]:
    return {**{k: v for k, v in body.items() if k not in names}, **changes}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_transformers_reads_our_config_as_we_do(shape: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(shape.config_json()))
    theirs = AutoConfig.from_pretrained(tmp_path).get_text_config()
    ours = read_config(tmp_path)
    assert ours.layer_types == tuple(theirs.layer_types)
    assert ours.rope_theta == theirs.rope_parameters["rope_theta"]
    assert ours.rotary_dim == int(theirs.head_dim * theirs.rope_parameters.get("partial_rotary_factor", 1.0))
    for mine, field in [
        ("vocab_size", "vocab_size"),
        ("hidden_size", "hidden_size"),
        ("num_layers", "num_hidden_layers"),
        ("num_heads", "num_attention_heads"),
        ("num_kv_heads", "num_key_value_heads"),
        ("head_dim", "head_dim"),
        ("tied", "tie_word_embeddings"),
    ]:
        assert getattr(ours, mine) == getattr(theirs, field), field


@pytest.mark.parametrize("config", [Qwen3Config(), Qwen3_5TextConfig()], ids=["qwen3", "qwen3_5"])
def test_configs_that_transformers_saves_are_read(config: Any, tmp_path: Path) -> None:
    config.save_pretrained(tmp_path)
    assert read_config(tmp_path).layer_types == tuple(config.layer_types)


def test_both_spellings_of_rope_theta() -> None:
    old = without(DENSE, "rope_parameters", rope_theta=1_000_000.0, rope_scaling=None)
    assert parse_config(old) == parse_config(DENSE)
    with pytest.raises(ConfigError, match="rope_theta: missing"):
        parse_config(without(DENSE, "rope_parameters"))


def test_layer_types_or_interval() -> None:
    assert parse_config(without(HYBRID, "layer_types", full_attention_interval=4)) == parse_config(HYBRID)
    assert parse_config(without(HYBRID, "layer_types")) == parse_config(HYBRID)


def test_nested_text_config() -> None:
    body = {"model_type": "qwen3_5", "text_config": HYBRID, "vision_config": {"depth": 2}, "tie_word_embeddings": True}
    assert parse_config(body) == parse_config(HYBRID)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
            "model_type: found 'llama'.*LlamaForCausalLM.*served: qwen3",
        ),
        ({}, "model_type: found None"),
        (without(DENSE, hidden_act="gelu"), "hidden_act: found 'gelu'; served: 'silu'"),
        (without(DENSE, attention_bias=True), "attention_bias: found True"),
        (without(DENSE, use_sliding_window=True, sliding_window=4096), "use_sliding_window: found True"),
        (without(DENSE, hidden_size="128"), "hidden_size: found '128'; expected a whole number"),
        (without(DENSE, "vocab_size"), "vocab_size: missing"),
        (without(DENSE, num_key_value_heads=3), "num_key_value_heads: found 3; expected a divisor of num_attention_heads 8"),
        (without(DENSE, rope_parameters={"rope_type": "yarn", "rope_theta": 1e4}), "rope_type: found 'yarn'"),
        (without(DENSE, layer_types=["full_attention"]), "layer_types: found 1 entries; expected 2"),
        (without(DENSE, layer_types=["full_attention", "sliding_attention"]), r"layer_types\[1\]: found 'sliding_attention'"),
        (without(DENSE, quantization_config={"quant_method": "gptq"}), "quant_method: found 'gptq'; served: 'fp8'"),
        (without(DENSE, quantization_config={"quant_method": "fp8"}), "weight_block_size: found None"),
        (
            without(HYBRID, linear_num_value_heads=6),
            "linear_num_value_heads: found 6; expected a multiple of linear_num_key_heads 4",
        ),
        (without(HYBRID, attn_output_gate=False), "attn_output_gate: found False"),
        (without(HYBRID, num_experts=8), "num_experts: found 8"),
    ],
)
def test_what_cannot_be_served_is_named(body: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(body)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        read_config(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"config\.json: not found"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json: not readable as JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match="found a JSON list"):
        read_config(tmp_path)


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("tp", [1, 2, 4])
def test_the_shapes_we_measure_divide(shape: str, tp: int) -> None:
    check_ranks(find_shape(shape).config(), tp)


def test_indivisible_counts_are_all_named() -> None:
    with pytest.raises(
        ConfigError, match=r"tp: found 3.*num_attention_heads 8; intermediate_size 256; num_key_value_heads 4.*\[1, 2, 4, 8\]$"
    ):
        check_ranks(find_shape("tiny").config(), 3)
    with pytest.raises(ConfigError, match=r"linear_num_key_heads 4.*work: \[1, 2, 4\]"):
        check_ranks(find_shape("tiny-hybrid").config(), 8)


def test_the_27b_tensor_list_is_the_one_transformers_has(tmp_path: Path) -> None:
    """Names and shapes of the real architecture's own classes, on the meta device, against what our loader expects."""
    shape = find_shape("qwen3.5-27b-fp8")
    body = without(shape.config_json(), "quantization_config")
    (tmp_path / "config.json").write_text(json.dumps(body))
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(tmp_path))
    theirs = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    names = sort_names(theirs)
    assert set(names.skipped) == {"model.visual."}
    ours = {**matrix_shapes(shape.config()), **vector_shapes(shape.config())}
    assert {plain: theirs[name] for plain, name in names.plain.items()} == ours
    assert len(ours) > 800


def test_prefixes() -> None:
    assert plain_name("model.language_model.layers.0.mlp.up_proj.weight") == "layers.0.mlp.up_proj.weight"
    assert plain_name("model.norm.weight") == "norm.weight"
    assert plain_name("lm_head.weight") == "lm_head.weight"
    names = sort_names(["model.visual.blocks.0.x", "mtp.fc.weight", "mtp.norm.weight", "model.norm.weight"])
    assert names.plain == {"norm.weight": "model.norm.weight"}
    assert names.said() == "1 tensors model.visual.*, 2 tensors mtp.*"
