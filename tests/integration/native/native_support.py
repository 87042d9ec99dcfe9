"""A tiny random model, given to the native engine tensor by tensor without a checkpoint, and what its tests share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.binding import native

Bf16 = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]
DEADLINE_S = 60.0
MakeEngine = Callable[..., Any]


def to_bf16(values: npt.NDArray[np.floating[Any]]) -> Bf16:
    """The upper halves of the float32 values: truncated, which is good enough for random weights."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@dataclass(frozen=True)
class Model:
    """Dimensions and full, unsharded weights. Matrices are bfloat16 by name, vectors float32."""

    config: dict[str, Any]
    matrices: dict[str, list[Bf16]] = field(repr=False)  # parts
    vectors: dict[str, Floats] = field(repr=False)
    embed: Bf16 = field(repr=False)

    def load(self, engine: Any, tp: int, *, skip: Sequence[str] = ()) -> None:
        """Gives the engine every rank's slices but those of the names in `skip`, and finishes loading."""
        for rank in range(tp):
            for name, parts in self.matrices.items():
                slices = [self._slice(name, index, part, rank, tp) for index, part in enumerate(parts)]
                if name not in skip and slices[0].size > 0:
                    engine.set_matrix(rank, name, [native().MatrixPart(part, "bf16") for part in slices])
            for name, values in self.vectors.items():
                if name not in skip:
                    engine.set_vector(rank, name, self._slice_vector(name, values, rank, tp))
        if "embed" not in skip:
            engine.set_embedding(self.embed, "bf16")
        engine.finish_loading()

    def _slice(self, name: str, index: int, part: Bf16, rank: int, tp: int) -> Bf16:
        rows, cols = part.shape
        kind = name.rpartition(".")[2]
        if kind == "head":
            block = -(-rows // tp)
            return part[min(rank * block, rows) : min((rank + 1) * block, rows)]
        if kind in ("o", "down", "out"):
            return part[:, rank * cols // tp : (rank + 1) * cols // tp]
        if kind == "qkv" and index > 0 and self.config["num_kv_heads"] < tp:
            head = rank * self.config["num_kv_heads"] // tp
            return part[head * self.config["head_dim"] : (head + 1) * self.config["head_dim"]]
        return part[rank * rows // tp : (rank + 1) * rows // tp]

    def _slice_vector(self, name: str, values: Floats, rank: int, tp: int) -> Floats:
        kind = name.rpartition(".")[2]
        if kind in ("dt_bias", "a_log"):
            return np.split(values, tp)[rank]
        if kind == "conv":
            keys = self.config["linear_num_key_heads"] * self.config["linear_key_head_dim"]
            parts = np.split(values, [keys, 2 * keys])
            return np.concatenate([np.split(part, tp)[rank] for part in parts])
        return values


def build(family: str, layer_types: Sequence[str], *, seed: int = 0, vocab_size: int = 509, num_kv_heads: int = 4) -> Model:
    """A random model of `family`: hidden 64, 4 heads of 32; linear layers with 4 key and 8 value heads of 16."""
    random = np.random.default_rng(seed)
    hidden, inner, heads, head_dim = 64, 128, 4, 32
    config: dict[str, Any] = {
        "family": family,
        "vocab_size": vocab_size,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_layers": len(layer_types),
        "num_heads": heads,
        "num_kv_heads": num_kv_heads,
        "head_dim": head_dim,
        "rotary_dim": head_dim if family == "qwen3" else head_dim // 2,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "layer_types": list(layer_types),
    }
    key_heads, value_heads, dim, kernel = 4, 8, 16, 4
    if "linear_attention" in layer_types:
        config |= {"linear_num_key_heads": key_heads, "linear_num_value_heads": value_heads, "linear_conv_kernel": kernel}
        config |= {"linear_key_head_dim": dim, "linear_value_head_dim": dim}

    def matrix(rows: int, cols: int) -> Bf16:
        return to_bf16(random.standard_normal((rows, cols)) * 2.0 / np.sqrt(cols))

    def vector(*shape: int) -> Floats:
        return (1.0 + 0.1 * random.standard_normal(shape)).astype(np.float32)

    matrices: dict[str, list[Bf16]] = {"head": [matrix(vocab_size, hidden)]}
    vectors: dict[str, Floats] = {"norm": vector(hidden)}
    for layer, kind in enumerate(layer_types):
        name = f"layers.{layer}."
        vectors |= {name + "input_norm": vector(hidden), name + "post_norm": vector(hidden)}
        matrices[name + "gate_up"] = [matrix(inner, hidden), matrix(inner, hidden)]
        matrices[name + "down"] = [matrix(hidden, inner)]
        if kind == "full_attention":
            queries = heads * head_dim * (1 if family == "qwen3" else 2)
            kv = num_kv_heads * head_dim
            matrices[name + "qkv"] = [matrix(queries, hidden), matrix(kv, hidden), matrix(kv, hidden)]
            matrices[name + "o"] = [matrix(hidden, heads * head_dim)]
            vectors |= {name + "q_norm": vector(head_dim), name + "k_norm": vector(head_dim)}
        else:
            keys, values = key_heads * dim, value_heads * dim
            matrices[name + "in_qkv"] = [matrix(keys, hidden), matrix(keys, hidden), matrix(values, hidden)]
            matrices[name + "in_z"] = [matrix(values, hidden)]
            matrices[name + "in_ba"] = [matrix(value_heads, hidden), matrix(value_heads, hidden)]
            matrices[name + "out"] = [matrix(hidden, values)]
            vectors |= {name + "conv": vector(2 * keys + values, kernel), name + "dt_bias": vector(value_heads)}
            vectors |= {name + "a_log": vector(value_heads), name + "linear_norm": vector(dim)}
    return Model(config, matrices, vectors, to_bf16(random.standard_normal((vocab_size, hidden))))


def prompts_of(lengths: Sequence[int], *, seed: int = 1, vocab_size: int = 509) -> list[npt.NDArray[np.int32]]:
    """Random prompts of these lengths."""
    random = np.random.default_rng(seed)
    return [random.integers(0, vocab_size, length, dtype=np.int32) for length in lengths]


def results(requests: Sequence[Any]) -> list[tuple[list[int], str | None]]:
    """Tokens and finish reason of each request, once done."""
    for request in requests:
        assert request.wait(DEADLINE_S), f"request {request.id} is {request.state} after {DEADLINE_S} s"
    return [(request.tokens(), request.finish_reason) for request in requests]


def assert_adds_up(stats: dict[str, Any]) -> None:
    """The identities that hold at every moment."""
    outcomes = stats["finished"] + stats["cancelled"] + stats["closed"] + stats["failed"]
    assert stats["submitted"] == stats["refused"] + stats["waiting"] + stats["dropped"] + stats["admitted"], stats
    assert stats["admitted"] + stats["dropped"] == stats["running"] + outcomes, stats
    assert stats["steps"] == stats["prefill_steps"] + stats["decode_steps"], stats
    assert stats["peak_running"] >= stats["running"], stats
    assert stats["peak_waiting"] >= stats["waiting"], stats
