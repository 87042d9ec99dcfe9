"""Helpers for tests that start real processes."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Callable[[], list[int]]]:
    """Returns a function that lists the living processes whose command line names this test's folder; none may be left."""

    def living() -> list[int]:
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                command = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(tmp_path) in command:
                found.append(int(entry))
        return found

    yield living
    assert living() == [], "the test left processes behind"


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool], float], None]:
    """Returns a function that waits until a condition holds, at most so many seconds."""

    def wait(condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"still not so after {seconds} s"
            time.sleep(0.02)

    return wait
