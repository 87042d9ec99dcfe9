"""Holds the engine against its torch reference on one checkpoint, and says where they part. Serves `paceline check`.

    python -P -m flows.measurements.check --build B --checkpoint C [--tp T] [--isa I] [--devices D] [--prompts 1,16,97]
        [--new-tokens N] [--seed S] [--cache FOLDER]

Exit codes: 0 they agree; 1 they part; 2 wrong usage, no torch, or a checkpoint or build that cannot be checked.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from flows.measurements.under_test import BuildError, load_under_test

AGREE, PART, WRONG = 0, 1, 2
NO_TORCH = "torch is not installed here, and the reference is written in it: python -m pip install 'paceline[reference]'"


def main(argv: Sequence[str] | None = None) -> int:
    """Check; returns the exit code."""
    given = _parse(argv)
    try:
        engine = load_under_test(given.build).engine
    except BuildError as error:
        return _wrong(error)
    try:
        import torch

        from engine.check import check
    except ModuleNotFoundError as error:
        missing = NO_TORCH if error.name == "torch" else f"{given.build}: this engine has no checker ({error}): build a later one"
        return _wrong(missing)
    torch.set_num_threads(1)  # its pool and the engine's would only wait for one another
    from engine.errors import EngineError

    try:
        options = engine.SessionOptions(
            mode="batch", tp=given.tp, isa=given.isa, devices=given.devices, context=max(max(given.prompts) + given.new_tokens, 2)
        )
        report = check(
            given.checkpoint,
            options,
            prompt_lengths=given.prompts,
            new_tokens=given.new_tokens,
            seed=given.seed,
            say=lambda line: print(line, file=sys.stderr, flush=True),
            cache=given.cache,
        )
    except (EngineError, OSError) as error:
        return _wrong(error)
    print("\n".join(report.lines()))
    print("they agree" if report.passed else "they differ")
    return AGREE if report.passed else PART


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="paceline check", description="Hold the engine against its torch reference.")
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--devices", default="cpu")
    parser.add_argument("--prompts", type=_lengths, default=(1, 16, 97), help="lengths, such as 1,16,97")
    parser.add_argument("--new-tokens", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path)
    return parser.parse_args(argv)


def _lengths(text: str) -> tuple[int, ...]:
    lengths = tuple(int(part) if part.strip().isdecimal() else 0 for part in text.split(","))
    if min(lengths) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}; expected whole numbers from 1, such as 1,16,97")
    return lengths


def _wrong(error: object) -> int:
    print(f"error: {error}", file=sys.stderr)
    return WRONG


if __name__ == "__main__":
    sys.exit(main())
