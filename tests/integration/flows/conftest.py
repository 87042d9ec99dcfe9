"""A real engine build and a real Prefect API. Helpers that are no fixtures live beside this file in flow_support.py."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.build import build_engine
from flows.settings import load_host

sys.path.insert(0, str(Path(__file__).parent))  # for flow_support: tests are no packages here

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def engine_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build of this tree, from the user's cache where `make native` has put it; PACELINE_BUILD names another."""
    host = load_host()
    return host.build or build_engine(ROOT, host, tmp_path_factory.mktemp("build") / "build.log")[0].folder


@pytest.fixture(scope="session")
def prefect_api() -> Iterator[None]:
    """One temporary Prefect server and database for all tests."""
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}), prefect_test_harness(server_startup_timeout=120):
        yield
