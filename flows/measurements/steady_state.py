"""Requests that arrive when they like: Poisson arrivals at a given rate, mixed lengths.

    python -P -m flows.measurements.steady_state request.json result.json

spec.extra: `rate_per_s`, `requests`, `lengths` (prompt, new tokens and weight of each class) and the limits of a good request.
Percentiles of TTFT, TPOT, ITL and E2EL, and the goodput: requests a second within all limits. An open loop: a late answer delays
no later request. The record holds one kept round with every request; spec.level is the size of the warm-up rounds.
"""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from flows.measurements import slots
from flows.measurements.bench import Bench, say
from flows.measurements.program import Kind, main
from flows.measurements.prompts import Prompt, draw_lengths
from flows.measurements.request import EngineExtra, RequestError
from flows.measurements.rounds import collect, quiet_collector, sample_round
from storage.records import RequestSample

if TYPE_CHECKING:
    from engine import Handle, Session

PERCENTILES = (50, 90, 95, 99)
_MOST_LATE_S = (
    0.01  # behind its arrival a request may be sent, at the 99th percentile; more, and the load was not the one asked for
)


class LengthClass(BaseModel):
    """Requests of one shape."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt_tokens: int = Field(ge=1)
    new_tokens: int = Field(ge=1)
    weight: float = Field(default=1.0, gt=0)


class SteadyStateExtra(EngineExtra):
    """Options of steady_state."""

    rate_per_s: float = Field(gt=0, le=1e5)
    requests: int = Field(default=100, ge=1, le=100_000)
    lengths: tuple[LengthClass, ...] = ()  # empty: the spec's prompt and new tokens
    ttft_limit_s: float | None = Field(default=None, gt=0)
    tpot_limit_s: float | None = Field(default=None, gt=0)
    e2el_limit_s: float | None = Field(default=None, gt=0)


def measure(bench: Bench[SteadyStateExtra]) -> None:
    """Send on schedule, wait for all, fill the values."""
    spec, extra = bench.spec, bench.extra
    shapes = _shapes(bench)
    arrivals = np.random.default_rng([spec.seed % 2**64, 1]).exponential(1 / extra.rate_per_s, extra.requests).cumsum()
    with bench.session() as session:
        bench.warm_up(session)
        prompts = draw_lengths(spec.seed, spec.warmup, [s.prompt_tokens for s in shapes], session.facts.vocab_size)
        session.reset_peaks()
        before = session.stats()
        with quiet_collector():
            handles, late = _send(session, prompts, shapes, arrivals.tolist())
            generations = collect(handles)
        bench.occupancy = slots.occupancy_between(before, session.stats())
    sample = sample_round(generations, prompts, index=spec.warmup, warmup=False)
    bench.rounds.append(sample)
    lateness = float(np.percentile(late, 99))
    bench.values |= figures(sample.requests, sample.wall_s, extra) | {"send_lateness_p99_s": lateness}
    wanted = sum(s.new_tokens for s in shapes)
    found = sum(q.output_tokens for q in sample.requests)
    faults = [] if found == wanted else [f"tokens: {found} generated, {wanted} asked for"]
    if lateness > _MOST_LATE_S:
        faults.append(f"load: requests were sent up to {lateness:.3f} s late (99th percentile), must be {_MOST_LATE_S} s at most")
    bench.invalid(faults)
    for name, value in sorted(bench.values.items()):
        say(f"{name:28} {value:.6g}")


def figures(requests: Sequence[RequestSample], wall_s: float, extra: SteadyStateExtra) -> dict[str, float]:
    """Percentiles, throughput and goodput. A figure for which there is no sample is absent."""
    tpots = {
        q.index: (q.e2el_s - q.ttft_s) / (q.output_tokens - 1) for q in requests if q.ttft_s is not None and q.output_tokens > 1
    }
    samples = {
        "ttft": [q.ttft_s for q in requests if q.ttft_s is not None],
        "tpot": list(tpots.values()),
        "itl": [gap for q in requests for gap in q.itl_s],
        "e2el": [q.e2el_s for q in requests],
    }
    values = {
        f"{name}_p{percent}_s": float(np.percentile(figures_of, percent))
        for name, figures_of in samples.items()
        if figures_of
        for percent in PERCENTILES
    }
    good = sum(_within(q, tpots.get(q.index), extra) for q in requests)
    values |= {
        "offered_per_s": extra.rate_per_s,
        "request_throughput_per_s": len(requests) / wall_s,
        "output_throughput_per_s": sum(q.output_tokens for q in requests) / wall_s,
        "goodput_per_s": good / wall_s,
        "goodput_fraction": good / len(requests),
    }
    return values


def _within(request: RequestSample, tpot_s: float | None, extra: SteadyStateExtra) -> bool:
    """Whether a request keeps every limit; a limit on a figure that it does not have is not kept, but for TPOT of one token."""
    ttft = extra.ttft_limit_s is None or (request.ttft_s is not None and request.ttft_s <= extra.ttft_limit_s)
    tpot = extra.tpot_limit_s is None or tpot_s is None or tpot_s <= extra.tpot_limit_s
    return ttft and tpot and (extra.e2el_limit_s is None or request.e2el_s <= extra.e2el_limit_s)


def _shapes(bench: Bench[SteadyStateExtra]) -> list[LengthClass]:
    """The shape of each request, drawn by weight from the seed. Raises RequestError where one does not fit the context."""
    spec = bench.spec
    classes = bench.extra.lengths or (LengthClass(prompt_tokens=spec.prompt_tokens, new_tokens=spec.new_tokens),)
    for number, one in enumerate(classes):
        if one.prompt_tokens + one.new_tokens > spec.context:
            raise RequestError(
                f"request: field spec.extra.lengths.{number}: found {one.prompt_tokens} + {one.new_tokens} tokens: "
                f"must fit spec.context {spec.context}"
            )
    weights = np.array([one.weight for one in classes])
    stream = np.random.default_rng([spec.seed % 2**64, 0])
    return [classes[i] for i in stream.choice(len(classes), size=bench.extra.requests, p=weights / weights.sum())]


def _send(
    session: "Session", prompts: Sequence[Prompt], shapes: Sequence[LengthClass], arrivals: Sequence[float]
) -> "tuple[list[Handle], list[float]]":
    """Send each request at its instant; returns the handles and by how many seconds each was late."""
    ids = [np.asarray(prompt, dtype=np.int32) for prompt in prompts]
    handles, late = [], []
    start = time.monotonic()
    for prompt, shape, arrival in zip(ids, shapes, arrivals, strict=True):
        wait = start + arrival - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        late.append(max(time.monotonic() - start - arrival, 0.0))
        handles.append(session.submit(prompt, shape.new_tokens))
    return handles, late


KIND = Kind("steady_state", SteadyStateExtra, measure)

if __name__ == "__main__":
    sys.exit(main(KIND))
