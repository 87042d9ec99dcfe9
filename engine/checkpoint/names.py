"""Names and shapes: what a checkpoint of each family must hold, and how its tensors are called on either side.

Three vocabularies meet here. The checkpoint's own names carry a prefix (`model.` or `model.language_model.`); the plain names
are those without it (`layers.3.self_attn.q_proj.weight`); the native names are those of the compiled module (`layers.3.qkv`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.config import FULL, ModelConfig

SCALE_SUFFIX = "_scale_inv"  # of `X.weight`: the block scales of an FP8 weight
_SKIPPED = ("model.visual.", "visual.", "mtp.", "model.mtp.")
_PREFIXES = ("model.language_model.", "language_model.model.", "model.")


@dataclass(frozen=True)
class Names:
    """A checkpoint's tensor names, sorted by what is done with them."""

    plain: dict[str, str]  # plain name -> the checkpoint's name
    skipped: dict[str, int] = field(default_factory=dict)  # prefix -> tensors under it that the text model has no use for

    def said(self) -> str:
        """One line on what is skipped, empty when nothing is."""
        return ", ".join(f"{count} tensors {prefix}*" for prefix, count in sorted(self.skipped.items()))


def sort_names(names: Iterable[str]) -> Names:
    """Strip prefixes and set aside what belongs to the vision tower or to multi-token prediction."""
    plain: dict[str, str] = {}
    skipped: dict[str, int] = {}
    for name in names:
        prefix = next((p for p in _SKIPPED if name.startswith(p)), None)
        if prefix is not None:
            skipped[prefix] = skipped.get(prefix, 0) + 1
        elif name.endswith("rotary_emb.inv_freq"):  # a buffer that old writers saved; computed from rope_theta
            skipped["rotary_emb.inv_freq "] = skipped.get("rotary_emb.inv_freq ", 0) + 1
        else:
            plain[plain_name(name)] = name
    return Names(plain, skipped)


def plain_name(name: str) -> str:
    """`model.language_model.layers.0.x` and `model.layers.0.x` -> `layers.0.x`; `lm_head.weight` stays."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def matrix_shapes(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """Plain name -> [output features, input features] of every weight matrix, the embedding and a separate head among them."""
    hidden = config.hidden_size
    shapes: dict[str, tuple[int, int]] = {"embed_tokens.weight": (config.vocab_size, hidden)}
    for index, kind in enumerate(config.layer_types):
        layer = f"layers.{index}."
        inner = _attention_matrices(config) if kind == FULL else _linear_matrices(config)
        shapes.update({layer + name: shape for name, shape in inner.items()})
        shapes[layer + "mlp.gate_proj.weight"] = (config.intermediate_size, hidden)
        shapes[layer + "mlp.up_proj.weight"] = (config.intermediate_size, hidden)
        shapes[layer + "mlp.down_proj.weight"] = (hidden, config.intermediate_size)
    if not config.tied:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    return shapes


def vector_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Plain name -> shape of every norm, bias, decay and convolution tensor."""
    shapes: dict[str, tuple[int, ...]] = {}
    for index, kind in enumerate(config.layer_types):
        layer = f"layers.{index}."
        shapes[layer + "input_layernorm.weight"] = (config.hidden_size,)
        shapes[layer + "post_attention_layernorm.weight"] = (config.hidden_size,)
        if kind == FULL:
            shapes[layer + "self_attn.q_norm.weight"] = (config.head_dim,)
            shapes[layer + "self_attn.k_norm.weight"] = (config.head_dim,)
        else:
            shapes[layer + "linear_attn.conv1d.weight"] = (_channels(config), 1, config.linear_conv_kernel)
            shapes[layer + "linear_attn.dt_bias"] = (config.linear_num_value_heads,)
            shapes[layer + "linear_attn.A_log"] = (config.linear_num_value_heads,)
            shapes[layer + "linear_attn.norm.weight"] = (config.linear_value_head_dim,)
    shapes["norm.weight"] = (config.hidden_size,)
    return shapes


def may_be_fp8(plain: str) -> bool:
    """Whether a matrix may come in FP8 blocks: any linear may, the embedding table may not."""
    return plain != "embed_tokens.weight"


def _attention_matrices(config: ModelConfig) -> dict[str, tuple[int, int]]:
    queries = config.num_heads * config.head_dim
    keys = config.num_kv_heads * config.head_dim
    return {
        "self_attn.q_proj.weight": (queries * (2 if config.gated else 1), config.hidden_size),
        "self_attn.k_proj.weight": (keys, config.hidden_size),
        "self_attn.v_proj.weight": (keys, config.hidden_size),
        "self_attn.o_proj.weight": (config.hidden_size, queries),
    }


def _linear_matrices(config: ModelConfig) -> dict[str, tuple[int, int]]:
    values = config.linear_num_value_heads * config.linear_value_head_dim
    return {
        "linear_attn.in_proj_qkv.weight": (_channels(config), config.hidden_size),
        "linear_attn.in_proj_z.weight": (values, config.hidden_size),
        "linear_attn.in_proj_b.weight": (config.linear_num_value_heads, config.hidden_size),
        "linear_attn.in_proj_a.weight": (config.linear_num_value_heads, config.hidden_size),
        "linear_attn.out_proj.weight": (config.hidden_size, values),
    }


def _channels(config: ModelConfig) -> int:
    """Channels of the convolution: queries and keys of all key heads, values of all value heads."""
    keys = config.linear_num_key_heads * config.linear_key_head_dim
    return 2 * keys + config.linear_num_value_heads * config.linear_value_head_dim
