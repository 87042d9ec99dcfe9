"""Whether a checkpoint can be served as asked, told from its config, its headers and the memory there is: nothing is loaded.

For a harness that would rather refuse a run than watch each of its measurements fail. Needs no compiled module.
"""

from dataclasses import dataclass
from pathlib import Path

from engine.checkpoint.index import Checkpoint
from engine.checkpoint.load import Source
from engine.checkpoint.synthetic import SCHEME, parse_spec, size_of
from engine.config import FULL, ModelConfig, check_context, check_ranks, read_config
from engine.errors import OutOfMemory

_GIB = 1 << 30


@dataclass(frozen=True)
class Asked:
    """How it is to be served."""

    tp: int
    slots: int
    context: int  # positions of a slot
    available: int | None = None  # bytes of memory; None: not looked at


def admit(checkpoint: str, asked: Asked) -> None:
    """Return when the checkpoint can be served. A synthetic one is judged by its shape, and not made.

    Raises what Session.open would: CheckpointError, ConfigError, OutOfMemory.
    """
    if checkpoint.startswith(SCHEME):
        shape, _ = parse_spec(checkpoint)
        config, weights = shape.config(), size_of(shape)
        _check(config, asked)
    else:
        folder = Path(checkpoint).expanduser()
        config = read_config(folder)
        source = Source(config, Checkpoint(folder))
        _check(config, asked)
        weights = source.weight_bytes(asked.tp)
    _check_memory(config, asked, weights)


def cache_bytes(config: ModelConfig, asked: Asked) -> int:
    """Bytes of the slots: BF16 keys and values of the full layers, float32 state of the linear ones."""
    full = sum(kind == FULL for kind in config.layer_types)
    keys = full * 2 * max(config.num_kv_heads, asked.tp) * config.head_dim * asked.context * 2
    heads = (len(config.layer_types) - full) * config.linear_num_value_heads
    return asked.slots * (keys + heads * config.linear_key_head_dim * config.linear_value_head_dim * 4)


def _check(config: ModelConfig, asked: Asked) -> None:
    check_ranks(config, asked.tp)
    check_context(config, asked.context)


def _check_memory(config: ModelConfig, asked: Asked, weights: int) -> None:
    caches = cache_bytes(config, asked)
    if asked.available is None or weights + caches <= asked.available:
        return
    advice = f"lower slots (now {asked.slots}) or context (now {asked.context})"
    if weights > caches:
        advice = "use a smaller or an FP8 checkpoint"
    raise OutOfMemory(
        f"the engine needs at least {(weights + caches) / _GIB:.2f} GiB ({weights / _GIB:.2f} GiB of weights, "
        f"{caches / _GIB:.2f} GiB for {asked.slots} slots of {asked.context} positions), "
        f"{asked.available / _GIB:.2f} GiB are available: {advice}"
    )
