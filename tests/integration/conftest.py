"""The real engine build that every integration test works with."""

from pathlib import Path

import pytest

from flows.build import build_engine
from flows.settings import load_host

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def engine_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build of this tree, from the user's cache where `make native` has put it; PACELINE_BUILD names another."""
    host = load_host()
    return host.build or build_engine(ROOT, host, tmp_path_factory.mktemp("build") / "build.log")[0].folder
