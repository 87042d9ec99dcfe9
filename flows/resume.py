"""Taking up what was interrupted: which run of a results folder is unfinished, and whether anyone is at it now.

A run in progress holds a lock in its folder for as long as its process lives, so a crash, SIGKILL or a reboot frees it.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.folders import RunFolder
from flows.locks import try_exclusive
from flows.plan import PlanError, read_plan

OLDEST_S = 7 * 24 * 3600.0  # an older one is left as it is: the machine may be another by now
_LOCK = ".run.lock"


class RunTakenError(RuntimeError):
    """Another process is at this run."""


@contextmanager
def owned(folder: RunFolder) -> Iterator[None]:
    """Be the one process that measures this run. Raises RunTakenError."""
    folder.create()
    with try_exclusive(folder.root / _LOCK) as got:
        if not got:
            raise RunTakenError(f"run {folder.run_id}: another process is at it now; wait for its end, or cancel it")
        yield


def unfinished_run(results: Path, identity: str) -> str | None:
    """Name of the newest run of this plan that has no summary and nobody at it; None where there is none."""
    for path in sorted(results.glob("*/plan.json"), reverse=True):
        folder = RunFolder(results, path.parent.name)
        if folder.summary_json.exists() or time.time() - path.stat().st_mtime > OLDEST_S or _taken(folder):
            continue
        try:
            if read_plan(path).identity == identity:
                return folder.run_id
        except PlanError:  # of another version: not this plan
            continue
    return None


def _taken(folder: RunFolder) -> bool:
    with try_exclusive(folder.root / _LOCK) as got:
        return not got
