"""Serial against batch, bit by bit: the same tokens and the same logits for the same prompt, alone and in every batch.

    python -P -m flows.measurements.parity request.json result.json

spec.extra.levels are the batches to try (default: 1, 2, 4 and so on up to spec.level, and spec.level itself). One serial session
generates every prompt alone, then one batch session generates them at every level. A difference fails the measurement; how many
there were stands in the values all the same.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from flows.measurements.bench import Bench, MeasurementError, say
from flows.measurements.program import Kind, main
from flows.measurements.prompts import draw_lengths
from flows.measurements.request import EngineExtra, RequestError
from flows.measurements.rounds import generate_all

if TYPE_CHECKING:
    from engine import Generation, Session


class ParityExtra(EngineExtra):
    """Options of parity."""

    levels: tuple[int, ...] = Field(default=())  # batches to try; empty: powers of two up to the level, and the level
    mixed_lengths: bool = False  # prompts of 1 to prompt_tokens ids, so that rows stand at different positions


def measure(bench: Bench[ParityExtra]) -> None:
    """Compare, and raise MeasurementError at the end where anything differed."""
    levels = _levels(bench)
    spec = bench.spec
    with bench.session(mode="serial", slot_count=1) as session:
        prompts = draw_lengths(spec.seed, 0, _lengths(bench, max(levels)), session.facts.vocab_size)
        alone = [generate_all(session, [prompt], spec.new_tokens, keep_logits=True)[0] for prompt in prompts]
    differences: list[str] = []
    compared = 0
    with bench.session(mode="batch") as session:
        for level in levels:
            batch = generate_all(session, prompts[:level], spec.new_tokens, keep_logits=True)
            found = [line for i in range(level) if (line := difference(alone[i], batch[i], f"level {level}, request {i}"))]
            say(f"level {level}: {level - len(found)} of {level} requests equal in every bit; {_rows(session)}")
            session.reset_peaks()
            differences += found
            compared += level
    bench.values |= {
        "parity_requests": float(compared),
        "parity_requests_different": float(len(differences)),
        "parity_tokens": float(compared * spec.new_tokens),
    }
    bench.details["levels"] = list(levels)
    bench.details["differences"] = differences
    if differences:
        raise MeasurementError(
            f"{len(differences)} of {compared} requests differ between serial and batch; first: {differences[0]}"
        )


def difference(serial: "Generation", batch: "Generation", where: str) -> str | None:
    """What differs first, in words; None where tokens and logits ([tokens, vocabulary], float32) are the same bit by bit."""
    if serial.logits is None or batch.logits is None:
        raise MeasurementError(f"{where}: the engine gave no logits, though they were asked for")
    if serial.logits.shape != batch.logits.shape:
        return f"{where}: logits of shape {list(serial.logits.shape)} alone, {list(batch.logits.shape)} in the batch"
    bits = serial.logits.view(np.uint32) != batch.logits.view(np.uint32)
    places = np.argwhere(bits)
    if len(places):
        token, entry = (int(n) for n in places[0])
        left, right = float(serial.logits[token, entry]), float(batch.logits[token, entry])
        return f"{where}: {len(places)} logits differ, first token {token}, entry {entry}: {left!r} alone, {right!r} in the batch"
    if serial.tokens != batch.tokens:
        token = _first_difference(serial.tokens, batch.tokens)
        left_id, right_id = serial.tokens[token:][:1], batch.tokens[token:][:1]
        return f"{where}: equal logits, but token {token} differs: {left_id} alone, {right_id} in the batch"
    return None


def _first_difference(left: Sequence[int], right: Sequence[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _levels(bench: Bench[ParityExtra]) -> tuple[int, ...]:
    given, most = bench.extra.levels, bench.spec.level
    wrong = [level for level in given if not 1 <= level <= 4096]
    if wrong:
        raise RequestError(f"request: field spec.extra.levels: found {list(given)}: {wrong[0]} must be from 1 to 4096")
    powers = {2**n for n in range(most.bit_length()) if 2**n <= most}
    return tuple(sorted(set(given) or powers | {most}))


def _lengths(bench: Bench[ParityExtra], count: int) -> list[int]:
    most = bench.spec.prompt_tokens
    if not bench.extra.mixed_lengths:
        return [most] * count
    drawn = np.random.default_rng([bench.spec.seed % 2**64, count]).integers(1, most + 1, size=count)
    return [int(length) for length in drawn]


def _rows(session: "Session") -> str:
    rows = session.stats().rows_per_step
    return "decode steps by rows: " + ", ".join(f"{width}: {count}" for width, count in sorted(rows.items()))


KIND = Kind("parity", ParityExtra, measure)

if __name__ == "__main__":
    sys.exit(main(KIND))
