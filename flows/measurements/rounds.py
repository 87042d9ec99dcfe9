"""The closed loop: all requests of a round are sent at once, in both modes, and wait for their turn."""

import gc
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from flows.measurements.prompts import Prompt
from storage.records import RequestSample, RoundSample

if TYPE_CHECKING:
    from engine import Generation, Handle, Session

COMPLETE = frozenset({"length", "stop"})  # finish reasons of a request that came to its end


class RoundError(RuntimeError):
    """Requests of a round that did not come to their end, each with its reason."""


def run_round(
    session: "Session", prompts: Sequence[Prompt], new_tokens: int, *, index: int = 0, warmup: bool = False
) -> RoundSample:
    """Send all prompts, wait for all, return what was seen. Raises what `generate_all` raises."""
    return sample_round(generate_all(session, prompts, new_tokens), prompts, index=index, warmup=warmup)


def generate_all(
    session: "Session", prompts: Sequence[Prompt], new_tokens: int, *, keep_logits: bool = False
) -> list["Generation"]:
    """Send all prompts in one submission and wait for all. Raises what the engine raises; the others are then cancelled.

    One by one, a busy machine would let the first requests run a few steps alone, and the slots would not be filled.
    """
    ids = [np.asarray(prompt, dtype=np.int32) for prompt in prompts]  # before the clock runs
    return session.generate(ids, new_tokens, keep_logits=keep_logits)


def collect(handles: Sequence["Handle"]) -> list["Generation"]:
    """Wait for all requests, whatever becomes of each. Raises RoundError naming every one that failed."""
    generations: list[Generation] = []
    faults: list[str] = []
    cause: Exception | None = None
    for request, handle in enumerate(handles):
        try:
            generation = handle.result()
        except Exception as error:  # every other request is still waited for
            faults.append(f"request {request} of {len(handles)}: {type(error).__name__}: {error}")
            cause = cause or error
            continue
        if generation.finish_reason not in COMPLETE:
            faults.append(f"request {request} of {len(handles)}: finish reason {generation.finish_reason!r}")
        generations.append(generation)
    if faults:
        raise RoundError("; ".join(faults)) from cause
    return generations


def sample_round(generations: Sequence["Generation"], prompts: Sequence[Prompt], *, index: int, warmup: bool) -> RoundSample:
    """The round's figures, from the engine's own timestamps (seconds of the monotonic clock)."""
    requests = [_sample(i, len(prompt), g) for i, (prompt, g) in enumerate(zip(prompts, generations, strict=True))]
    first = min(g.submitted_s for g in generations)
    last = max(_end(g) for g in generations)
    return RoundSample(index=index, warmup=warmup, wall_s=last - first, requests=requests)


def tokens_digest(tokens: Sequence[int]) -> str:
    """sha256 over the ids as little-endian int64, so that legs can be held against each other."""
    return hashlib.sha256(np.asarray(tokens, dtype="<i8").tobytes()).hexdigest()


def _sample(index: int, prompt_tokens: int, generation: "Generation") -> RequestSample:
    times = generation.token_times_s
    return RequestSample(
        index=index,
        prompt_tokens=prompt_tokens,
        output_tokens=len(generation.tokens),
        e2el_s=_end(generation) - generation.submitted_s,
        ttft_s=times[0] - generation.submitted_s if times else None,
        queue_s=generation.admitted_s - generation.submitted_s if generation.admitted_s is not None else None,
        itl_s=[later - earlier for earlier, later in pairwise(times)],
        finish_reason=generation.finish_reason,
        tokens_sha256=tokens_digest(generation.tokens),
    )


def _end(generation: "Generation") -> float:
    """The last token's instant; where a request ended without one, the instant at which it ended."""
    return generation.token_times_s[-1] if generation.token_times_s else generation.finished_s


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Keep Python's garbage collector out of the measured rounds; what lives now is not looked at again."""
    enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()
