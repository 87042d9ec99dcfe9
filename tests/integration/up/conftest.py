"""One service that is up for all tests that only use it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for up_support: tests are no packages here


@pytest.fixture(scope="session")
def up(engine_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One service for the session, in a folder with a space in its name."""
    import up_support

    started = up_support.start(tmp_path_factory.mktemp("up") / "a service", engine_build)
    yield started
    up_support.stop(started)
