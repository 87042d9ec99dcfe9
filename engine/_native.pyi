"""The compiled module. Only engine.binding imports it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

API_VERSION: int

def build_info() -> dict[str, Any]:
    """compiler, flags, build_type, isa_paths compiled in, backends ("cpu", "cuda")."""

def isa_paths() -> dict[str, bool]:
    """Kernel paths compiled in, by name, widest first: whether this CPU can run each."""

class NativeError(RuntimeError): ...  # base of what native code raises
class ConfigError(NativeError): ...  # a model or an option the engine cannot serve
class WeightError(NativeError): ...  # missing, surplus or misshapen tensor
class OutOfMemoryError(NativeError): ...
class RequestRefused(NativeError): ...  # a request that can never fit, or a full queue
class EngineClosed(NativeError): ...

class ModelConfig:
    """Dimensions of the whole model (not of a shard). Keyword arguments only, every field required unless a default stands here."""

    def __init__(
        self,
        *,
        family: str,  # "qwen3" | "qwen3_5"
        vocab_size: int,
        hidden_size: int,
        intermediate_size: int,
        num_layers: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        rotary_dim: int,
        rope_theta: float,
        rms_norm_eps: float,
        layer_types: Sequence[str],  # "full_attention" | "linear_attention", one a layer
        linear_num_key_heads: int = 0,
        linear_num_value_heads: int = 0,
        linear_key_head_dim: int = 0,
        linear_value_head_dim: int = 0,
        linear_conv_kernel: int = 0,
    ) -> None: ...

class EngineOptions:
    def __init__(
        self,
        *,
        mode: str,  # "serial" | "batch"
        tp: int,
        slots: int,
        context: int,  # positions a slot can hold (prompt + new tokens)
        threads: int = 0,  # 0: min(affinity mask, cgroup quota), split over ranks, at least one a rank
        prefill_rows: int = 256,  # rows of one prefill step
        queue_limit: int = 4096,
        isa: str = "auto",  # a name of isa_paths()
        device: str = "cpu",
    ) -> None: ...

class MatrixPart:
    """One rank's slice of one checkpoint tensor, a view of the mapped file (kept alive until finish_loading)."""

    def __init__(
        self,
        data: npt.NDArray[Any],  # 2-D, C-contiguous rows; uint16 for bf16/f16, float32, uint8 for f8_e4m3
        dtype: str,  # "bf16" | "f16" | "f32" | "f8_e4m3"
        scale: npt.NDArray[np.float32] | None = None,  # block scales of the whole tensor
        row_offset: int = 0,
        col_offset: int = 0,
    ) -> None: ...

class Engine:
    """One model on `tp` ranks. Load with set_*, then finish_loading, then submit."""

    def __init__(self, config: ModelConfig, options: EngineOptions) -> None: ...
    # Names: "embed", "head", "norm", "layers.N.{input_norm,post_norm,qkv,q_norm,k_norm,o,gate_up,down}", and for linear layers
    # "layers.N.{in_qkv,in_z,in_ba,conv,dt_bias,a_log,linear_norm,out}". Norm vectors hold the multiplier itself.
    def set_matrix(self, rank: int, name: str, parts: Sequence[MatrixPart]) -> None: ...
    def set_vector(self, rank: int, name: str, values: npt.NDArray[np.float32]) -> None: ...  # 1-D, or 2-D for "conv"
    def set_embedding(self, table: npt.NDArray[Any], dtype: str) -> None: ...  # whole table, shared by ranks, kept alive, not copied
    def finish_loading(self) -> None: ...  # raises WeightError naming what is missing; starts the scheduler
    def submit(
        self,
        prompt_ids: npt.NDArray[np.int32],
        max_new_tokens: int,
        stop_ids: Sequence[int] = (),
        keep_logits: bool = False,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> Request: ...
    def stats(self) -> dict[str, Any]: ...
    def memory(self) -> dict[str, int]: ...  # bytes: weights, kv_cache, state, scratch
    def step_bytes(self, rows: int, context: int) -> int: ...  # bytes a decode step must read: weights once, caches per row
    def close(self) -> None: ...  # ends every request with a definite outcome; idempotent

class Request:
    """A handle. Every method may be called from any thread; waiting releases the GIL."""

    id: int
    state: str  # "waiting" | "prefill" | "decode" | "done"
    finish_reason: str | None  # "length" | "stop" | "cancelled" | "closed" | "error"
    error: str | None
    submitted_ns: int  # CLOCK_MONOTONIC, as time.monotonic_ns()
    admitted_ns: int  # 0 while waiting
    finished_ns: int
    def wait(self, timeout_s: float) -> bool: ...  # True when done
    def wait_tokens(self, seen: int, timeout_s: float) -> int: ...  # returns the number of tokens once more than `seen`, or when done
    def tokens(self) -> list[int]: ...
    def token_times_ns(self) -> list[int]: ...
    def logits(self) -> npt.NDArray[np.float32]: ...  # [tokens, vocabulary]; only with keep_logits
    def cancel(self) -> None: ...
