"""The native engine against float32 transformers, and serial mode against batch mode, on folders that transformers wrote.

The reference is given the tokens that the engine chose (teacher forcing), so that one choice within the error does not cascade.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from engine import Generation, Session, SessionOptions
from engine.compare import Agreement, compare, relative_error

NEW_TOKENS = 6
ROUNDED = 8e-3  # relative error left once the reference rounds as the engine does
KINDS = ("dense", "dense-tied", "hybrid", "hybrid-tied", "hybrid-fp8", "hybrid-fp8-ragged", "dense-fp8-ue8m0")
Record = Callable[[str, int, int, Agreement, float], None]


def lengths(kind: str) -> tuple[int, ...]:
    return (1, 16, 97, 300) if kind.startswith("hybrid") else (1, 16, 97)


def session(oracle: Any, mode: Any, tp: int, **options: Any) -> Session:
    return Session.open(oracle.folder, SessionOptions(mode=mode, tp=tp, context=320, slots=8, **options))


def held_against(oracle: Any, prompt: list[int], generation: Generation) -> tuple[Agreement, float]:
    """The engine's logits against the oracle's for the same tokens, and its tokens against its own logits.

    Also the relative error against the reference with the engine's own BF16 rounding. The two differ by the order of sums, and by
    the roundings that this turns: a wrong kernel shows there even where the tolerance would hide it.
    """
    assert generation.logits is not None
    assert generation.tokens == tuple(generation.logits.argmax(axis=-1))  # the lowest index wins a tie
    assert generation.finish_reason == "length"
    exact, rounded = oracle.logits([*prompt, *generation.tokens[:-1]], len(generation.tokens))
    return compare(generation.logits, exact), relative_error(generation.logits, rounded)


def same(left: Generation, right: Generation) -> bool:
    """Bitwise the same tokens and logits."""
    assert left.logits is not None
    assert right.logits is not None
    return left.tokens == right.tokens and left.logits.tobytes() == right.logits.tobytes()


@pytest.fixture(scope="module", params=[(kind, tp) for kind in KINDS for tp in (1, 2, 4)], ids=lambda p: f"{p[0]}-tp{p[1]}")
def served(request: pytest.FixtureRequest, oracles: Callable[[str], Any]) -> Iterator[tuple[str, int, Any, Session]]:
    kind, tp = request.param
    oracle = oracles(kind)
    with session(oracle, "batch", tp) as opened:
        yield kind, tp, oracle, opened


def test_logits_and_greedy_choices(served: tuple[str, int, Any, Session], record: Record) -> None:
    kind, tp, oracle, opened = served
    prompts = [oracle.prompt(length) for length in lengths(kind)]
    for prompt, generation in zip(prompts, opened.generate(prompts, NEW_TOKENS, keep_logits=True), strict=True):
        found, rounded = held_against(oracle, prompt, generation)
        record(kind, tp, len(prompt), found, rounded)
        assert found.passed, f"{kind} tp {tp} prompt {len(prompt)}: {found}"
        assert rounded < ROUNDED


def test_serial_equals_batch_bitwise(served: tuple[str, int, Any, Session]) -> None:
    _, tp, oracle, opened = served
    prompts = [oracle.prompt(length, seed) for seed, length in enumerate((1, 16, 97, 5, 16, 33, 64, 2))]
    with session(oracle, "serial", tp) as one_by_one:
        serial = one_by_one.generate(prompts, NEW_TOKENS, keep_logits=True)
        assert one_by_one.stats().peak_running == 1
    opened.reset_peaks()
    batch = opened.generate(prompts, NEW_TOKENS, keep_logits=True)
    assert opened.stats().peak_running == len(prompts)
    turned = opened.generate(prompts[::-1], NEW_TOKENS, keep_logits=True)[::-1]
    pair = opened.generate(prompts[2:4], NEW_TOKENS, keep_logits=True)
    alone = opened.generate(prompts[2:3], NEW_TOKENS, keep_logits=True)
    assert all(map(same, serial, batch))
    assert all(map(same, serial, turned))
    assert all(map(same, serial[2:4], pair))
    assert same(serial[2], alone[0])


def test_requests_that_join_a_running_batch(oracles: Callable[[str], Any]) -> None:
    """Slots used again, and prompts that prefill while others decode, leave no trace."""
    oracle = oracles("hybrid")
    prompts = [oracle.prompt(length, 9) for length in (40, 3, 97, 1, 22, 60)]
    with session(oracle, "serial", 2) as one_by_one:
        serial = one_by_one.generate(prompts, 9, keep_logits=True)
    with Session.open(oracle.folder, SessionOptions(mode="batch", tp=2, context=320, slots=2)) as two_slots:
        handles = [two_slots.submit(prompt, 9, keep_logits=True) for prompt in prompts]
        assert all(map(same, serial, [handle.result(60) for handle in handles]))
        assert two_slots.stats().peak_running == 2


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["amx", "avx512_bf16", "avx512", "avx2", "portable"])
@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kernel_path(
    kind: str, tp: int, isa: str, oracles: Callable[[str], Any], native_module: Any, record: Record
) -> None:
    if not native_module.isa_paths()[isa]:
        pytest.skip(f"this CPU does not run {isa}")
    oracle = oracles(kind)
    prompts = [oracle.prompt(length, seed) for seed in range(3) for length in (*lengths(kind), 7, 128)]
    with session(oracle, "batch", tp, isa=isa) as opened, session(oracle, "serial", tp, isa=isa) as one_by_one:
        batch = opened.generate(prompts, NEW_TOKENS, keep_logits=True)
        serial = one_by_one.generate(prompts, NEW_TOKENS, keep_logits=True)
    assert all(map(same, serial, batch))
    for prompt, generation in zip(prompts, batch, strict=True):
        found, rounded = held_against(oracle, prompt, generation)
        record(f"{kind} {isa}", tp, len(prompt), found, rounded)
        assert found.passed, f"{kind} tp {tp} {isa} prompt {len(prompt)}: {found}"
        assert rounded < ROUNDED
    assert np.mean([len(set(g.tokens)) for g in batch]) > 3  # greedy outputs are no constant
