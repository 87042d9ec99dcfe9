"""Writes the FP8 form of a checkpoint folder. Serves `paceline quantise`; needs no compiled module and no torch.

    python -P -m flows.measurements.quantise FOLDER OUT [--scales float|ue8m0] [--leave NAME]...

Exit codes: 0 done; 2 wrong usage, a source that cannot be read, or a folder that is there.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

OK, WRONG = 0, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Quantise; returns the exit code."""
    parser = argparse.ArgumentParser(prog="paceline quantise", description="Write the FP8 form of a checkpoint folder.")
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scales", default="float", help="float or ue8m0")
    parser.add_argument("--leave", action="append", help="module name ending to leave wide")
    given = parser.parse_args(argv)
    from engine.checkpoint.quantise import DEFAULT_IGNORED, quantise_folder
    from engine.errors import EngineError

    try:
        ignored = tuple(given.leave) if given.leave else DEFAULT_IGNORED
        quantise_folder(given.source, given.out, ignored=ignored, scale_format=given.scales)
    except (EngineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    before, after = (sum(file.stat().st_size for file in folder.glob("*.safetensors")) for folder in (given.source, given.out))
    print(f"{given.source}: {before / 1e6:.0f} MB, in FP8 {after / 1e6:.0f} MB", file=sys.stderr)
    print(given.out)
    return OK


if __name__ == "__main__":
    sys.exit(main())
