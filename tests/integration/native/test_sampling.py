"""Sampling from a seed: reproducible in any batch, and distributed as the logits ask for."""

from typing import Any

import numpy as np
import pytest
from native_support import MakeEngine, Model, prompts_of, results

PROMPTS = prompts_of([5, 30, 80, 12, 7, 100])


@pytest.mark.parametrize("tp", [1, 4])
def test_a_seed_gives_the_same_tokens_alone_and_in_any_batch(hybrid: Model, make_engine: MakeEngine, tp: int) -> None:
    sampling = {"temperature": 0.9, "top_k": 40, "top_p": 0.95}
    alone = make_engine(hybrid, mode="serial", tp=tp)
    expected = [results([alone.submit(prompt, 12, seed=seed, **sampling)])[0] for seed, prompt in enumerate(PROMPTS)]
    batch = make_engine(hybrid, tp=tp)
    assert results([batch.submit(prompt, 12, seed=seed, **sampling) for seed, prompt in enumerate(PROMPTS)]) == expected
    mixed = [batch.submit(prompt, 12, seed=seed, **sampling) for seed, prompt in enumerate(PROMPTS[:3])]
    mixed += [batch.submit(prompt, 12) for prompt in PROMPTS[3:]]  # greedy neighbours
    assert results(mixed)[:3] == expected[:3]


def test_seeds_differ_and_temperature_zero_is_greedy(qwen3: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(qwen3)
    drawn = results([engine.submit(PROMPTS[0], 12, temperature=1.5, seed=seed) for seed in range(8)])
    assert len({tuple(tokens) for tokens, _ in drawn}) == 8
    greedy = results([engine.submit(PROMPTS[0], 12), engine.submit(PROMPTS[0], 12, temperature=0.0, seed=9)])
    assert greedy[0] == greedy[1]
    assert results([engine.submit(PROMPTS[0], 12, temperature=2.0, top_k=1, seed=3)])[0] == greedy[0]
    assert results([engine.submit(PROMPTS[0], 12, temperature=2.0, top_p=1e-6, seed=3)])[0] == greedy[0]


def draw(engine: Any, count: int, **sampling: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """First tokens of `count` seeds after one prompt, and the logits they were drawn from."""
    logits = engine.submit(PROMPTS[1], 1, keep_logits=True)
    requests = [engine.submit(PROMPTS[1], 1, seed=seed, **sampling) for seed in range(count)]
    tokens = [tokens[0] for tokens, _ in results(requests)]
    results([logits])
    return np.array(tokens), logits.logits()[0].astype(np.float64)


@pytest.mark.parametrize(
    "sampling", [{"temperature": 1.0}, {"temperature": 0.7, "top_k": 12}, {"temperature": 1.3, "top_p": 0.6}]
)
def test_tokens_are_distributed_as_their_logits(qwen3: Model, make_engine: MakeEngine, sampling: dict[str, float]) -> None:
    tokens, logits = draw(make_engine(qwen3), 1500, **sampling)
    order = np.lexsort((np.arange(logits.size), -logits))
    probability = np.exp((logits[order] - logits.max()) / sampling["temperature"])
    probability[int(sampling.get("top_k", logits.size)) :] = 0
    probability /= probability.sum()
    kept = int(np.searchsorted(np.cumsum(probability), sampling.get("top_p", 1.0) - 1e-12)) + 1
    probability[kept:] = 0
    probability /= probability.sum()
    expected = np.zeros(logits.size)
    expected[order] = probability
    counts = np.bincount(tokens, minlength=logits.size)
    assert counts[expected == 0].sum() == 0
    likely = expected * tokens.size >= 5
    scores = (counts[likely] - expected[likely] * tokens.size) / np.sqrt(expected[likely] * tokens.size)
    assert np.abs(scores).max() < 5.0
    assert np.mean(scores**2) == pytest.approx(1.0, abs=0.9)
