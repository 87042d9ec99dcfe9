"""A real engine build, and a cache that knows its module. The planted history lives beside this file in planted.py."""

import sys
from pathlib import Path

import pytest

from flows.build import build_engine
from flows.settings import HostSettings, load_host

sys.path.insert(0, str(Path(__file__).parent))  # for planted: tests are no packages here

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def engine_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build of this tree, from the user's cache where `make native` has put it; PACELINE_BUILD names another."""
    host = load_host()
    return host.build or build_engine(ROOT, host, tmp_path_factory.mktemp("build") / "build.log")[0].folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("the cache")


@pytest.fixture(scope="session")
def host(cache: Path) -> HostSettings:
    """Without the build that the environment may name: commits are built here."""
    return HostSettings(cache=cache, build=None)
