"""Prompts: from the seed alone, different from one another, the same for every level."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.measurements.prompts import draw_lengths, draw_prompts

SEEDS = st.integers(min_value=-(2**63), max_value=2**63 - 1)


@given(SEEDS, st.integers(0, 1000), st.integers(1, 16), st.integers(1, 20), st.integers(16, 200_000))
def test_ids_lengths_and_distinctness(seed: int, index: int, count: int, tokens: int, vocabulary: int) -> None:
    prompts = draw_prompts(seed, index, count, tokens, vocabulary)
    assert len(set(prompts)) == count
    assert all(len(prompt) == tokens and all(0 <= i < vocabulary for i in prompt) for prompt in prompts)
    assert prompts == draw_prompts(seed, index, count, tokens, vocabulary)


@given(SEEDS, st.integers(1, 15))
def test_a_levels_requests_are_among_those_of_higher_levels(seed: int, level: int) -> None:
    assert draw_prompts(seed, 3, 16, 2, 40)[:level] == draw_prompts(seed, 3, level, 2, 40)


def test_rounds_and_seeds_differ() -> None:
    drawn = {tuple(draw_prompts(seed, index, 2, 16, 1000)) for seed in (0, 1) for index in range(5)}
    assert len(drawn) == 10


def test_the_whole_vocabulary_is_used() -> None:
    assert {prompt[0] for prompt in draw_prompts(0, 0, 5, 1, 5)} == set(range(5))


def test_more_prompts_than_there_are() -> None:
    with pytest.raises(ValueError, match="no 6 different prompts of 1 tokens over 5 ids"):
        draw_prompts(0, 0, 6, 1, 5)
    with pytest.raises(ValueError, match="prompt 1: 0 tokens"):
        draw_lengths(0, 0, [3, 0], 5)


def test_the_draw_never_changes() -> None:
    """Records of other versions were measured with these prompts."""
    assert draw_prompts(7, 1, 2, 4, 1000) == [(870, 770, 875, 111), (62, 744, 129, 623)]
