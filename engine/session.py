"""A model being served: opened from a checkpoint, fed with requests from any thread, closed once."""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from engine import binding
from engine.checkpoint import on_device
from engine.checkpoint.index import Checkpoint
from engine.checkpoint.load import Source, load
from engine.checkpoint.shapes import Shape
from engine.checkpoint.synthetic import resolve, size_of
from engine.config import ModelConfig, check_context, check_ranks, read_config
from engine.errors import ConfigError, EngineClosed, RequestFailed, RequestRefused
from engine.handle import Generation, Handle, OnToken
from engine.options import Sampling, SessionOptions

Prompt = Sequence[int] | npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class SessionFacts:
    """What a session turned out to be."""

    model: str  # name of the checkpoint's folder
    family: str
    checkpoint_digest: str  # of config.json and the headers, see Checkpoint.digest
    skipped: str  # tensors of the checkpoint that the text model has no use for, in words; empty when none
    vocab_size: int
    tp: int
    slots: int  # requests that can run at once
    context: int  # positions a slot can hold
    isa: str  # CPU kernel path in use, or cuda
    threads_per_rank: int
    load_seconds: float


@dataclass(frozen=True)
class Stats:
    """The scheduler's counters at one moment: since the start, but for the gauges and what `reset_peaks` starts anew (*)."""

    running: int  # gauge
    waiting: int  # gauge
    peak_running: int  # *
    peak_waiting: int  # *
    submitted: int  # refused ones included
    refused: int
    dropped: int  # ended while they waited
    admitted: int
    finished: int  # at their length or a stop id
    cancelled: int
    closed: int  # cut short by close
    failed: int
    steps: int
    decode_steps: int
    prefill_steps: int
    rows_per_step: dict[int, int]  # *; rows -> decode steps with that many
    prefill_seconds: float
    decode_seconds: float
    prompt_tokens: int
    generated_tokens: int


class Session:
    """Serves one model. Thread-safe; use it as a context manager, or call `close`."""

    facts: SessionFacts

    def __init__(self, engine: Any, facts: SessionFacts) -> None:
        """Use Session.open."""
        self._engine = engine
        self._closed = False
        self.facts = facts

    @classmethod
    def open(cls, checkpoint: str | Path, options: SessionOptions, *, cache: Path | None = None) -> "Session":
        """Load a Hugging Face folder, or `synthetic:<shape>[@seed]` (kept under `cache`, see synthetic.resolve).

        On a GPU a synthetic one that is too large for a disk is made on the device. Raises CheckpointError, ConfigError,
        OutOfMemory, or BindingError when the compiled module does not fit.
        """
        started = time.monotonic()
        if made := on_device.made_on_device(checkpoint, options.devices):
            return cls._make(*made, options, started)
        folder = resolve(checkpoint, cache)
        config = read_config(folder)
        return cls.load(Source(config, Checkpoint(folder)), options, started)

    @classmethod
    def load(cls, source: Source, options: SessionOptions, started: float | None = None) -> "Session":
        """Serve a checkpoint that is open already. `started`: the monotonic instant that load_seconds counts from."""
        started = time.monotonic() if started is None else started
        engine = _engine(source.config, options, source.weight_bytes(options.tp))
        try:
            load(engine, source, options.tp)
            told = (source.checkpoint.digest(), source.names.said())
            facts = _facts(engine, source.config, told, options, time.monotonic() - started)
        except BaseException:
            engine.close()
            raise
        return cls(engine, facts)

    @classmethod
    def _make(cls, shape: Shape, seed: int, options: SessionOptions, started: float) -> "Session":
        config = shape.config()
        engine = _engine(config, options, size_of(shape))
        try:
            on_device.fill(engine, shape, seed)
            facts = _facts(engine, config, (on_device.digest(shape, seed), ""), options, time.monotonic() - started)
        except BaseException:
            engine.close()
            raise
        return cls(engine, facts)

    def submit(
        self,
        prompt_ids: Prompt,
        max_new_tokens: int,
        *,
        stop_ids: Sequence[int] = (),
        keep_logits: bool = False,
        sampling: Sampling | None = None,
        on_token: OnToken | None = None,
    ) -> Handle:
        """Queue a request and return at once. Greedy unless `sampling` says otherwise; a stop id ends it and is its last token.

        `on_token` is called with each token from a thread of the request's own. Raises RequestRefused (with the numbers) for
        what can never fit or a full queue, EngineClosed after close.
        """
        ids = self._prompt(prompt_ids, max_new_tokens)
        stops = _token_ids("stop_ids", stop_ids, self.facts.vocab_size)
        chosen = sampling or Sampling(temperature=0.0)
        with binding.translated():
            request = self._engine.submit(
                ids,
                max_new_tokens,
                stop_ids=[int(stop) for stop in stops],
                keep_logits=keep_logits,
                temperature=chosen.temperature,
                top_k=chosen.top_k,
                top_p=chosen.top_p,
                seed=chosen.seed,
            )
        return Handle(request, keep_logits, on_token)

    def generate(self, prompts: Sequence[Prompt], max_new_tokens: int, *, keep_logits: bool = False) -> list[Generation]:
        """Submit all prompts at once and wait for all of them: greedy, in the prompts' order.

        Raises what `submit` raises, RequestFailed when a request did not run to its end; the others are then cancelled.
        """
        ids = [self._prompt(prompt, max_new_tokens) for prompt in prompts]
        with binding.translated():
            requests = self._engine.submit_all(ids, max_new_tokens, keep_logits=keep_logits)
        handles = [Handle(request, keep_logits, None) for request in requests]
        try:
            results = [handle.result() for handle in handles]
            for handle, result in zip(handles, results, strict=True):
                if result.finish_reason not in ("length", "stop"):
                    raise RequestFailed(
                        f"request {handle.id}: {result.finish_reason} after {len(result.tokens)} of {max_new_tokens} tokens"
                    )
        except BaseException:
            for handle in handles:
                handle.cancel()
            raise
        return results

    def _prompt(self, prompt_ids: Prompt, max_new_tokens: int) -> npt.NDArray[np.int32]:
        """The prompt as the native module takes it, once it is known to make sense."""
        if self._closed:
            raise EngineClosed("the session is closed; open a new one")
        ids = _token_ids("prompt", prompt_ids, self.facts.vocab_size)
        if not len(ids):
            raise RequestRefused("prompt: found 0 token ids, expected at least 1")
        if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or not 1 <= max_new_tokens < 1 << 31:
            raise RequestRefused(f"max_new_tokens: found {max_new_tokens!r}, expected a whole number from 1")
        return ids

    def stats(self) -> Stats:
        """The scheduler's counters, consistent with one another."""
        raw = self._engine.stats()
        values = {field.name: raw[field.name] for field in fields(Stats) if field.name != "rows_per_step"}
        return Stats(**values, rows_per_step={int(rows): int(steps) for rows, steps in raw["rows_per_step"].items()})

    def reset_peaks(self) -> None:
        """Start the peaks and the histogram of rows anew, from what runs and waits now; the counters go on."""
        self._engine.reset_peaks()

    def memory(self) -> dict[str, int]:
        """Bytes held, by use: weights, kv_cache, state, scratch."""
        return dict(self._engine.memory())

    def step_bytes(self, rows: int, context: int) -> int:
        """Bytes that one decode step of `rows` rows at `context` positions must read: the weights once, the caches per row."""
        return int(self._engine.step_bytes(rows, context))

    def close(self) -> None:
        """End every request ("closed" where it was not done) and free the model. May be called twice, and from any thread."""
        self._closed = True
        self._engine.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at interpreter exit the module may be half gone
            self.close()


def _engine(config: ModelConfig, options: SessionOptions, weight_bytes: int) -> Any:
    """The native engine, with its caches and without its weights."""
    _check(config, options)
    native = binding.native()
    with binding.translated():
        return native.Engine(native.ModelConfig(**config.native_fields()), _native_options(options, weight_bytes))


def _check(config: ModelConfig, options: SessionOptions) -> None:
    check_ranks(config, options.tp)
    check_context(config, options.context)
    backends = binding.build_info().get("backends", [])
    backend = options.device.partition(":")[0]
    if backend not in backends:
        raise ConfigError(f"option devices: found {options.devices!r}; this build has: {', '.join(backends)}")
    paths = binding.native().isa_paths()
    if options.isa != "auto" and not paths.get(options.isa, False):
        runs = [name for name, able in paths.items() if able]
        raise ConfigError(f"option isa: found {options.isa!r}; on this CPU: auto, {', '.join(runs)}")


def _native_options(options: SessionOptions, weight_bytes: int) -> Any:
    return binding.native().EngineOptions(
        mode=options.mode,
        tp=options.tp,
        slots=options.running_limit,
        context=options.context,
        threads=options.threads,
        prefill_rows=options.prefill_rows,
        queue_limit=options.queue_limit,
        isa=options.isa,
        device=options.device,
        weight_bytes=weight_bytes,  # so that what does not fit is refused before anything is allocated
    )


def _facts(engine: Any, config: ModelConfig, told: tuple[str, str], options: SessionOptions, seconds: float) -> SessionFacts:
    """`told`: the checkpoint's digest, and what was skipped of it."""
    raw = engine.facts()
    return SessionFacts(
        model=config.name,
        family=config.family,
        checkpoint_digest=told[0],
        skipped=told[1],
        vocab_size=config.vocab_size,
        tp=options.tp,
        slots=options.running_limit,
        context=options.context,
        isa=str(raw["isa"]),
        threads_per_rank=int(raw["threads_per_rank"]),
        load_seconds=seconds,
    )


def _token_ids(what: str, values: Prompt, vocab_size: int) -> npt.NDArray[np.int32]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise RequestRefused(f"{what}: found {array.dtype} of shape {list(array.shape)}, expected a flat list of token ids")
    outside = np.flatnonzero((array < 0) | (array >= vocab_size))
    if outside.size:
        at = int(outside[0])
        raise RequestRefused(f"{what}: position {at}: found token id {array[at]}, expected 0 to {vocab_size - 1}")
    return np.ascontiguousarray(array, dtype=np.int32)
