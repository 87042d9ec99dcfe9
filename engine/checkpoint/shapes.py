"""Named shapes that synthetic checkpoints can be made in, from a test's size to the model that matters."""

from dataclasses import dataclass, field, replace
from typing import Any

from engine.config import LINEAR, Fp8, ModelConfig, parse_config
from engine.errors import ConfigError

# Modules that FP8 checkpoints of this family leave wide: table, head and the narrow products of the linear layers.
FP8_IGNORED_LINEAR = ("linear_attn.in_proj_a", "linear_attn.in_proj_b")


@dataclass(frozen=True)
class Shape:
    """A synthetic model: what stands in its config.json, and how its tensors are called."""

    name: str
    text: dict[str, Any] = field(repr=False)  # config.json fields of the text model
    fp8: bool = False
    nested: bool = False  # as the multimodal checkpoints have it: text_config, tensors under model.language_model.

    def config_json(self) -> dict[str, Any]:
        """The content of config.json, which transformers reads as well."""
        text = {**_COMMON, **self.text}
        dense = text["model_type"] == "qwen3"
        if self.nested:
            body = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": text}
            body["tie_word_embeddings"] = text["tie_word_embeddings"]
        else:
            body = {"architectures": ["Qwen3ForCausalLM" if dense else "Qwen3_5ForCausalLM"], **text}
        if self.fp8:
            body["quantization_config"] = fp8_json(self.ignored_modules())
        return body

    def config(self) -> ModelConfig:
        """The dimensions, as the engine reads them from that config.json."""
        return parse_config(self.config_json(), where=f"shape {self.name}", name=self.name)

    @property
    def prefix(self) -> str:
        """What stands before a plain tensor name in the checkpoint (not before lm_head)."""
        return "model.language_model." if self.nested else "model."

    def ignored_modules(self) -> list[str]:
        """Modules an FP8 checkpoint of this shape leaves in BF16."""
        config = parse_config({**_COMMON, **self.text}, where=f"shape {self.name}")
        layers = [i for i, kind in enumerate(config.layer_types) if kind == LINEAR]
        return ["lm_head", *(f"{self.prefix}layers.{i}.{module}" for i in layers for module in FP8_IGNORED_LINEAR)]


def fp8_json(ignored: list[str], scale_format: str = "float") -> dict[str, Any]:
    """The quantization_config of a block-quantised checkpoint."""
    body: dict[str, Any] = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    if scale_format != Fp8().scale_format:
        body["scale_fmt"] = scale_format
    return {**body, "modules_to_not_convert": ignored}


def find_shape(name: str) -> Shape:
    """The shape called `name`. Raises ConfigError listing those there are."""
    if name not in SHAPES:
        raise ConfigError(f"synthetic shape: found {name!r}; allowed: {', '.join(SHAPES)}")
    return SHAPES[name]


_COMMON = {
    "dtype": "bfloat16",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "max_position_embeddings": 40960,
    "use_cache": True,
}


def _dense(name: str, **fields: Any) -> Shape:
    rope = {"rope_type": "default", "rope_theta": 1_000_000.0}
    return Shape(name, {"model_type": "qwen3", "tie_word_embeddings": True, "rope_parameters": rope, **fields})


def _hybrid(name: str, **fields: Any) -> Shape:
    layers = fields["num_hidden_layers"]
    kinds = ["full_attention" if (i + 1) % 4 == 0 else "linear_attention" for i in range(layers)]
    third = int(fields["head_dim"] * 0.25) // 6
    sections = [int(fields["head_dim"] * 0.25) // 2 - 2 * third, third, third]
    rope = {
        "rope_type": "default",
        "rope_theta": 10_000_000.0,
        "partial_rotary_factor": 0.25,
        "mrope_section": sections,
        "mrope_interleaved": True,
    }
    common = {"model_type": "qwen3_5_text", "linear_conv_kernel_dim": 4, "layer_types": kinds, "rope_parameters": rope}
    return Shape(name, {**common, "tie_word_embeddings": True, **fields})


def _linear(key_heads: int, value_heads: int, dim: int) -> dict[str, int]:
    return {
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": value_heads,
        "linear_key_head_dim": dim,
        "linear_value_head_dim": dim,
    }


def _attention(heads: int, kv_heads: int, head_dim: int) -> dict[str, int]:
    return {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim}


def _size(vocab: int, hidden: int, intermediate: int, layers: int) -> dict[str, int]:
    return {"vocab_size": vocab, "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers}


_TINY = _dense("tiny", **_size(512, 128, 256, 2), **_attention(8, 4, 32))
_TINY_HYBRID = _hybrid(
    "tiny-hybrid", **_size(512, 128, 256, 4), **_attention(8, 2, 64), **_linear(4, 8, 64), tie_word_embeddings=False
)
_SMALL_DENSE = _dense("small-dense", **_size(32000, 1024, 2816, 8), **_attention(8, 4, 128))
_SMALL = _hybrid("small", **_size(32000, 1024, 2560, 8), **_attention(8, 4, 128), **_linear(4, 8, 128))
_QWEN3_06B = _dense("qwen3-0.6b", **_size(151936, 1024, 3072, 28), **_attention(16, 8, 128))
_QWEN35_08B = _hybrid("qwen3.5-0.8b", **_size(248320, 1024, 3584, 24), **_attention(8, 2, 256), **_linear(16, 16, 128))
_QWEN35_27B = _hybrid(
    "qwen3.5-27b-fp8",
    **_size(248320, 5120, 17408, 64),
    **_attention(24, 4, 256),
    **_linear(16, 48, 128),
    tie_word_embeddings=False,
)

SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        _TINY,
        _TINY_HYBRID,
        replace(_TINY_HYBRID, name="tiny-fp8", fp8=True),
        _SMALL,
        replace(_SMALL, name="small-fp8", fp8=True),
        _SMALL_DENSE,
        _QWEN3_06B,
        replace(_QWEN3_06B, name="qwen3-0.6b-fp8", fp8=True),
        _QWEN35_08B,
        replace(_QWEN35_08B, name="qwen3.5-0.8b-fp8", fp8=True),
        replace(_QWEN35_27B, fp8=True, nested=True),
    )
}
