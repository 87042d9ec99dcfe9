"""A request's tokens and logits are bitwise the same alone, in any batch and slot, in serial and in batch mode, at every TP."""

from typing import Any

import numpy as np
import pytest
from native_support import DEADLINE_S, MakeEngine, Model, assert_adds_up, build, prompts_of, results

LENGTHS = [1, 2, 16, 64, 65, 97, 256, 257, 300, 600, 5, 33, 128, 7, 190, 40]
NEW_TOKENS = 10
FAMILIES = ["qwen3", "hybrid"]


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Model:
    chosen: Model = request.getfixturevalue(request.param)
    return chosen


def run(engine: Any, prompts: list[Any]) -> list[tuple[list[int], Any]]:
    """Tokens and logits of each prompt, all submitted at once."""
    requests = engine.submit_all(prompts, NEW_TOKENS, keep_logits=True)
    results(requests)
    return [(request.tokens(), request.logits()) for request in requests]


def assert_same(ours: list[tuple[list[int], Any]], expected: list[tuple[list[int], Any]]) -> None:
    for index, ((tokens, logits), (expected_tokens, expected_logits)) in enumerate(zip(ours, expected, strict=True)):
        assert tokens == expected_tokens, index
        assert np.array_equal(logits, expected_logits), index


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_every_occupancy_gives_what_serial_gives(model: Model, make_engine: MakeEngine, tp: int) -> None:
    prompts = prompts_of(LENGTHS)
    serial = run(make_engine(model, mode="serial", tp=tp), prompts)
    assert all(logits.shape == (NEW_TOKENS, 509) and np.isfinite(logits).all() for _, logits in serial)
    assert len({tuple(tokens) for tokens, _ in serial}) == len(prompts)
    engine = make_engine(model, tp=tp, slots=16)
    for occupancy in [*range(1, 9), 16]:
        engine.reset_peaks()
        assert_same(run(engine, prompts[:occupancy]), serial[:occupancy])
        assert engine.stats()["peak_running"] == occupancy
        assert max(engine.stats()["rows_per_step"]) <= occupancy  # never wider than what is occupied
    assert_adds_up(engine.stats())


def test_logits_choose_the_tokens_lowest_index_first(model: Model, make_engine: MakeEngine) -> None:
    for tp in (1, 4):
        for tokens, logits in run(make_engine(model, tp=tp), prompts_of([3, 70])):
            assert tokens == logits.argmax(axis=1).tolist()


def test_ranks_change_the_logits_by_rounding_alone(model: Model, make_engine: MakeEngine) -> None:
    whole = run(make_engine(model), prompts_of([17, 97]))
    for tp in (2, 4):
        for (_, logits), (_, expected) in zip(run(make_engine(model, tp=tp), prompts_of([17, 97])), whole, strict=True):
            error = np.linalg.norm(logits[0] - expected[0]) / np.linalg.norm(expected[0])
            assert error <= 2e-2, error


def test_a_lone_request_does_the_steps_of_serial_mode(model: Model, make_engine: MakeEngine) -> None:
    prompt = prompts_of([300])
    stats = {}
    for mode in ("serial", "batch"):
        engine = make_engine(model, mode=mode)
        run(engine, prompt)
        stats[mode] = {key: engine.stats()[key] for key in ("prefill_steps", "decode_steps", "rows_per_step", "prompt_tokens")}
    assert stats["batch"] == stats["serial"]
    assert stats["batch"]["rows_per_step"] == {1: NEW_TOKENS - 1}


def test_neither_order_of_arrival_nor_slot_matters(model: Model, make_engine: MakeEngine) -> None:
    prompts = prompts_of([65, 4, 300, 20, 97])
    engine = make_engine(model, slots=4)
    forward = run(engine, prompts)
    backward = run(engine, prompts[::-1])
    assert_same(backward[::-1], forward)
    assert_same(run(engine, prompts), forward)  # slots used again see nothing of the last request


def test_joining_a_running_batch_disturbs_nobody(model: Model, make_engine: MakeEngine) -> None:
    prompts = prompts_of([97, 300, 12])
    serial = run(make_engine(model, mode="serial"), prompts)
    engine = make_engine(model)
    first = engine.submit(prompts[0], NEW_TOKENS, keep_logits=True)
    assert first.wait_tokens(2, DEADLINE_S) > 2
    rest = engine.submit_all(prompts[1:], NEW_TOKENS, keep_logits=True)
    requests = [first, *rest]
    results(requests)
    assert_same([(request.tokens(), request.logits()) for request in requests], serial)


def test_prefill_rows_and_threads_do_not_change_the_numbers(model: Model, make_engine: MakeEngine) -> None:
    prompts = prompts_of([300, 40, 257])
    expected = run(make_engine(model), prompts)
    assert_same(run(make_engine(model, prefill_rows=1024), prompts), expected)
    assert_same(run(make_engine(model, threads=2), prompts), expected)


def test_identical_prompts_give_one_distinct_answer(model: Model, make_engine: MakeEngine) -> None:
    outputs = run(make_engine(model), [prompts_of([50])[0]] * 8)
    assert len({tuple(tokens) for tokens, _ in outputs}) == 1


@pytest.mark.parametrize("vocab_size", [5, 9, 510])
def test_vocabularies_that_ranks_do_not_divide(make_engine: MakeEngine, vocab_size: int) -> None:
    model = build("qwen3", ["full_attention"], vocab_size=vocab_size)
    prompts = prompts_of([6, 20], vocab_size=vocab_size)
    whole = run(make_engine(model), prompts)
    for tokens, logits in run(make_engine(model, tp=4), prompts):
        assert logits.shape == (NEW_TOKENS, vocab_size)
        assert tokens == logits.argmax(axis=1).tolist()
    assert run(make_engine(model, tp=4), prompts)[0][1][0] == pytest.approx(whole[0][1][0], rel=0.05, abs=0.05)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_fewer_kv_heads_than_ranks(make_engine: MakeEngine, kv_heads: int) -> None:
    model = build("qwen3_5", ["full_attention", "linear_attention"], num_kv_heads=kv_heads)
    whole = run(make_engine(model), prompts_of([30]))
    shared = run(make_engine(model, tp=4), prompts_of([30]))
    error = np.linalg.norm(shared[0][1][0] - whole[0][1][0]) / np.linalg.norm(whole[0][1][0])
    assert error <= 2e-2, error
