"""Sessions, handles and their ends, on the real compiled module."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import (
    CheckpointError,
    ConfigError,
    EngineClosed,
    OutOfMemory,
    RequestFailed,
    RequestRefused,
    Sampling,
    Session,
    SessionOptions,
)
from engine.check import check

PROMPT = [5, 6, 7]


@pytest.fixture(scope="module")
def folder(checkpoints: Callable[[str], Path]) -> Path:
    return checkpoints("tiny")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    with Session.open(folder, SessionOptions(mode="batch", tp=2, context=64, slots=2, queue_limit=64)) as opened:
        yield opened


@pytest.fixture
def busy(folder: Path) -> Iterator[tuple[Session, Any]]:
    """A session whose only slot runs a request that nobody waits for: 30,000 tokens are not made in a test's time."""
    with Session.open(folder, SessionOptions(mode="serial", context=32_000)) as opened:
        handle = opened.submit(PROMPT, 30_000)
        while not handle.tokens:
            time.sleep(0.001)
        yield opened, handle


def test_generation_has_tokens_times_and_logits(session: Session) -> None:
    before = time.monotonic()
    (generation,) = session.generate([PROMPT], 5, keep_logits=True)
    assert len(generation.tokens) == 5
    assert generation.finish_reason == "length"
    assert generation.admitted_s is not None
    moments = [before, generation.submitted_s, generation.admitted_s, *generation.token_times_s]
    assert moments == sorted(moments)
    assert generation.finished_s <= time.monotonic()
    assert generation.logits is not None
    assert generation.logits.shape == (5, 512)
    assert session.generate([PROMPT], 5)[0].logits is None
    assert session.submit(np.array(PROMPT), 5).result(10).tokens == generation.tokens


def test_facts_and_memory(session: Session) -> None:
    facts = session.facts
    assert (facts.model, facts.family, facts.tp, facts.slots, facts.context, facts.vocab_size) == ("tiny", "qwen3", 2, 2, 64, 512)
    assert facts.isa in ("amx", "avx512_bf16", "avx512", "avx2", "portable")
    assert facts.threads_per_rank >= 1
    assert facts.load_seconds > 0
    assert len(facts.checkpoint_digest) == 64
    assert session.memory()["weights"] > 900_000
    assert session.step_bytes(2, 32) > session.step_bytes(1, 32) > 0


def test_a_stop_id_ends_its_request_and_no_other(session: Session) -> None:
    free = session.generate([PROMPT, [9, 9]], 8)
    stop = free[0].tokens[2]
    handles = [session.submit(PROMPT, 8, stop_ids=[stop]), session.submit([9, 9], 8)]
    first, second = (handle.result(10) for handle in handles)
    assert first.finish_reason == "stop"
    assert first.tokens == free[0].tokens[: free[0].tokens.index(stop) + 1]
    assert second.tokens == free[1].tokens


def test_callbacks_come_in_order_from_another_thread(session: Session) -> None:
    seen: list[tuple[int, str]] = []
    handle = session.submit(PROMPT, 6, on_token=lambda token: seen.append((token, threading.current_thread().name)))
    result = handle.result(10)
    assert [token for token, _ in seen] == list(result.tokens)
    assert {name for _, name in seen} == {f"paceline-request-{handle.id}"}
    assert handle.done
    assert handle.error is None


def test_a_callback_may_use_the_session(session: Session) -> None:
    """No lock is held around a callback: it may submit, wait and look at its own handle."""
    inner: list[tuple[int, ...]] = []
    handle = session.submit(PROMPT, 2, on_token=lambda _: inner.append(session.submit(PROMPT, 2).result(10).tokens))
    expected = handle.result(20).tokens
    assert inner == [expected, expected]


def test_a_raising_callback_ends_its_own_request_only(session: Session) -> None:
    def fail(_token: int) -> None:
        raise KeyError("mine")

    failing, fine = session.submit(PROMPT, 50, on_token=fail), session.submit(PROMPT, 5)
    with pytest.raises(RequestFailed, match="on_token callback raised KeyError: 'mine'") as caught:
        failing.result(10)
    assert isinstance(caught.value.__cause__, KeyError)
    assert isinstance(failing.error, KeyError)
    assert len(fine.result(10).tokens) == 5


def test_async_iteration(session: Session) -> None:
    async def collect(prompt: list[int]) -> list[int]:
        return [token async for token in session.submit(prompt, 6)]

    async def both() -> list[list[int]]:
        return await asyncio.gather(collect(PROMPT), collect([9, 9]), collect([1]))

    expected = [list(g.tokens) for g in session.generate([PROMPT, [9, 9], [1]], 6)]
    assert asyncio.run(both()) == expected


def test_async_iteration_may_be_left(busy: tuple[Session, Any]) -> None:
    _, handle = busy

    async def first_two() -> list[int]:
        tokens: list[int] = []
        async for token in handle:
            tokens.append(token)
            if len(tokens) == 2:
                break
        return tokens

    assert tuple(asyncio.run(first_two())) == handle.tokens[:2]
    assert not handle.done


def test_cancelled_while_decoding_and_while_waiting(busy: tuple[Session, Any]) -> None:
    session, running = busy
    waiting = session.submit(PROMPT, 5)
    with pytest.raises(TimeoutError, match=r"request \d+: not done after 0\.05 s \(state waiting\)"):
        waiting.result(0.05)
    waiting.cancel()
    assert (waiting.result(10).finish_reason, waiting.result().tokens, waiting.result().admitted_s) == ("cancelled", (), None)
    running.cancel()
    assert running.result(10).finish_reason == "cancelled"
    assert len(session.submit(PROMPT, 5).result(10).tokens) == 5
    stats = session.stats()
    assert (stats.running, stats.waiting, stats.peak_running, stats.peak_waiting) == (0, 0, 1, 1)


def test_close_ends_every_request_and_is_idempotent(busy: tuple[Session, Any]) -> None:
    session, running = busy
    waiting = session.submit(PROMPT, 5)
    session.close()
    session.close()
    assert [handle.result(10).finish_reason for handle in (running, waiting)] == ["closed", "closed"]
    with pytest.raises(EngineClosed):
        session.submit(PROMPT, 5)
    with pytest.raises(EngineClosed):
        session.generate([PROMPT], 5)


def test_generate_that_is_cut_short_says_so(busy: tuple[Session, Any]) -> None:
    session, _ = busy
    threading.Timer(0.1, session.close).start()
    with pytest.raises(RequestFailed, match="closed after 0 of 5 tokens"):
        session.generate([PROMPT], 5)


@pytest.mark.parametrize(
    ("prompt", "tokens", "message"),
    [
        ([], 5, "prompt: found 0 token ids"),
        ([1, 512], 5, "prompt: position 1: found token id 512, expected 0 to 511"),
        ([-1], 5, "prompt: position 0: found token id -1"),
        ([1.5], 5, "prompt: found float64 of shape"),
        ([[1, 2]], 5, r"prompt: found int64 of shape \[1, 2\]"),
        (PROMPT, 0, "max_new_tokens: found 0"),
        (PROMPT, True, "max_new_tokens: found True"),
        (PROMPT, 62, "65"),  # 3 + 62 positions of 64
    ],
)
def test_what_can_never_run_is_refused_with_its_numbers(session: Session, prompt: Any, tokens: int, message: str) -> None:
    with pytest.raises(RequestRefused, match=message):
        session.submit(prompt, tokens)
    with pytest.raises(RequestRefused, match=message):
        session.generate([prompt], tokens)
    assert len(session.submit(PROMPT, 3).result(10).tokens) == 3


def test_a_full_queue_refuses(folder: Path) -> None:
    with Session.open(folder, SessionOptions(mode="serial", context=32_000, queue_limit=2)) as session:
        handles = [session.submit(PROMPT, 30_000)]
        while not handles[0].tokens:
            time.sleep(0.001)
        handles += [session.submit(PROMPT, 5) for _ in range(2)]
        with pytest.raises(RequestRefused, match="2"):
            session.submit(PROMPT, 5)
        assert session.stats().refused == 1


def test_from_many_threads_at_once(session: Session) -> None:
    expected = {n: session.generate([[n, n + 1]], 6)[0].tokens for n in range(8)}
    wrong: list[int] = []

    def work(n: int) -> None:
        for _ in range(6):
            if session.submit([n, n + 1], 6).result(30).tokens != expected[n]:
                wrong.append(n)  # noqa: PERF401 - it is the waiting that matters

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_counters_add_up(session: Session) -> None:
    before = session.stats()
    session.reset_peaks()
    session.generate([PROMPT] * 5, 4)
    after = session.stats()
    assert after.submitted - before.submitted == after.finished - before.finished == 5
    assert after.generated_tokens - before.generated_tokens == 20
    assert after.prompt_tokens - before.prompt_tokens == 15
    assert (after.peak_running, after.running, after.waiting) == (2, 0, 0)
    assert (
        sum(rows * steps for rows, steps in after.rows_per_step.items()) == 15
    )  # the first token of each comes from its prefill


def test_sampling_is_seeded_and_the_same_in_any_batch(session: Session) -> None:
    def sample(seed: int) -> Any:
        return session.submit(PROMPT, 12, sampling=Sampling(temperature=1.5, top_k=40, top_p=0.95, seed=seed))

    alone = [sample(seed).result(10).tokens for seed in (1, 2)]
    together = [handle.result(10).tokens for handle in [sample(1), sample(2)]]
    assert alone == together
    assert alone[0] != alone[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tp": 3}, "tp: found 3, which does not divide num_attention_heads 8"),
        ({"context": 50_000}, "context: found 50000; the model's max_position_embeddings allows 40960"),
        ({"devices": "cuda"}, "devices: found 'cuda'; this build has: cpu"),
        ({"isa": "neon"}, "isa: found 'neon'; on this CPU: auto"),
    ],
)
def test_options_the_model_or_build_cannot_serve(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Session.open(folder, SessionOptions(**{"mode": "batch", **options}))


def resident(folder: Path) -> int:
    """Bytes of the folder's files that this process has mapped pages of."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.partition(" ")[0]:
            inside = line.endswith(".safetensors") and str(folder) in line
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


def test_the_file_leaves_memory_once_it_is_packed(copy_of: Callable[[str], Path]) -> None:
    """All but what the kernel maps around a read, which is much of so small a file."""
    folder = copy_of("tiny-hybrid")
    whole = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    with Session.open(folder, SessionOptions(mode="batch", tp=2, context=64, slots=2)) as session:
        assert resident(folder) < whole / 2
        assert len(session.generate([PROMPT], 4)[0].tokens) == 4  # the embedding is read from the file again


def test_a_context_larger_than_memory_says_what_lowers_it(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("tiny")
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace("40960", str(1 << 20)))
    options = SessionOptions(mode="batch", context=1 << 20, slots=1024)  # 1 TB of keys and values
    with pytest.raises(OutOfMemory, match=r"(?s)\d.*(context|slots)"):
        Session.open(folder, options)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        Session.open(tmp_path / "nowhere", SessionOptions(mode="batch"))


def test_what_is_skipped_is_said_once(
    checkpoints: Callable[[str], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    tensors: dict[str, torch.Tensor] = {"mtp.fc.weight": torch.zeros(2)}
    for path in checkpoints("tiny").glob("*.safetensors"):
        tensors |= load_file(path)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((checkpoints("tiny") / "config.json").read_text())
    with Session.open(tmp_path, SessionOptions(mode="batch", tp=4)) as opened:
        assert opened.facts.skipped == "1 tensors mtp.*"
    assert [record.getMessage() for record in caplog.records] == [f"{tmp_path}: skipped: 1 tensors mtp.*"]


@pytest.mark.parametrize("shape", ["tiny", "tiny-fp8"])
def test_check_passes_on_a_sound_checkpoint(checkpoints: Callable[[str], Path], shape: str) -> None:
    said: list[str] = []
    report = check(checkpoints(shape), SessionOptions(mode="batch", tp=2, context=128), prompt_lengths=(1, 33), say=said.append)
    assert report.passed, report.lines()
    assert max(agreement.relative_error for agreement in report.rounded) < 8e-3
    assert [d.layers for d in report.depths] == [1, 2] if shape == "tiny" else [1, 2, 3, 4]
    assert any("after layer   0" in line for line in report.lines())


def test_check_finds_the_layer_that_parts(checkpoints: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference whose third layer has another norm: the check names that layer and no other."""
    from engine.reference import Reference

    original = Reference._vector

    def altered(self: Reference, name: str) -> Any:
        values = original(self, name)
        return values * 1.2 if name == "layers.2.linear_attn.norm.weight" else values

    monkeypatch.setattr(Reference, "_vector", altered)
    report = check(checkpoints("tiny-hybrid"), SessionOptions(mode="batch", context=128), prompt_lengths=(16,))
    assert not report.passed
    assert report.parts_at == 3
    assert "they part in layer 2" in "\n".join(report.lines())
