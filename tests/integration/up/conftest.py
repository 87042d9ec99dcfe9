"""A real engine build, and one service that is up for all tests that only use it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.build import build_engine
from flows.settings import load_host

sys.path.insert(0, str(Path(__file__).parent))  # for up_support: tests are no packages here

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def engine_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build of this tree, from the user's cache where `make native` has put it; PACELINE_BUILD names another."""
    host = load_host()
    return host.build or build_engine(ROOT, host, tmp_path_factory.mktemp("build") / "build.log")[0].folder


@pytest.fixture(scope="session")
def up(engine_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One service for the session, in a folder with a space in its name."""
    import up_support

    started = up_support.start(tmp_path_factory.mktemp("up") / "a service", engine_build)
    yield started
    up_support.stop(started)
