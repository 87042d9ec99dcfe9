"""Decode steps of one checkpoint against the speed at which this machine reads memory, both taken in the same run.

    python tests/bench/bench_decode.py [CHECKPOINT] [--tp 1,4] [--widths 1,2,4,8,16] [--rounds 5]

The probe reads arrays far larger than a cache with all cores, before and after each width; a share is of the better of the two.
A share over 100 % means that the probe was disturbed, and voids the row. Run it on a machine that does nothing else.
"""

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from rich.console import Console
from rich.table import Table

from engine import Session, SessionOptions

PROMPT, NEW = 16, 32
PROBE_BYTES = 2**30


class Probe:
    """Reads memory with every core; the pages are faulted in once, when it is made."""

    def __init__(self) -> None:
        self.threads = len(os.sched_getaffinity(0))
        self.pool = ThreadPoolExecutor(self.threads)
        self.arrays = list(
            self.pool.map(lambda fill: np.full(PROBE_BYTES // 8 // self.threads, fill, np.int64), range(self.threads))
        )

    def bytes_per_s(self) -> float:
        """The better of two passes."""
        walls = []
        for _ in range(2):
            started = time.monotonic()
            list(self.pool.map(np.max, self.arrays))
            walls.append(time.monotonic() - started)
        return PROBE_BYTES / min(walls)


def step_seconds(session: Session, width: int, rounds: int) -> list[float]:
    """Seconds of a decode step in each round of `width` requests, the mean over the round's steps."""
    generator = np.random.default_rng(width)
    steps = []
    for _ in range(rounds + 1):
        prompts = [generator.integers(0, session.facts.vocab_size, PROMPT).tolist() for _ in range(width)]
        before = session.stats()
        session.generate(prompts, NEW)
        after = session.stats()
        steps.append((after.decode_seconds - before.decode_seconds) / (after.decode_steps - before.decode_steps))
    return steps[1:]  # the first round warms up


def main() -> None:
    """Print one table a TP."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", nargs="?", default="synthetic:small")
    parser.add_argument("--tp", default="1,4")
    parser.add_argument("--widths", default="1,2,4,8,16")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    widths = [int(width) for width in arguments.widths.split(",")]
    probe = Probe()
    for tp in map(int, arguments.tp.split(",")):
        options = SessionOptions(mode="batch", tp=tp, slots=max(widths), context=PROMPT + NEW)
        with Session.open(arguments.checkpoint, options) as session:
            table = Table(title=f"{arguments.checkpoint}, TP{tp}, {session.facts.isa}")
            for name in ("rows", "step ms", "GB/s", "read GB/s", "share", "tok/s", "speed-up"):
                table.add_column(name, justify="right")
            alone = 0.0
            for width in widths:
                read = probe.bytes_per_s()
                seconds = float(np.median(step_seconds(session, width, arguments.rounds)))
                read = max(read, probe.bytes_per_s())
                alone = alone or seconds / width
                speed = session.step_bytes(width, PROMPT + NEW // 2) / seconds
                cells = (f"{seconds * 1e3:.2f}", f"{speed / 1e9:.1f}", f"{read / 1e9:.1f}", f"{speed / read:.0%}")
                table.add_row(str(width), *cells, f"{width / seconds:.1f}", f"{alone * width / seconds:.2f}x")
            Console(width=100).print(table)


if __name__ == "__main__":
    main()
