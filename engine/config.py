"""A checkpoint's config.json as the engine sees it: the dimensions of one of two families, or an error that names the field.

Families: `qwen3` (dense, Qwen3ForCausalLM) and `qwen3_5` (Gated DeltaNet hybrid, the text part of Qwen3.5).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from engine.errors import CheckpointError, ConfigError
from engine.options import MOST_RANKS

Family = Literal["qwen3", "qwen3_5"]
FULL = "full_attention"
LINEAR = "linear_attention"
FP8_BLOCK = 128
_FAMILY_OF_TYPE: dict[str, Family] = {"qwen3": "qwen3", "qwen3_5": "qwen3_5", "qwen3_5_text": "qwen3_5"}


@dataclass(frozen=True)
class Fp8:
    """Block-quantised weights: FP8 E4M3 with one scale a 128 x 128 block."""

    ignored: tuple[str, ...] = ()  # modules left unquantised, as the checkpoint names them
    scale_format: Literal["float", "ue8m0"] = "float"


@dataclass(frozen=True)
class ModelConfig:
    """Dimensions of the whole model, in elements, heads or layers."""

    family: Family
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rotary_dim: int  # leading dimensions of a head that rotate
    rope_theta: float
    rms_norm_eps: float
    layer_types: tuple[str, ...]  # FULL or LINEAR, one a layer
    tied: bool  # the head is the embedding table
    max_positions: int
    linear_num_key_heads: int = 0
    linear_num_value_heads: int = 0
    linear_key_head_dim: int = 0
    linear_value_head_dim: int = 0
    linear_conv_kernel: int = 0
    fp8: Fp8 | None = None
    name: str = ""
    eos_token_ids: tuple[int, ...] = ()

    @property
    def gated(self) -> bool:
        """Whether full attention carries an output gate beside each query head."""
        return self.family == "qwen3_5"

    @property
    def norm_offset(self) -> float:
        """What is added to a stored norm weight to make the multiplier (the gated norm of linear layers stays plain)."""
        return 1.0 if self.family == "qwen3_5" else 0.0

    def truncated(self, layers: int) -> "ModelConfig":
        """The same model with its first `layers` layers only: what the head says of an inner hidden state."""
        return replace(self, num_layers=layers, layer_types=self.layer_types[:layers])

    def native_fields(self) -> dict[str, Any]:
        """Keyword arguments of the native ModelConfig."""
        ours = ("tied", "max_positions", "fp8", "name", "eos_token_ids")
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ours}


def read_config(folder: Path) -> ModelConfig:
    """Read `folder`/config.json.

    Raises CheckpointError when there is no readable file, ConfigError when the engine cannot serve what it describes.
    """
    path = folder / "config.json"
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder; give a Hugging Face checkpoint folder or synthetic:<shape>[@seed]")
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: not found; a checkpoint folder holds config.json beside its safetensors files") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: not readable as JSON ({error}); download or write the file again") from error
    if not isinstance(body, dict):
        raise CheckpointError(f"{path}: found a JSON {type(body).__name__}, expected an object with model_type")
    return parse_config(body, str(path), name=folder.name)


def parse_config(body: Mapping[str, Any], where: str = "config.json", name: str = "") -> ModelConfig:
    """Parse the content of a config.json; `where` names it in errors. Raises ConfigError."""
    kind = body.get("model_type")
    if kind not in _FAMILY_OF_TYPE:
        raise ConfigError(
            f"{where}: model_type: found {kind!r} (architectures {body.get('architectures')!r}); served: qwen3, qwen3_5"
        )
    text = body
    if isinstance(body.get("text_config"), Mapping):
        text = {**body["text_config"]}
        where = f"{where}: text_config"
        text.setdefault("tie_word_embeddings", body.get("tie_word_embeddings", False))
        inner = text.get("model_type", "qwen3_5_text")
        if inner != "qwen3_5_text":
            raise ConfigError(f"{where}: model_type: found {inner!r}; served: qwen3_5_text")
    checked = _Fields(text, where)
    family = _FAMILY_OF_TYPE[kind]
    _refuse_unsupported(checked, family)
    dimensions = _attention_part(checked, family)
    if family == "qwen3_5":
        dimensions |= _linear_part(checked)
    eos = text.get("eos_token_id", body.get("eos_token_id"))
    eos_ids = tuple(eos) if isinstance(eos, list) else () if eos is None else (int(eos),)
    fp8 = _fp8_part(body.get("quantization_config", text.get("quantization_config")), where)
    return ModelConfig(family=family, **dimensions, fp8=fp8, name=name, eos_token_ids=eos_ids)


def check_ranks(config: ModelConfig, tp: int) -> None:
    """Whether `tp` ranks can share the model. Raises ConfigError naming every count that `tp` does not divide."""
    if faults := _rank_faults(config, tp):
        works = [ranks for ranks in range(1, MOST_RANKS + 1) if not _rank_faults(config, ranks)]
        raise ConfigError(f"option tp: found {tp}, which does not divide {'; '.join(faults)}; ranks that work: {works}")


def check_context(config: ModelConfig, context: int) -> None:
    """Whether the model knows `context` positions. Raises ConfigError."""
    if context > config.max_positions:
        raise ConfigError(
            f"option context: found {context}; the model's max_position_embeddings allows {config.max_positions}: lower context"
        )


def _rank_faults(config: ModelConfig, tp: int) -> list[str]:
    counts = {"num_attention_heads": config.num_heads, "intermediate_size": config.intermediate_size}
    if LINEAR in config.layer_types:
        counts["linear_num_key_heads"] = config.linear_num_key_heads
        counts["linear_num_value_heads"] = config.linear_num_value_heads
    faults = [f"{name} {count}" for name, count in counts.items() if count % tp]
    if config.num_kv_heads % tp and tp % config.num_kv_heads:
        faults.append(f"num_key_value_heads {config.num_kv_heads} (must divide tp or be divided by it)")
    if -(-config.vocab_size // tp) * (tp - 1) >= config.vocab_size:
        faults.append(f"vocab_size {config.vocab_size} (leaves the last rank without a row)")
    return faults


class _Fields:
    """A config's fields with errors that name the file and the field."""

    def __init__(self, body: Mapping[str, Any], where: str) -> None:
        self.body = body
        self.where = where

    def positive(self, name: str, default: int | None = None) -> int:
        value = self.body.get(name, default)
        if value is None:
            raise ConfigError(f"{self.where}: {name}: missing; expected a whole number above 0")
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise ConfigError(f"{self.where}: {name}: found {value!r}; expected a whole number above 0")
        return value

    def number(self, name: str, default: float | None = None, body: Mapping[str, Any] | None = None) -> float:
        value = (self.body if body is None else body).get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise ConfigError(f"{self.where}: {name}: found {value!r}; expected a number above 0")
        return float(value)

    def expect(self, name: str, allowed: tuple[Any, ...], reason: str) -> None:
        value = self.body.get(name, allowed[0])
        if value not in allowed:
            raise ConfigError(f"{self.where}: {name}: found {value!r}; served: {', '.join(repr(a) for a in allowed)} ({reason})")


def _refuse_unsupported(fields: _Fields, family: Family) -> None:
    fields.expect("hidden_act", ("silu",), "the MLP is SwiGLU")
    fields.expect("attention_bias", (False, None), "projections carry no bias")
    if fields.body.get("use_sliding_window") and fields.body.get("sliding_window"):
        fields.expect("use_sliding_window", (False,), "attention spans the whole context")
    if family == "qwen3_5":
        fields.expect("attn_output_gate", (True,), "full attention is gated")
    if fields.body.get("num_experts"):
        raise ConfigError(f"{fields.where}: num_experts: found {fields.body['num_experts']!r}; served: dense MLPs only")


def _attention_part(fields: _Fields, family: Family) -> dict[str, Any]:
    heads = fields.positive("num_attention_heads")
    kv_heads = fields.positive("num_key_value_heads", heads)
    if heads % kv_heads:
        raise ConfigError(
            f"{fields.where}: num_key_value_heads: found {kv_heads}; expected a divisor of num_attention_heads {heads}"
        )
    hidden = fields.positive("hidden_size")
    default_dim = hidden // heads if family == "qwen3" and not hidden % heads else None
    head_dim = fields.positive("head_dim", default_dim)
    theta, rotary_dim = _rope(fields, family, head_dim)
    layers = fields.positive("num_hidden_layers")
    return {
        "vocab_size": fields.positive("vocab_size"),
        "hidden_size": hidden,
        "intermediate_size": fields.positive("intermediate_size"),
        "num_layers": layers,
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "head_dim": head_dim,
        "rotary_dim": rotary_dim,
        "rope_theta": theta,
        "rms_norm_eps": fields.number("rms_norm_eps", 1e-6),
        "layer_types": _layer_types(fields, family, layers),
        "tied": bool(fields.body.get("tie_word_embeddings", False)),
        "max_positions": fields.positive("max_position_embeddings", 32768),
    }


def _rope(fields: _Fields, family: Family, head_dim: int) -> tuple[float, int]:
    rope = fields.body.get("rope_parameters") or fields.body.get("rope_scaling") or {}
    if not isinstance(rope, Mapping):
        raise ConfigError(f"{fields.where}: rope_parameters: found {rope!r}; expected an object with rope_theta")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in ("default", "mrope"):  # on text the three position axes of mrope are equal: plain RoPE
        raise ConfigError(f"{fields.where}: rope_parameters: rope_type: found {kind!r}; served: 'default' (no context scaling)")
    merged = {
        key: value
        for key in ("rope_theta", "partial_rotary_factor")
        if (value := rope.get(key, fields.body.get(key))) is not None
    }
    if "rope_theta" not in merged:
        raise ConfigError(f"{fields.where}: rope_theta: missing, as a field and in rope_parameters; expected a number above 0")
    theta = fields.number("rope_theta", body=merged)
    factor = fields.number("partial_rotary_factor", 0.25 if family == "qwen3_5" else 1.0, body=merged)
    rotary_dim = int(head_dim * factor)
    if not 0 < rotary_dim <= head_dim or rotary_dim % 2:
        raise ConfigError(
            f"{fields.where}: partial_rotary_factor: found {factor}, which rotates {rotary_dim} of {head_dim} "
            "dimensions; expected an even count above 0"
        )
    return theta, rotary_dim


def _layer_types(fields: _Fields, family: Family, layers: int) -> tuple[str, ...]:
    given = fields.body.get("layer_types")
    if given is None:
        if family == "qwen3":
            return (FULL,) * layers
        interval = fields.positive("full_attention_interval", 4)
        return tuple(FULL if (i + 1) % interval == 0 else LINEAR for i in range(layers))
    if not isinstance(given, list) or len(given) != layers:
        size = len(given) if isinstance(given, list) else given
        raise ConfigError(f"{fields.where}: layer_types: found {size!r} entries; expected {layers}, one a layer")
    allowed = (FULL,) if family == "qwen3" else (FULL, LINEAR)
    for index, kind in enumerate(given):
        if kind not in allowed:
            raise ConfigError(f"{fields.where}: layer_types[{index}]: found {kind!r}; served: {', '.join(allowed)}")
    return tuple(given)


def _linear_part(fields: _Fields) -> dict[str, int]:
    part = {
        "linear_num_key_heads": fields.positive("linear_num_key_heads"),
        "linear_num_value_heads": fields.positive("linear_num_value_heads"),
        "linear_key_head_dim": fields.positive("linear_key_head_dim"),
        "linear_value_head_dim": fields.positive("linear_value_head_dim"),
        "linear_conv_kernel": fields.positive("linear_conv_kernel_dim", 4),
    }
    if part["linear_num_value_heads"] % part["linear_num_key_heads"]:
        raise ConfigError(
            f"{fields.where}: linear_num_value_heads: found {part['linear_num_value_heads']}; "
            f"expected a multiple of linear_num_key_heads {part['linear_num_key_heads']}"
        )
    return part


def _fp8_part(body: Any, where: str) -> Fp8 | None:
    if body is None:
        return None
    where = f"{where}: quantization_config"
    if not isinstance(body, Mapping):
        raise ConfigError(f"{where}: found {body!r}; expected an object with quant_method")
    fields = _Fields(body, where)
    fields.expect("quant_method", ("fp8",), "weights are BF16, F16, F32 or FP8 blocks")
    if body.get("quant_method") is None:
        raise ConfigError(f"{where}: quant_method: missing; served: 'fp8'")
    fields.expect("fmt", ("e4m3",), "FP8 weights are E4M3")
    fields.expect("activation_scheme", ("dynamic",), "activations stay BF16; there is no use for static activation scales")
    block = body.get("weight_block_size")
    if block != [FP8_BLOCK, FP8_BLOCK]:
        raise ConfigError(f"{where}: weight_block_size: found {block!r}; served: [{FP8_BLOCK}, {FP8_BLOCK}]")
    ignored = body.get("modules_to_not_convert") or body.get("ignored_layers") or ()
    fields.expect("scale_fmt", ("float", "ue8m0", None), "block scales are float32 or powers of two")
    return Fp8(tuple(ignored), body.get("scale_fmt") or "float")
