"""What every subject is asked to do, and the one line in which it answers. Runs in each peer's own environment: numpy alone.

A request is a prompt of 16 token ids and 32 new tokens, greedy, whatever the tokens mean. The prompts of a round differ from
those of every other round, so that a cache of prefixes has nothing to find, and are the same for every subject.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

PROMPT, NEW = 16, 32  # tokens of a request: given, generated
MARK = "PEER "  # begins the one line that is the answer; the peers' libraries print lines of their own

Prompts = list[list[int]]
Generate = Callable[[Prompts], Sequence[Sequence[int]]]  # all at once; the new tokens of each, in order


@dataclass(frozen=True)
class Request:
    """What the parent asks of one process."""

    model: str  # a folder, a file or a spec, as the subject takes it
    widths: list[int]  # concurrent requests
    repeats: int  # timed rounds of each width
    threads: int  # cores to compute with


def read_request() -> Request:
    """The request in the program's only argument."""
    return Request(**json.loads(sys.argv[1]))


def prompts(vocab: int, width: int, round_: int) -> Prompts:
    """The prompts of one round, token ids below `vocab`."""
    return np.random.default_rng([width, round_]).integers(0, vocab, (width, PROMPT)).tolist()


def answer(subject: str, settings: dict[str, Any], request: Request, vocab: int, generate: Generate) -> None:
    """Measure and print the answer. Raises RuntimeError when a request does not get its NEW tokens.

    Every width is warmed up before any is timed. Walls are seconds of a whole round, prefill included; `first` is what the first
    timed round of one request (or of the smallest width) generated.
    """
    for width in request.widths:
        _round(generate, prompts(vocab, width, 0))
    walls: dict[int, list[float]] = {}
    first: Sequence[int] = ()
    for width in request.widths:
        walls[width] = []
        for repeat in range(1, request.repeats + 1):
            wall, tokens = _round(generate, prompts(vocab, width, repeat))
            walls[width].append(wall)
            first = first or tokens[0]
    body = {"subject": subject, "settings": settings, "walls": walls, "first": [int(token) for token in first]}
    print(MARK + json.dumps(body), flush=True)


def not_run(subject: str, why: str) -> None:
    """Print, in place of an answer, why this subject does not serve the model at all."""
    print(MARK + json.dumps({"subject": subject, "not_run": why}), flush=True)


def _round(generate: Generate, asked: Prompts) -> tuple[float, Sequence[Sequence[int]]]:
    started = time.monotonic()
    tokens = generate(asked)
    wall = time.monotonic() - started
    if [len(one) for one in tokens] != [NEW] * len(asked):
        raise RuntimeError(f"tokens of {len(asked)} requests: found {[len(one) for one in tokens]}, expected {NEW} each")
    return wall, tokens
