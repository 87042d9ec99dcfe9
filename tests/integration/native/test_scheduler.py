"""The life of requests: cancels, stops, refusals, limits, closing, threads; and counters that add up throughout."""

import itertools
import threading
import time
from typing import Any

import numpy as np
import pytest
from native_support import DEADLINE_S, MakeEngine, Model, assert_adds_up, prompts_of, results

from engine.binding import native


def until(condition: Any, what: str) -> None:
    """Polls until `condition()` holds."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.0005)


def test_more_requests_than_slots_wait_in_order_of_arrival(qwen3: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(qwen3, slots=2)
    requests = engine.submit_all(prompts_of([8] * 12), 20)
    results(requests)
    admitted = [request.admitted_ns for request in requests]
    assert admitted == sorted(admitted)
    stats = engine.stats()
    assert stats["peak_running"] == 2
    assert stats["peak_waiting"] == 12
    assert stats["finished"] == 12
    assert_adds_up(stats)


def test_waiting_prompts_share_a_prefill_step(qwen3: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(qwen3)
    results(engine.submit_all(prompts_of([16] * 8), 4))
    stats = engine.stats()
    assert stats["prefill_steps"] == 1
    assert stats["prompt_tokens"] == 128
    assert stats["generated_tokens"] == 32
    assert stats["rows_per_step"] == {8: 3}


def test_serial_mode_runs_one_at_a_time(qwen3: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(qwen3, mode="serial", slots=8)
    requests = engine.submit_all(prompts_of([16] * 4), 5)
    results(requests)
    stats = engine.stats()
    assert stats["peak_running"] == 1
    assert set(stats["rows_per_step"]) == {1}
    assert all(later.admitted_ns >= earlier.finished_ns for earlier, later in itertools.pairwise(requests))


def test_a_short_prompt_passes_a_long_one_between_its_chunks(qwen3: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(qwen3, context=4096)
    long = engine.submit(prompts_of([3000])[0], 5)
    until(lambda: long.state != "waiting", "the long prompt is not admitted")
    short = engine.submit(prompts_of([10])[0], 5)
    results([long, short])
    assert short.token_times_ns()[0] < long.token_times_ns()[0]


def test_times_are_in_order(qwen3: Model, make_engine: MakeEngine) -> None:
    before = time.monotonic_ns()
    request = make_engine(qwen3).submit(prompts_of([20])[0], 6)
    results([request])
    times = request.token_times_ns()
    assert len(times) == 6
    line = [before, request.submitted_ns, request.admitted_ns, *times, request.finished_ns, time.monotonic_ns()]
    assert line == sorted(line)


def test_a_stop_id_ends_its_row_alone(hybrid: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(hybrid)
    prompts = prompts_of([9, 30, 70])
    plain = [tokens for tokens, _ in results(engine.submit_all(prompts, 30))]
    stop = plain[0][4]
    requests = [engine.submit(prompts[0], 30, stop_ids=[stop])] + [engine.submit(prompt, 30) for prompt in prompts[1:]]
    ended = results(requests)
    assert ended[0] == (plain[0][: plain[0].index(stop) + 1], "stop")
    assert ended[1:] == [(plain[1], "length"), (plain[2], "length")]


def test_rows_of_different_lengths_end_early_and_leave_the_others_alone(hybrid: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(hybrid)
    prompts = prompts_of([30] * 6)
    plain = [tokens for tokens, _ in results(engine.submit_all(prompts, 40))]
    lengths = [1, 3, 40, 7, 40, 20]
    requests = [engine.submit(prompt, length) for prompt, length in zip(prompts, lengths, strict=True)]
    assert results(requests) == [(tokens[:length], "length") for tokens, length in zip(plain, lengths, strict=True)]


@pytest.mark.parametrize(
    ("length", "new_tokens", "numbers"),
    [(100, 669, ("769", "100", "669", "768")), (800, 1, ("801", "768")), (0, 1, ("empty",)), (5, 0, ("max_new_tokens = 0",))],
)
def test_the_impossible_is_refused_with_its_numbers(
    qwen3: Model, make_engine: MakeEngine, length: int, new_tokens: int, numbers: tuple[str, ...]
) -> None:
    engine = make_engine(qwen3)
    with pytest.raises(native().RequestRefused) as refusal:
        engine.submit(prompts_of([length])[0], new_tokens)
    assert all(number in str(refusal.value) for number in numbers), refusal.value
    assert results([engine.submit(prompts_of([99])[0], 669)])[0][1] == "length"  # and the queue goes on, to the last position
    stats = engine.stats()
    assert (stats["submitted"], stats["refused"], stats["finished"]) == (2, 1, 1)
    assert_adds_up(stats)


@pytest.mark.parametrize("token", [-1, 509])
def test_foreign_tokens_are_refused(qwen3: Model, make_engine: MakeEngine, token: int) -> None:
    with pytest.raises(native().RequestRefused, match=rf"prompt_ids\[1\] = {token}: token ids are 0 .. 508"):
        make_engine(qwen3).submit(np.array([3, token], np.int32), 2)


@pytest.mark.parametrize("sampling", [{"temperature": -1.0}, {"temperature": float("nan")}, {"top_k": -1}, {"top_p": 0.0}])
def test_senseless_sampling_is_refused(qwen3: Model, make_engine: MakeEngine, sampling: dict[str, float]) -> None:
    with pytest.raises(native().RequestRefused, match=next(iter(sampling))):
        make_engine(qwen3).submit(prompts_of([4])[0], 2, **sampling)


def test_a_full_queue_refuses_with_its_numbers(qwen3: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(qwen3, slots=1, queue_limit=3)
    running = engine.submit(prompts_of([8])[0], 700)
    until(lambda: running.state == "decode", "never decodes")
    waiting = engine.submit_all(prompts_of([8] * 2), 2)
    with pytest.raises(native().RequestRefused, match="2 requests wait, 2 more exceed queue_limit = 3"):
        engine.submit_all(prompts_of([8] * 2), 2)
    waiting.append(engine.submit(prompts_of([8])[0], 2))
    with pytest.raises(native().RequestRefused, match="queue_limit = 3"):
        engine.submit(prompts_of([8])[0], 2)
    stats = engine.stats()
    assert (stats["waiting"], stats["refused"]) == (3, 3)
    assert_adds_up(stats)
    running.cancel()
    assert [reason for _, reason in results([running, *waiting])] == ["cancelled", "length", "length", "length"]


def test_cancel_while_waiting_prefilling_and_decoding(hybrid: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(hybrid, slots=2, context=16384)
    decoding = engine.submit(prompts_of([8])[0], 16000)
    until(lambda: decoding.state == "decode", "never decodes")
    prefilling = engine.submit(prompts_of([15000])[0], 5)
    until(lambda: prefilling.state == "prefill", "never prefills")
    waiting = engine.submit(prompts_of([8])[0], 5)
    other = engine.submit(prompts_of([9])[0], 5)
    for request in (waiting, prefilling, decoding):
        request.cancel()
        request.cancel()
    ended = results([waiting, prefilling, decoding, other])
    assert ended[0] == ([], "cancelled")
    assert ended[1] == ([], "cancelled")
    assert ended[2][1] == "cancelled"
    assert 0 < len(ended[2][0]) < 16000
    assert ended[3][1] == "length"
    assert waiting.admitted_ns == 0
    assert waiting.finished_ns > 0
    stats = engine.stats()
    assert (stats["cancelled"], stats["dropped"], stats["finished"]) == (3, 1, 1)
    assert_adds_up(stats)


def test_a_slot_freed_by_a_cancel_serves_the_next_as_new(hybrid: Model, make_engine: MakeEngine) -> None:
    prompt = prompts_of([70])[0]
    expected = results([make_engine(hybrid, mode="serial").submit(prompt, 10)])
    engine = make_engine(hybrid, slots=1)
    for length in (5, 90, 400):
        victim = engine.submit(prompts_of([length], seed=length)[0], 300)
        victim.wait_tokens(3, DEADLINE_S)
        victim.cancel()
        assert results([engine.submit(prompt, 10)]) == expected


def test_cancelling_what_is_done_changes_nothing(qwen3: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(qwen3)
    request = engine.submit(prompts_of([8])[0], 3)
    ended = results([request])
    request.cancel()
    assert results([request, engine.submit(prompts_of([8])[0], 3)]) == ended * 2
    assert engine.stats()["cancelled"] == 0


@pytest.mark.parametrize("tp", [1, 4])
def test_close_gives_every_request_a_definite_outcome(hybrid: Model, make_engine: MakeEngine, tp: int) -> None:
    engine = make_engine(hybrid, tp=tp, slots=2, context=8192)
    done = engine.submit(prompts_of([4])[0], 2)
    results([done])
    requests = engine.submit_all(prompts_of([8, 4000, 8, 8]), 4000)
    until(lambda: len(requests[0].tokens()) > 0, "no token")
    closers = [threading.Thread(target=engine.close) for _ in range(3)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(DEADLINE_S)
        assert not closer.is_alive()
    assert [reason for _, reason in results(requests)] == ["closed"] * 4
    assert done.finish_reason == "length"
    assert len(requests[0].tokens()) == len(requests[0].token_times_ns()) > 0
    stats = engine.stats()
    assert (stats["closed"], stats["running"], stats["waiting"]) == (4, 0, 0)
    assert_adds_up(stats)
    for call in (
        lambda: engine.submit(prompts_of([4])[0], 2),
        engine.memory,
        lambda: engine.step_bytes(1, 1),
        engine.finish_loading,
    ):
        with pytest.raises(native().EngineClosed):
            call()
    engine.close()


def test_a_handle_outlives_its_engine(qwen3: Model) -> None:
    engine = native().Engine(
        native().ModelConfig(**qwen3.config), native().EngineOptions(mode="batch", tp=2, slots=2, context=2048, threads=2)
    )
    qwen3.load(engine, 2)
    request = engine.submit(prompts_of([8])[0], 2000, keep_logits=True)
    request.wait_tokens(0, DEADLINE_S)
    del engine  # dropped without close
    assert request.wait(DEADLINE_S)
    assert request.finish_reason == "closed"
    assert request.logits().shape == (len(request.tokens()), 509)


def test_waits_return_in_time_and_tokens_arrive_one_by_one(qwen3: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(qwen3, slots=1, context=4096)
    first, second = engine.submit_all(prompts_of([8, 8]), 4000)
    assert second.wait(0.01) is False
    assert second.wait_tokens(0, 0.01) == 0
    seen = 0
    while seen < 20:
        now = first.wait_tokens(seen, DEADLINE_S)
        assert now > seen
        seen = now
    first.cancel()
    second.cancel()
    results([first, second])
    assert first.wait_tokens(10_000, DEADLINE_S) == len(first.tokens())  # done: returns at once


def test_many_threads_submit_cancel_and_wait_while_counters_add_up(hybrid: Model, make_engine: MakeEngine) -> None:
    prompts = prompts_of([1, 3, 16, 65, 97, 300])
    expected = [tokens for tokens, _ in results(make_engine(hybrid, mode="serial").submit_all(prompts, 12))]
    engine = make_engine(hybrid, tp=2, slots=4)
    reference = [tokens for tokens, _ in results(make_engine(hybrid, mode="serial", tp=2).submit_all(prompts, 12))]
    assert len(expected) == len(reference)
    wrong: list[str] = []
    over = threading.Event()

    def client(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(25):
            which = int(random.integers(len(prompts)))
            length = int(random.integers(1, 13))
            request = engine.submit(prompts[which], length)
            if random.random() < 0.2:
                request.cancel()
            if not request.wait(DEADLINE_S):
                wrong.append(f"request {request.id} hangs")
                return
            tokens = request.tokens()
            whole = request.finish_reason == "length" and len(tokens) == length
            if tokens != reference[which][: len(tokens)] or not (whole or request.finish_reason == "cancelled"):
                wrong.append(f"request {request.id}: {request.finish_reason} {tokens}")

    def watch() -> None:
        while not over.is_set():
            try:
                assert_adds_up(engine.stats())
            except AssertionError as error:
                wrong.append(str(error))

    clients = [threading.Thread(target=client, args=(seed,)) for seed in range(8)]
    watcher = threading.Thread(target=watch)
    for thread in (watcher, *clients):
        thread.start()
    for thread in clients:
        thread.join()
    over.set()
    watcher.join()
    assert wrong == []
    stats = engine.stats()
    assert stats["submitted"] == 200 == stats["finished"] + stats["cancelled"]


def test_reset_peaks_keeps_the_counters(qwen3: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(qwen3)
    results(engine.submit_all(prompts_of([8] * 5), 4))
    before = engine.stats()
    assert (before["peak_running"], sum(before["rows_per_step"].values())) == (5, before["decode_steps"])
    engine.reset_peaks()
    after = engine.stats()
    assert (after["peak_running"], after["peak_waiting"], after["rows_per_step"]) == (0, 0, {})
    changed = {"peak_running", "peak_waiting", "rows_per_step"}
    assert {key: value for key, value in after.items() if key not in changed} == {
        key: value for key, value in before.items() if key not in changed
    }


def test_an_idle_engine_takes_no_processor_time(qwen3: Model, make_engine: MakeEngine) -> None:
    engine = make_engine(qwen3, tp=2, threads=4)
    results(engine.submit_all(prompts_of([8] * 4), 4))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(1.0)
    assert time.process_time() - before <= 0.01  # the goal over 10 s is 0.2 %; a spinning thread would take 1 s


def test_logits_that_are_not_finite_end_their_request_alone(make_engine: MakeEngine, qwen3: Model) -> None:
    embed = qwen3.embed.copy()
    embed[7] = 0x7F80  # infinity
    poisoned = Model(qwen3.config, qwen3.matrices, qwen3.vectors, embed)
    engine = make_engine(poisoned)
    clean = np.array([1, 2, 3], np.int32)
    requests = [engine.submit(np.array([1, 7, 3], np.int32), 4), engine.submit(clean, 1)]
    ended = results(requests)
    assert ended[0] == ([], "error")
    assert requests[0].error == "token 0: the logits are not finite"
    assert ended[1][1] == "length"
    assert engine.stats()["failed"] == 1
    assert_adds_up(engine.stats())
