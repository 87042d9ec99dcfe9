"""Says whether a checkpoint can be measured as asked, from its config and headers, before anything is started.

    python -P -m flows.measurements.admit --engine FOLDER --checkpoint C --tp T --slots S --context P [--devices D] [--engines N]

FOLDER: a source tree or a build; its Python side alone is used. Exit codes: 0 it can, or this engine cannot tell (said on
stderr); 2 it cannot, and stderr says why.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from flows.measurements.under_test import use_engine_of

OK, WRONG = 0, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Look; returns the exit code."""
    parser = argparse.ArgumentParser(prog="flows.measurements.admit", description="Can this checkpoint be measured?")
    parser.add_argument("--engine", type=Path, required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--devices", default="cpu")
    for name in ("--tp", "--slots", "--context"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--engines", type=int, default=1, help="how many must fit into memory at once")
    given = parser.parse_args(argv)
    use_engine_of(given.engine)
    try:
        from engine.admission import Asked, admit
        from engine.errors import EngineError, OutOfMemory
    except ModuleNotFoundError as error:  # an engine of an earlier commit: its measurements will tell
        print(f"{given.checkpoint}: not looked at beforehand: {error}", file=sys.stderr)
        return OK
    import psutil

    available = psutil.virtual_memory().available // given.engines if given.devices == "cpu" else None
    try:
        admit(given.checkpoint, Asked(given.tp, given.slots, given.context, available))
    except EngineError as error:
        shared = isinstance(error, OutOfMemory) and given.engines > 1
        advice = f" (to each of {given.engines} engines: --interleave legs loads one at a time)" if shared else ""
        print(f"{error}{advice}", file=sys.stderr)
        return WRONG
    return OK


if __name__ == "__main__":
    sys.exit(main())
