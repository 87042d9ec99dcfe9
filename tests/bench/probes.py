"""What this machine can do at best: how fast all its cores read memory, and how fast they multiply in BF16.

A share of a limit is only as honest as the limit, so each probe tries several ways and keeps the best of the run.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

READ_BYTES = 2**30
SIDE = 2048  # of the square matrices multiplied


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0))


def best_of(count: int, action: Callable[[], object]) -> float:
    """Seconds of the fastest of `count` calls."""
    walls = []
    for _ in range(count):
        started = time.monotonic()
        action()
        walls.append(time.monotonic() - started)
    return min(walls)


class Probes:
    """Both limits, each the best that any call has found. Arrays are faulted in once, when it is made."""

    def __init__(self) -> None:
        threads = cores()
        torch.set_num_threads(threads)
        self.pool = ThreadPoolExecutor(threads)
        length = READ_BYTES // 8 // threads
        self.integers = list(self.pool.map(lambda fill: np.full(length, fill, np.int64), range(1, threads + 1)))
        self.narrow = [torch.from_numpy(array.view(np.float32)) for array in self.integers]
        self.square = torch.randn(SIDE, SIDE).to(torch.bfloat16)
        self.bytes_per_s = 0.0
        self.flops_per_s = 0.0

    def read(self) -> float:
        """Bytes/s of this call's best way of reading, each tried twice."""
        ways: list[Callable[[], object]] = [
            lambda: list(self.pool.map(np.max, self.integers)),
            lambda: list(self.pool.map(np.bitwise_or.reduce, self.integers)),
            lambda: [torch.sum(part) for part in self.narrow],  # torch splits each over the threads itself
        ]
        found = max(READ_BYTES / best_of(2, way) for way in ways)
        self.bytes_per_s = max(self.bytes_per_s, found)
        return found

    def multiply(self) -> float:
        """FLOP/s of this call's best square BF16 product by torch (oneDNN), a multiplication and an addition counted as two."""
        found = 2 * SIDE**3 / best_of(3, lambda: self.square @ self.square)
        self.flops_per_s = max(self.flops_per_s, found)
        return found
