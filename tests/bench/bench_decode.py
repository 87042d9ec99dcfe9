"""Decode steps and prefills of one checkpoint against what this machine can do at best, both taken in the same run.

    python tests/bench/bench_decode.py [CHECKPOINT] [--tp 1,4] [--widths 1,2,4,8,16] [--prefill 512,2048] [--rounds 5]

The floor of a step is the larger of its bytes over the read bandwidth and its operations over the BF16 peak. The peak is the best
probe of the run; the bandwidth is the better of the probes right before and right after the row, because a shared host changes it
by half from one minute to the next (`of the run` holds the same step against the best of all). A row between two probes that
differ by more than a tenth is marked ~, and a share over 100 % means that the probes were poor: neither says anything. `torch` is
the same matrices multiplied by torch in BF16, nothing else of a step. Run it on a machine that does nothing else.
"""

import argparse

import numpy as np
import torch
from probes import Probes, best_of
from rich.console import Console
from rich.table import Table

from engine import Session, SessionOptions
from engine.checkpoint.names import matrix_shapes
from engine.checkpoint.synthetic import resolve
from engine.config import ModelConfig, read_config

PROMPT, NEW = 16, 32


class TorchProducts:
    """The products of one decode step in torch, BF16: random matrices of the model's own shapes."""

    def __init__(self, config: ModelConfig) -> None:
        shapes = matrix_shapes(config)
        if not config.tied:
            del shapes["embed_tokens.weight"]  # a table that is looked up in; tied, it is the head
        self.weights = [torch.randn(rows, cols).to(torch.bfloat16) for rows, cols in shapes.values()]
        self.multiplications = sum(weight.numel() for weight in self.weights)
        self.head = config.vocab_size * config.hidden_size  # of them, those that only a row with wanted logits takes

    def seconds(self, rows: int) -> float:
        """Of the best of three passes over all matrices."""
        inputs = {cols: torch.randn(rows, cols).to(torch.bfloat16) for cols in {weight.shape[1] for weight in self.weights}}
        with torch.inference_mode():
            return best_of(3, lambda: [torch.nn.functional.linear(inputs[w.shape[1]], w) for w in self.weights])


def step_seconds(session: Session, width: int, rounds: int) -> float:
    """Seconds of a decode step of `width` requests: the mean over a round's steps, the median over the rounds."""
    generator = np.random.default_rng(width)
    steps = []
    for _ in range(rounds + 1):
        prompts = [generator.integers(0, session.facts.vocab_size, PROMPT).tolist() for _ in range(width)]
        before = session.stats()
        session.generate(prompts, NEW)
        after = session.stats()
        steps.append((after.decode_seconds - before.decode_seconds) / (after.decode_steps - before.decode_steps))
    return float(np.median(steps[1:]))  # the first round warms up


def prefill_seconds(session: Session, tokens: int, rounds: int) -> float:
    """Median seconds of one prompt's prefill, its head included."""
    generator = np.random.default_rng(tokens)
    walls = []
    for _ in range(rounds + 1):
        before = session.stats().prefill_seconds
        session.generate([generator.integers(0, session.facts.vocab_size, tokens).tolist()], 1)
        walls.append(session.stats().prefill_seconds - before)
    return float(np.median(walls[1:]))


def decode_table(session: Session, products: TorchProducts, probes: Probes, widths: list[int], rounds: int) -> Table:
    """A row a width."""
    measured = []
    for width in widths:
        by_torch = products.seconds(width)
        probes.multiply()
        before = probes.read()
        step = step_seconds(session, width, rounds)
        measured.append((width, step, by_torch, (before, probes.read())))
    table = Table(title=f"decode, TP{session.facts.tp}, {session.facts.isa}, read at best {probes.bytes_per_s / 1e9:.1f} GB/s")
    for name in ("rows", "step ms", "GB/s", "read GB/s", "floor ms", "share", "of the run", "torch ms", "tok/s", "speed-up"):
        table.add_column(name, justify="right")
    for width, step, by_torch, read in measured:
        size = session.step_bytes(width, PROMPT + NEW // 2)
        computed = 2 * products.multiplications * width / probes.flops_per_s
        floor, of_the_run = (max(size / speed, computed) for speed in (max(read), probes.bytes_per_s))
        cells = [
            f"{step * 1e3:.2f}",
            f"{size / step / 1e9:.1f}",
            f"{'~' if max(read) > 1.1 * min(read) else ''}{max(read) / 1e9:.1f}",
            f"{floor * 1e3:.2f}",
            f"{floor / step:.0%}",
            f"{of_the_run / step:.0%}",
        ]
        speed_up = measured[0][1] / measured[0][0] * width / step
        table.add_row(str(width), *cells, f"{by_torch * 1e3:.2f}", f"{width / step:.1f}", f"{speed_up:.2f}x")
    return table


def prefill_table(session: Session, products: TorchProducts, probes: Probes, lengths: list[int], rounds: int) -> Table:
    """A row a prompt length. Every token goes through all matrices but the head, which only the last one needs."""
    table = Table(title=f"prefill, TP{session.facts.tp}, BF16 products by torch at best {probes.flops_per_s / 1e9:.0f} GFLOP/s")
    for name in ("tokens", "ms", "tok/s", "GFLOP/s", "share of the peak"):
        table.add_column(name, justify="right")
    for tokens in lengths:
        probes.multiply()
        seconds = prefill_seconds(session, tokens, max(1, rounds // 2))
        probes.multiply()
        flops = 2 * ((products.multiplications - products.head) * tokens + products.head) / seconds
        cells = (f"{seconds * 1e3:.1f}", f"{tokens / seconds:.0f}", f"{flops / 1e9:.0f}", f"{flops / probes.flops_per_s:.0%}")
        table.add_row(str(tokens), *cells)
    return table


def numbers(text: str) -> list[int]:
    """`1,2,4` -> [1, 2, 4]."""
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    """Print two tables a TP."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", nargs="?", default="synthetic:small")
    parser.add_argument("--tp", type=numbers, default=[1, 4])
    parser.add_argument("--widths", type=numbers, default=[1, 2, 4, 8, 16])
    parser.add_argument("--prefill", type=numbers, default=[512, 2048], help="prompt lengths; empty: none")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    probes, console = Probes(), Console(width=110)
    probes.multiply()
    products = TorchProducts(read_config(resolve(asked.checkpoint)))
    console.print(asked.checkpoint)
    for tp in asked.tp:
        context = max([PROMPT + NEW, *(length + 1 for length in asked.prefill)])
        options = SessionOptions(mode="batch", tp=tp, slots=max(asked.widths), context=context)
        with Session.open(asked.checkpoint, options) as session:
            console.print(decode_table(session, products, probes, asked.widths, asked.rounds))
            if asked.prefill:
                console.print(prefill_table(session, products, probes, asked.prefill, asked.rounds))


if __name__ == "__main__":
    main()
