"""A validation of seconds, and a look at the process table."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.parameters import ValidationParameters

ROOT = Path(__file__).resolve().parents[3]
TINY = {"checkpoint": "synthetic:tiny", "tp": 2, "levels": (2,), "pairs": 1, "new_tokens": 32, "runs": 2, "kinds": []}


def tiny(results: Path, **changes: object) -> ValidationParameters:
    """A validation of seconds."""
    return ValidationParameters.model_validate({**TINY, "results": str(results), **changes})


def processes(needle: str, where: str = "cmdline") -> list[int]:
    """Ids of the processes, ours excepted, that have a text in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if needle.encode() in (entry / where).read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def eventually(condition: Callable[[], object], seconds: float = 60.0) -> object:
    """What the condition gives once it holds. Fails the test where it does not in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    pytest.fail(f"not within {seconds} s")
