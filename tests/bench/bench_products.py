"""Every distinct product of a model alone, by width: our kernel against torch in BF16 and against this machine's limits.

    python tests/bench/bench_products.py [SHAPE] [--dtype bf16,fp8] [--widths 1,8,16,512] [--isa NAME]

SHAPE is one that synthetic checkpoints have, such as qwen3-0.6b. Each product runs over as many copies as no cache holds, so its
weights come from memory as they do in a step. Run it on a machine that does nothing else.
"""

import argparse
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
from probes import Probes, best_of, cores
from rich.console import Console
from rich.table import Table

from engine.checkpoint.names import matrix_shapes
from engine.checkpoint.shapes import find_shape
from engine.config import FP8_BLOCK

COPIES_BYTES = 2**28  # far beyond any cache
LEAST_CALLS = 4


def part(rows: int, cols: int, dtype: str, generator: np.random.Generator) -> dict[str, Any]:
    """Random weights as the engine packs them."""
    if dtype == "bf16":
        return {"data": generator.integers(0x3C00, 0x3D00, (rows, cols), np.uint16), "dtype": "bf16"}
    blocks = (-(-rows // FP8_BLOCK), -(-cols // FP8_BLOCK))
    scale = generator.random(blocks, np.float32) / 64
    return {"data": generator.integers(0, 0x70, (rows, cols), np.uint8), "dtype": "f8_e4m3", "scale": scale}


def ours(ops: Any, shape: tuple[int, int], dtype: str, width: int) -> float:
    """Seconds of one call."""
    generator = np.random.default_rng(0)
    size = shape[0] * shape[1] * (2 if dtype == "bf16" else 1)
    copies = max(2, COPIES_BYTES // size)
    one = part(*shape, dtype, generator)
    packed = [ops.pack([one]) for _ in range(copies)]
    x = generator.integers(0x3F00, 0x3F80, (width, shape[1]), np.uint16)
    y = np.zeros((width, shape[0]), np.float32)
    calls = list(islice(cycle(packed), max(LEAST_CALLS, copies)))
    return best_of(3, lambda: [ops.linear(weight, x, y) for weight in calls]) / len(calls)


def by_torch(shape: tuple[int, int], width: int) -> float:
    """Seconds of one torch.nn.functional.linear in BF16."""
    copies = max(2, COPIES_BYTES // (2 * shape[0] * shape[1]))
    one = torch.randn(*shape).to(torch.bfloat16)
    weights = [one.clone() for _ in range(copies)]
    x = torch.randn(width, shape[1]).to(torch.bfloat16)
    calls = list(islice(cycle(weights), max(LEAST_CALLS, copies)))
    with torch.inference_mode():
        return best_of(3, lambda: [torch.nn.functional.linear(x, weight) for weight in calls]) / len(calls)


def main() -> None:
    """Print one table a type of weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", nargs="?", default="qwen3-0.6b")
    parser.add_argument("--dtype", default="bf16,fp8")
    parser.add_argument("--widths", default="1,8,16,512")
    parser.add_argument("--isa", default="auto", help="a kernel path, as `paceline doctor` lists them")
    asked = parser.parse_args()
    from engine._native import ops as native

    ops = native.CpuOps(isa=asked.isa, threads=cores(), oversubscribed=False)
    shapes = sorted(set(matrix_shapes(find_shape(asked.shape).config()).values()))
    probes = Probes()
    for dtype in asked.dtype.split(","):
        rows = []
        for shape in shapes:
            for width in map(int, asked.widths.split(",")):
                probes.read()
                probes.multiply()
                rows.append((shape, width, ours(ops, shape, dtype, width), by_torch(shape, width)))
        limits = f"read at best {probes.bytes_per_s / 1e9:.1f} GB/s, BF16 at best {probes.flops_per_s / 1e9:.0f} GFLOP/s"
        table = Table(title=f"{asked.shape}, {dtype}, {ops.isa}; {limits}")
        for name in ("product", "rows", "us", "GB/s", "GFLOP/s", "share of the floor", "torch BF16 us", "torch / ours"):
            table.add_column(name, justify="right")
        for shape, width, seconds, torch_seconds in rows:
            size, flops = shape[0] * shape[1] * (2 if dtype == "bf16" else 1), 2 * shape[0] * shape[1] * width
            floor = max(size / probes.bytes_per_s, flops / probes.flops_per_s)
            cells = [
                f"{seconds * 1e6:.0f}",
                f"{size / seconds / 1e9:.1f}",
                f"{flops / seconds / 1e9:.0f}",
                f"{floor / seconds:.0%}",
            ]
            ratio = torch_seconds / seconds
            table.add_row(f"{shape[1]} to {shape[0]}", str(width), *cells, f"{torch_seconds * 1e6:.0f}", f"{ratio:.2f}x")
        Console(width=120).print(table)


if __name__ == "__main__":
    main()
