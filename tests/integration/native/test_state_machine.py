"""Random histories of submits, cancels, waits and a close, held against what a serial engine gives and against the counters."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from native_support import DEADLINE_S, assert_adds_up, build, prompts_of, results

from engine.binding import native

LENGTHS = [1, 7, 64, 65, 150, 300]
PROMPTS = prompts_of(LENGTHS)
MODEL = build("qwen3_5", ["linear_attention", "full_attention"])
NEW_TOKENS = 12
QUEUE_LIMIT = 6
_expected: dict[int, list[list[int]]] = {}


def open_engine(mode: str, tp: int) -> Any:
    options = native().EngineOptions(mode=mode, tp=tp, slots=3, context=320, threads=tp, queue_limit=QUEUE_LIMIT)
    engine = native().Engine(native().ModelConfig(**MODEL.config), options)
    MODEL.load(engine, tp)
    return engine


def expected(tp: int) -> list[list[int]]:
    """What a serial engine on `tp` ranks makes of each prompt."""
    if tp not in _expected:
        engine = open_engine("serial", tp)
        _expected[tp] = [tokens for tokens, _ in results(engine.submit_all(PROMPTS, NEW_TOKENS))]
        engine.close()
    return _expected[tp]


class Histories(RuleBasedStateMachine):
    """The real engine is the system; the model is what each request may end as, given what was done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.engine: Any = None
        self.requests: list[tuple[Any, int, int, list[int]]] = []  # handle, prompt, length, stop ids
        self.cancelled: set[int] = set()
        self.refused = 0
        self.closed = False

    @initialize(tp=st.sampled_from([1, 2]), mode=st.sampled_from(["batch", "batch", "serial"]))
    def start(self, tp: int, mode: str) -> None:
        self.tokens = expected(tp)
        self.engine = open_engine(mode, tp)

    @precondition(lambda self: not self.closed)
    @rule(prompt=st.sampled_from(range(len(PROMPTS))), length=st.integers(1, NEW_TOKENS), stop=st.integers(-1, NEW_TOKENS - 1))
    def submit(self, prompt: int, length: int, stop: int) -> None:
        stops = [self.tokens[prompt][stop]] if stop >= 0 else []
        try:
            request = self.engine.submit(PROMPTS[prompt], length, stop_ids=stops)
        except native().RequestRefused:
            self.refused += 1
            assert len(self.requests) >= QUEUE_LIMIT  # only a full queue refuses this
            return
        self.requests.append((request, prompt, length, stops))

    @precondition(lambda self: not self.closed)
    @rule(prompt=st.sampled_from(range(len(PROMPTS))))
    def submit_too_much(self, prompt: int) -> None:
        with pytest.raises(native().RequestRefused, match="321 positions"):
            self.engine.submit(PROMPTS[prompt], 321 - LENGTHS[prompt])
        self.refused += 1

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.requests) - 1))
        self.requests[index][0].cancel()
        self.cancelled.add(index)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def wait_for_one(self, data: st.DataObject) -> None:
        request = self.requests[data.draw(st.integers(0, len(self.requests) - 1))][0]
        assert request.wait(DEADLINE_S)
        assert request.state == "done"

    @precondition(lambda self: self.requests)
    @rule(seen=st.integers(0, 3))
    def wait_for_tokens(self, seen: int) -> None:
        request = self.requests[-1][0]
        count = request.wait_tokens(seen, DEADLINE_S)
        assert count > seen or request.state == "done"

    @rule()
    def close(self) -> None:
        self.engine.close()
        self.closed = True

    @invariant()
    def counters_add_up(self) -> None:
        if self.engine is None:
            return
        stats = self.engine.stats()
        assert_adds_up(stats)
        assert stats["submitted"] == len(self.requests) + self.refused
        assert stats["refused"] == self.refused
        assert stats["running"] <= 3
        assert stats["waiting"] <= QUEUE_LIMIT

    def teardown(self) -> None:
        if self.engine is None:
            return
        outcomes = results([request for request, *_ in self.requests])
        for index, ((_, prompt, length, stops), (tokens, reason)) in enumerate(zip(self.requests, outcomes, strict=True)):
            whole = self.tokens[prompt][:length]
            assert tokens == whole[: len(tokens)]
            stopped = bool(tokens) and tokens[-1] in stops
            assert not set(tokens[:-1]) & set(stops)
            match reason:
                case "length":
                    assert (len(tokens), stopped) == (length, False)
                case "stop":
                    assert stopped
                case "cancelled":
                    assert index in self.cancelled
                case _:
                    assert (reason, self.closed) == ("closed", True)
        stats = self.engine.stats()
        assert (stats["running"], stats["waiting"]) == (0, 0)
        assert stats["generated_tokens"] == sum(len(tokens) for tokens, _ in outcomes)
        self.engine.close()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
)
