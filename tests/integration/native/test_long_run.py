"""Ten thousand requests from eight threads: every outcome is right, the counters close, and memory stays flat."""

import threading
from pathlib import Path

import numpy as np
import pytest
from native_support import DEADLINE_S, MakeEngine, Model, assert_adds_up, prompts_of, results

REQUESTS = 10_000
THREADS = 8
GROWTH_BYTES = 8 << 20  # the handles that are alive at once, allocator slack


def resident_bytes() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


@pytest.mark.slow
@pytest.mark.parametrize("tp", [1, 4])
def test_ten_thousand_requests_leave_memory_flat(hybrid: Model, make_engine: MakeEngine, tp: int) -> None:
    prompts = prompts_of([1, 2, 5, 9, 16, 31, 65, 97])
    expected = [tokens for tokens, _ in results(make_engine(hybrid, mode="serial", tp=tp).submit_all(prompts, 12))]
    engine = make_engine(hybrid, tp=tp)
    wrong: list[str] = []
    curve: list[int] = []

    def client(seed: int, count: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(count):
            which, length = int(random.integers(len(prompts))), int(random.integers(1, 13))
            stops = [expected[which][int(random.integers(12))]] if random.random() < 0.25 else []
            request = engine.submit(prompts[which], length, stop_ids=stops, keep_logits=bool(random.random() < 0.1))
            if random.random() < 0.2:
                request.cancel()
            if not request.wait(DEADLINE_S):
                wrong.append(f"request {request.id} hangs")
                return
            tokens, reason = request.tokens(), request.finish_reason
            ended = {"length": len(tokens) == length, "stop": bool(tokens) and tokens[-1] in stops, "cancelled": True}
            if tokens != expected[which][: len(tokens)] or not ended.get(reason, False):
                wrong.append(f"request {request.id}: {reason} {tokens}")

    for part in range(10):
        threads = [
            threading.Thread(target=client, args=(100 * part + seed, REQUESTS // THREADS // 10)) for seed in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        curve.append(resident_bytes())
        assert_adds_up(engine.stats())
    assert wrong == []
    stats = engine.stats()
    assert stats["submitted"] == REQUESTS == stats["finished"] + stats["cancelled"]
    assert max(curve[2:]) - curve[1] <= GROWTH_BYTES, curve
    print(f"tp {tp}: {stats['finished']} finished, {stats['cancelled']} cancelled; resident MiB {[size >> 20 for size in curve]}")
