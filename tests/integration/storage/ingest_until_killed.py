"""A program for the crash tests: does one action on a store and kills itself with SIGKILL at its Nth step.

A step is any call that a module of `storage` makes or receives, calls into DuckDB and the operating system included, and the
return from each; so every boundary between two steps of ingest, migration, rebuild and snapshot is a place to die. With N = 0
it runs through and prints how many steps there are.

usage: ingest_until_killed.py ACTION N STORE FILE...
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from storage.ingest import ingest
from storage.rebuild import rebuild

STORAGE = str(Path(sys.modules[ingest.__module__].__file__ or "").parent)


def main() -> None:
    """Read the arguments, count the steps, act."""
    action, last, store, *files = sys.argv[1:]
    die_at, steps = int(last), 0

    def step(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal steps
        if frame.f_code.co_filename.startswith(STORAGE) and not frame.f_code.co_filename.endswith(("records.py", "rows.py")):
            steps += 1
            if steps == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(step)
    if action == "ingest":
        ingest(Path(store), [Path(file) for file in files])
    else:
        rebuild(Path(store).parent, Path(store))
    sys.setprofile(None)
    print(steps)


if __name__ == "__main__":
    main()
