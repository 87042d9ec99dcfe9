"""Prompts drawn from the seed: the same for both legs of a pair, different for every request."""

import numpy as np

Prompt = tuple[int, ...]


def draw_prompts(seed: int, round_index: int, count: int, tokens: int, vocab_size: int) -> list[Prompt]:
    """`count` different prompts of `tokens` ids in [0, vocab_size).

    Request i of a round is the same at every `count`, so that a level's requests are among those of the levels above it.
    Raises ValueError where the vocabulary does not hold that many different prompts.
    """
    return draw_lengths(seed, round_index, [tokens] * count, vocab_size)


def draw_lengths(seed: int, round_index: int, lengths: list[int], vocab_size: int) -> list[Prompt]:
    """As draw_prompts, with a length for each prompt."""
    prompts: list[Prompt] = []
    taken: set[Prompt] = set()
    for request, length in enumerate(lengths):
        if length < 1:
            raise ValueError(f"prompt {request}: {length} tokens; must be at least 1")
        if vocab_size**length <= sum(len(prompt) == length for prompt in prompts):
            raise ValueError(f"prompt {request}: no {request + 1} different prompts of {length} tokens over {vocab_size} ids")
        stream = np.random.default_rng([seed % 2**64, round_index, request])
        prompt = _draw(stream, length, vocab_size)
        while prompt in taken:
            prompt = _draw(stream, length, vocab_size)
        taken.add(prompt)
        prompts.append(prompt)
    return prompts


def _draw(stream: np.random.Generator, length: int, vocab_size: int) -> Prompt:
    return tuple(stream.integers(0, vocab_size, size=length).tolist())
