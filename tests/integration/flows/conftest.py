"""A real Prefect API. Helpers that are no fixtures live beside this file in flow_support.py."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for flow_support: tests are no packages here


@pytest.fixture(scope="session")
def prefect_api() -> Iterator[None]:
    """One temporary Prefect server and database for all tests."""
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}), prefect_test_harness(server_startup_timeout=120):
        yield
