"""Saves a synthetic checkpoint as a real Hugging Face folder. Serves `paceline synth`; needs no compiled module.

    python -P -m flows.measurements.synth SPEC --out FOLDER [--shards N]

SPEC: synthetic:<shape>[@seed], or <shape>[@seed]. Exit codes: 0 done; 2 wrong usage, an unknown shape, or a folder that is there.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

OK, WRONG = 0, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Make the checkpoint; returns the exit code."""
    parser = argparse.ArgumentParser(prog="paceline synth", description="Save a synthetic checkpoint as a Hugging Face folder.")
    parser.add_argument("spec")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shards", type=int, default=1)
    options = parser.parse_args(argv)
    from engine.checkpoint.synthetic import parse_spec, save, size_of
    from engine.errors import EngineError

    if options.shards < 1:
        print(f"error: --shards {options.shards}: must be at least 1", file=sys.stderr)
        return WRONG
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        print(f"error: --out {options.out}: is there already; name a new folder", file=sys.stderr)
        return WRONG
    try:
        shape, seed = parse_spec(options.spec)
        print(f"{options.spec}: {size_of(shape) / 1e6:.0f} MB", file=sys.stderr)
        save(shape, seed, options.out, shards=options.shards)
    except (EngineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    print(options.out)
    return OK


if __name__ == "__main__":
    sys.exit(main())
