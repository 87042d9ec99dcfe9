"""A program for the crash tests: does one action on a store and kills itself with SIGKILL at its Nth step.

A step is any call that a module of `storage` makes or receives, calls into DuckDB and the operating system included, and the
return from each; so every boundary between two steps of ingest, migration, rebuild and snapshot is a place to die. With N = 0
it runs through and prints how many steps there are.

usage: ingest_until_killed.py ACTION N STORE FILE...
       ingest_until_killed.py serve STORE FILE...

`serve` reads lines `ACTION N` and answers each, once a child has done it, with the child's exit code as `wait` has it; thousands
of steps need no thousand starts of Python.
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


def act(action: str, die_at: int, store: Path, files: list[Path]) -> int:
    """Do the action and return how many steps it took, or die at one of them."""
    steps = 0

    def step(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal steps
        if frame.f_code.co_filename.startswith(STORAGE) and not frame.f_code.co_filename.endswith(("records.py", "rows.py")):
            steps += 1
            if steps == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(step)
    if action == "ingest":
        ingest(store, files)
    else:
        rebuild(store.parent, store)
    sys.setprofile(None)
    return steps


def serve(store: Path, files: list[Path]) -> None:
    """Answer the lines of the standard input."""
    for line in sys.stdin:
        action, die_at = line.split()
        child = os.fork()  # before any thread: nothing here has opened a store
        if child == 0:
            act(action, int(die_at), store, files)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def main() -> None:
    """Read the arguments and act."""
    if sys.argv[1] == "serve":
        serve(Path(sys.argv[2]), [Path(file) for file in sys.argv[3:]])
        return
    action, last, store, *files = sys.argv[1:]
    print(act(action, int(last), Path(store), [Path(file) for file in files]))


if __name__ == "__main__":
    main()
