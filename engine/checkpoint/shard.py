"""Which rank takes which rows and columns of which tensor: pure functions from dimensions to slices.

Rules. A column-parallel product (qkv, gate_up, in_qkv, in_z, in_ba, head) cuts output rows; a row-parallel one (o, down, out)
cuts input columns, and the ranks' partial outputs are summed. Fused products are cut part by part. A query head keeps its gate;
value heads stay with their key head; where there are fewer KV heads than ranks, rank r takes KV head r * kv_heads // tp.
The vocabulary is cut into ceil(V / tp) rows a rank, the last rank taking what is left.
"""

from dataclasses import dataclass

from engine.config import FULL, ModelConfig

Range = tuple[int, int]  # start, stop


@dataclass(frozen=True)
class Slice:
    """A rectangle of one tensor, by its plain name. `cols` None: all of them."""

    tensor: str
    rows: Range
    cols: Range | None = None


@dataclass(frozen=True)
class Shard:
    """Everything one rank takes: native name -> the slices that make it, in order."""

    matrices: dict[str, tuple[Slice, ...]]
    vectors: dict[str, tuple[Slice, ...]]  # rows only; concatenated


def shard(config: ModelConfig, tp: int, rank: int) -> Shard:
    """The slices of `rank` among `tp`. The counts must divide: see engine.config.check_ranks."""
    matrices: dict[str, tuple[Slice, ...]] = {}
    vectors: dict[str, tuple[Slice, ...]] = {}
    for index, kind in enumerate(config.layer_types):
        hf, native = f"layers.{index}.", f"layers.{index}."
        vectors[native + "input_norm"] = (Slice(hf + "input_layernorm.weight", (0, config.hidden_size)),)
        vectors[native + "post_norm"] = (Slice(hf + "post_attention_layernorm.weight", (0, config.hidden_size)),)
        if kind == FULL:
            matrices |= _attention(config, tp, rank, hf + "self_attn.", native)
            for name in ("q_norm", "k_norm"):
                vectors[native + name] = (Slice(f"{hf}self_attn.{name}.weight", (0, config.head_dim)),)
        else:
            matrices |= _linear_attention(config, tp, rank, hf + "linear_attn.", native)
            vectors |= _linear_vectors(config, tp, rank, hf + "linear_attn.", native)
        inner = even_range(config.intermediate_size, tp, rank)
        matrices[native + "gate_up"] = (Slice(hf + "mlp.gate_proj.weight", inner), Slice(hf + "mlp.up_proj.weight", inner))
        matrices[native + "down"] = (Slice(hf + "mlp.down_proj.weight", (0, config.hidden_size), inner),)
    vectors["norm"] = (Slice("norm.weight", (0, config.hidden_size)),)
    head = "embed_tokens.weight" if config.tied else "lm_head.weight"
    matrices["head"] = (Slice(head, vocab_range(config.vocab_size, tp, rank)),)
    return Shard(matrices, vectors)


def even_range(count: int, tp: int, rank: int, width: int = 1) -> Range:
    """The rank's equal share of `count` things that are `width` rows (or columns) each."""
    share = count // tp * width
    return rank * share, (rank + 1) * share


def kv_range(kv_heads: int, tp: int, rank: int, width: int = 1) -> Range:
    """Like even_range, but where ranks outnumber heads each head goes to tp / kv_heads neighbouring ranks."""
    if kv_heads >= tp:
        return even_range(kv_heads, tp, rank, width)
    head = rank * kv_heads // tp
    return head * width, (head + 1) * width


def vocab_range(vocab: int, tp: int, rank: int) -> Range:
    """Rows of the head: ceil(vocab / tp) a rank, the last ones shorter where that does not divide."""
    share = -(-vocab // tp)
    return min(rank * share, vocab), min((rank + 1) * share, vocab)


def qkv_channels(config: ModelConfig, tp: int, rank: int) -> tuple[Range, Range, Range]:
    """Rows of a linear layer's fused q | k | v tensor (and of its convolution) that the rank's key and value heads own."""
    keys = config.linear_num_key_heads * config.linear_key_head_dim
    q = even_range(config.linear_num_key_heads, tp, rank, config.linear_key_head_dim)
    v = even_range(config.linear_num_value_heads, tp, rank, config.linear_value_head_dim)
    return q, (keys + q[0], keys + q[1]), (2 * keys + v[0], 2 * keys + v[1])


def _attention(config: ModelConfig, tp: int, rank: int, hf: str, native: str) -> dict[str, tuple[Slice, ...]]:
    dim = config.head_dim
    queries = even_range(config.num_heads, tp, rank, dim * (2 if config.gated else 1))
    keys = kv_range(config.num_kv_heads, tp, rank, dim)
    return {
        native + "qkv": (
            Slice(hf + "q_proj.weight", queries),
            Slice(hf + "k_proj.weight", keys),
            Slice(hf + "v_proj.weight", keys),
        ),
        native + "o": (Slice(hf + "o_proj.weight", (0, config.hidden_size), even_range(config.num_heads, tp, rank, dim)),),
    }


def _linear_attention(config: ModelConfig, tp: int, rank: int, hf: str, native: str) -> dict[str, tuple[Slice, ...]]:
    heads = even_range(config.linear_num_value_heads, tp, rank)
    values = even_range(config.linear_num_value_heads, tp, rank, config.linear_value_head_dim)
    return {
        native + "in_qkv": tuple(Slice(hf + "in_proj_qkv.weight", rows) for rows in qkv_channels(config, tp, rank)),
        native + "in_z": (Slice(hf + "in_proj_z.weight", values),),
        native + "in_ba": (Slice(hf + "in_proj_b.weight", heads), Slice(hf + "in_proj_a.weight", heads)),
        native + "out": (Slice(hf + "out_proj.weight", (0, config.hidden_size), values),),
    }


def _linear_vectors(config: ModelConfig, tp: int, rank: int, hf: str, native: str) -> dict[str, tuple[Slice, ...]]:
    heads = even_range(config.linear_num_value_heads, tp, rank)
    return {
        native + "conv": tuple(Slice(hf + "conv1d.weight", rows) for rows in qkv_channels(config, tp, rank)),
        native + "dt_bias": (Slice(hf + "dt_bias", heads),),
        native + "a_log": (Slice(hf + "A_log", heads),),
        native + "linear_norm": (Slice(hf + "norm.weight", (0, config.linear_value_head_dim)),),
    }
