"""A cache that knows its module. The planted history lives beside this file in planted.py."""

import sys
from pathlib import Path

import pytest

from flows.settings import HostSettings

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "up")]  # planted, up_support: no packages here


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("the cache")


@pytest.fixture(scope="session")
def host(cache: Path) -> HostSettings:
    """Without the build that the environment may name: commits are built here."""
    return HostSettings(cache=cache, build=None)
