"""The compiled module. Only engine.binding imports it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

API_VERSION: int

def build_info() -> dict[str, Any]:
    """compiler, flags, build_type, isa_paths compiled in, backends ("cpu", "cuda")."""

def devices() -> list[dict[str, Any]]:
    """Devices beyond the CPU that `device` may name: name ("cuda:0"), model, capability (90 for 9.0), memory in bytes."""

def isa_paths() -> dict[str, bool]:
    """Kernel paths compiled in, by name, widest first: whether this CPU can run each."""

class NativeError(RuntimeError): ...  # base of what native code raises
class ConfigError(NativeError): ...  # a model or an option the engine cannot serve
class WeightError(NativeError): ...  # missing, surplus or misshapen tensor
class OutOfMemoryError(NativeError): ...
class RequestRefused(NativeError): ...  # a request that can never fit, or a full queue
class EngineClosed(NativeError): ...

class ModelConfig:
    """Dimensions of the whole model (not of a shard). Keyword arguments only, every field required unless a default stands here.

    Raises ConfigError naming the field, its value and what is allowed.
    """

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
    """How an engine runs. Raises ConfigError naming the option, its value and what is allowed."""

    def __init__(
        self,
        *,
        mode: str,  # "serial" | "batch"
        tp: int,
        slots: int,  # requests in work at once; serial mode uses one
        context: int,  # positions a slot can hold (prompt + new tokens)
        threads: int = 0,  # 0: min(affinity mask, cgroup quota), split over ranks, at least one a rank
        prefill_rows: int = 256,  # rows of one prefill step
        queue_limit: int = 4096,
        isa: str = "auto",  # a name of isa_paths()
        device: str = "cpu",
        weight_bytes: int = 0,  # of the checkpoint's matrices, where known: the memory plan then counts them in full
        nodes: str = "/sys/devices/system/node",  # where the kernel lists memory nodes
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
    """One model on `tp` ranks. Load with set_*, then finish_loading, then submit. Every method may be called from any thread.

    set_* for different ranks run side by side when called from different threads. After close() all but stats, reset_peaks, facts
    and close raise EngineClosed. The constructor raises ConfigError, and OutOfMemoryError before it allocates anything.
    """

    def __init__(self, config: ModelConfig, options: EngineOptions) -> None: ...
    # Names: "embed", "head", "norm", "layers.N.{input_norm,post_norm,qkv,q_norm,k_norm,o,gate_up,down}", and for linear layers
    # "layers.N.{in_qkv,in_z,in_ba,conv,dt_bias,a_log,linear_norm,out}". Norm vectors hold the multiplier itself.
    def set_matrix(self, rank: int, name: str, parts: Sequence[MatrixPart]) -> None: ...
    def set_vector(self, rank: int, name: str, values: npt.NDArray[np.float32]) -> None: ...  # 1-D, or 2-D for "conv"
    def set_embedding(self, table: npt.NDArray[Any], dtype: str) -> None: ...  # shared by ranks, kept alive, not copied
    # Random numbers made on the device in place of a checkpoint's, the same for the same seed; WeightError on the CPU.
    # dtype: "bf16", or "f8_e4m3" with block scales of its own. The embedding is bf16.
    def make_random_matrix(self, rank: int, name: str, dtype: str, seed: int) -> None: ...
    def make_random_embedding(self, seed: int) -> None: ...
    def finish_loading(self) -> None: ...  # raises WeightError naming what is missing; starts the scheduler
    def submit(
        self,
        prompt_ids: npt.NDArray[np.int32],
        max_new_tokens: int,
        stop_ids: Sequence[int] = (),  # the one that is met is the last of the tokens
        keep_logits: bool = False,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> Request: ...  # temperature 0: greedy; top_k 0: all
    def submit_all(
        self,
        prompts: Sequence[npt.NDArray[np.int32]],
        max_new_tokens: int,
        keep_logits: bool = False,
    ) -> list[Request]:
        """Greedy requests that the scheduler sees all at once: what fits starts in one step. All are refused, or none."""
    def stats(self) -> dict[str, Any]:
        """Counters, read at one moment. They add up at every moment:

        submitted == refused + waiting + dropped + admitted          (dropped: ended while it waited, without admission)
        admitted + dropped == running + finished + cancelled + closed + failed
        steps == prefill_steps + decode_steps
        sum(rows_per_step.values()) == decode_steps since reset_peaks   (rows of a decode step -> number of such steps)

        Also peak_running and peak_waiting since reset_peaks, prefill_seconds and decode_seconds spent inside steps, prompt_tokens
        (rows of prefill steps) and generated_tokens (committed).
        """
    def reset_peaks(self) -> None: ...  # peaks start from what is now, the histogram from nothing; counters go on
    def memory(self) -> dict[str, int]: ...  # bytes: weights, kv_cache, state, scratch
    def step_bytes(self, rows: int, context: int) -> int: ...  # bytes a decode step must read: weights once, caches per row
    def facts(self) -> dict[str, Any]: ...  # isa (in use; "cuda" on a GPU), tp, slots, threads_per_rank, oversubscribed, homes
    def close(self) -> None: ...  # ends every request with a definite outcome, gives the memory back; idempotent

class Request:
    """A handle; it outlives its engine. Every method may be called from any thread; waiting frees the GIL and heeds signals."""

    def __init__(self, *args: object, **kwargs: object) -> None: ...  # raises TypeError: submit makes them
    @property
    def id(self) -> int: ...
    @property
    def state(self) -> str: ...  # "waiting" | "prefill" | "decode" | "done"
    @property
    def finish_reason(self) -> str | None: ...  # "length" | "stop" | "cancelled" | "closed" | "error"
    @property
    def error(self) -> str | None: ...
    @property
    def submitted_ns(self) -> int: ...  # CLOCK_MONOTONIC, as time.monotonic_ns()
    @property
    def admitted_ns(self) -> int: ...  # 0 while waiting
    @property
    def finished_ns(self) -> int: ...  # 0 until it is done
    def wait(self, timeout_s: float) -> bool: ...  # True when done
    def wait_tokens(self, seen: int, timeout_s: float) -> int: ...  # their number, once above `seen` or when done
    def tokens(self) -> list[int]: ...
    def token_times_ns(self) -> list[int]: ...
    def logits(self) -> npt.NDArray[np.float32]: ...  # [tokens, vocabulary]; only with keep_logits
    def cancel(self) -> None: ...
