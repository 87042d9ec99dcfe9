"""A plain forward pass of both families in torch float32, straight from a checkpoint: what the native engine is checked against.

Written to be read beside the papers, not to be fast. Needs torch (the `reference` extra), which a measuring process never loads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor

from engine.checkpoint.index import Checkpoint
from engine.checkpoint.load import Source
from engine.config import FULL, ModelConfig, read_config


@dataclass(frozen=True)
class Output:
    """What the reference makes of one prompt."""

    logits: npt.NDArray[np.float32]  # [tokens, vocabulary]
    hidden: tuple[npt.NDArray[np.float32], ...]  # after the embedding and after each layer, [tokens, hidden]; empty unless kept


class Reference:
    """The model of one checkpoint. Weights are widened one layer at a time, so that a large one needs little memory.

    With `rounded` the inputs of products and the cached keys and values are rounded to BF16, as the native engine has them, and
    all else stays float32: the engine's own arithmetic, so that what is left between the two is the order of sums.
    """

    def __init__(self, source: Source, *, rounded: bool = False) -> None:
        self._source = source
        self._config = source.config
        self._narrow = to_bf16 if rounded else unchanged

    @classmethod
    def open(cls, folder: str | Path, *, rounded: bool = False) -> "Reference":
        """Open a checkpoint folder. Raises CheckpointError or ConfigError."""
        path = Path(folder)
        return cls(Source(read_config(path), Checkpoint(path)), rounded=rounded)

    def forward(self, prompts: Sequence[Sequence[int]], *, keep_hidden: bool = False) -> list[Output]:
        """Run each prompt by itself, every position at once."""
        with torch.inference_mode():
            table = self._matrix("embed_tokens.weight")
            states = [table[torch.tensor(list(prompt))] for prompt in prompts]
            kept: list[list[Tensor]] = [[state] for state in states]
            for index in range(self._config.num_layers):
                layer = self._layer(index)
                states = [layer(state) for state in states]
                for history, state in zip(kept, states, strict=True):
                    history.append(state)
            logits = [self._read_out(state) for state in states]
        hidden = [tuple(s.numpy() for s in history) if keep_hidden else () for history in kept]
        return [Output(out.numpy(), inner) for out, inner in zip(logits, hidden, strict=True)]

    def read_out(self, hidden: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Final norm and head on a hidden state [tokens, hidden]: logits [tokens, vocabulary], of an inner layer too."""
        with torch.inference_mode():
            out: npt.NDArray[np.float32] = self._read_out(torch.from_numpy(hidden)).numpy()
            return out

    def _read_out(self, hidden: Tensor) -> Tensor:
        head = "embed_tokens.weight" if self._config.tied else "lm_head.weight"
        return self._input(hidden, "norm.weight") @ self._matrix(head).T

    def _layer(self, index: int) -> Callable[[Tensor], Tensor]:
        name = f"layers.{index}."
        full = self._config.layer_types[index] == FULL
        mix = self._attention(name + "self_attn.") if full else self._delta_net(name + "linear_attn.")
        gate, up, down = (self._matrix(f"{name}mlp.{part}_proj.weight") for part in ("gate", "up", "down"))

        def run(x: Tensor) -> Tensor:
            x = x + mix(self._input(x, name + "input_layernorm.weight"))
            inner = self._input(x, name + "post_attention_layernorm.weight")
            return x + self._narrow(F.silu(inner @ gate.T) * (inner @ up.T)) @ down.T

        return run

    def _attention(self, name: str) -> Callable[[Tensor], Tensor]:
        config = self._config
        wq, wk, wv, wo = (self._matrix(f"{name}{part}_proj.weight") for part in "qkvo")

        def run(x: Tensor) -> Tensor:
            tokens, dim = x.shape[0], config.head_dim
            q = (x @ wq.T).view(tokens, config.num_heads, -1)
            gate = q[..., dim:]  # beside its query head; empty where the family has none
            cos, sin = rotation(config, tokens)
            q = rotate(self._norm(q[..., :dim], name + "q_norm.weight"), cos, sin)
            k = self._narrow(rotate(self._norm((x @ wk.T).view(tokens, -1, dim), name + "k_norm.weight"), cos, sin))
            v = self._narrow((x @ wv.T).view(tokens, -1, dim))
            out = causal_attention(q, k, v)
            if config.gated:
                out = out * torch.sigmoid(gate)
            return self._narrow(out.reshape(tokens, -1)) @ wo.T

        return run

    def _delta_net(self, name: str) -> Callable[[Tensor], Tensor]:
        config = self._config
        qkv, z, b, a = (self._matrix(f"{name}in_proj_{part}.weight") for part in ("qkv", "z", "b", "a"))
        out_proj, conv = self._matrix(name + "out_proj.weight"), self._vector(name + "conv1d.weight")
        dt_bias, a_log, norm = (self._vector(name + part) for part in ("dt_bias", "A_log", "norm.weight"))
        keys = config.linear_num_key_heads * config.linear_key_head_dim

        def run(x: Tensor) -> Tensor:
            tokens = x.shape[0]
            padded = F.pad((x @ qkv.T).T[None], (config.linear_conv_kernel - 1, 0))
            mixed = F.silu(F.conv1d(padded, conv, groups=conv.shape[0]))[0].T
            q, k = (part.reshape(tokens, -1, config.linear_key_head_dim) for part in mixed[:, : 2 * keys].chunk(2, dim=1))
            v = mixed[:, 2 * keys :].reshape(tokens, -1, config.linear_value_head_dim)
            repeat = config.linear_num_value_heads // config.linear_num_key_heads
            q, k = (unit(part).repeat_interleave(repeat, dim=1) for part in (q, k))
            decay = torch.exp(-torch.exp(a_log) * F.softplus(x @ a.T + dt_bias))
            core = delta_rule(q * config.linear_key_head_dim**-0.5, k, v, decay, torch.sigmoid(x @ b.T))
            gate = (x @ z.T).view_as(core)
            gated = rms(core, config.rms_norm_eps) * norm * F.silu(gate)
            return self._narrow(gated.reshape(tokens, -1)) @ out_proj.T

        return run

    def _input(self, x: Tensor, name: str) -> Tensor:
        """The normed input of the next products."""
        return self._narrow(self._norm(x, name))

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return rms(x, self._config.rms_norm_eps) * (self._vector(name) + self._config.norm_offset)

    def _vector(self, name: str) -> Tensor:
        return torch.from_numpy(np.array(self._source.vector(name)))

    def _matrix(self, name: str) -> Tensor:
        return torch.from_numpy(np.array(self._source.matrix(name)))


def to_bf16(x: Tensor) -> Tensor:
    """Round to the nearest BF16 value, in float32."""
    return x.to(torch.bfloat16).to(torch.float32)


def unchanged(x: Tensor) -> Tensor:
    """Keep x as it is."""
    return x


def rms(x: Tensor, eps: float) -> Tensor:
    """Divide x by the root of the mean square of its last dimension."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def unit(x: Tensor) -> Tensor:
    """Divide x by its length, in the last dimension."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def rotation(config: ModelConfig, tokens: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of positions 0.. [tokens, 1, rotary_dim / 2]."""
    inverse = config.rope_theta ** -(torch.arange(0, config.rotary_dim, 2, dtype=torch.float32) / config.rotary_dim)
    angles = (torch.arange(tokens, dtype=torch.float32)[:, None] * inverse)[:, None]
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE on the leading dimensions of each head of x [tokens, heads, dim], half against half."""
    half = cos.shape[-1]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), dim=-1)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention of q [tokens, heads, dim] over k, v [tokens, kv_heads, dim], up to each position itself."""
    tokens, heads, dim = q.shape
    k, v = (part.repeat_interleave(heads // part.shape[1], dim=1) for part in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) * dim**-0.5
    later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(later, float("-inf")).softmax(-1), v)


def delta_rule(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """Gated delta rule, token by token: q, k [tokens, heads, key_dim], v [.., value_dim], decay, beta [tokens, heads]."""
    state = torch.zeros(q.shape[1], q.shape[2], v.shape[2])
    out = torch.empty_like(v)
    for t in range(q.shape[0]):
        state = state * decay[t][:, None, None]
        error = (v[t] - torch.einsum("hkv,hk->hv", state, k[t])) * beta[t][:, None]
        state = state + torch.einsum("hk,hv->hkv", k[t], error)
        out[t] = torch.einsum("hkv,hk->hv", state, q[t])
    return out
