"""Fixtures of the store's integration tests, from the kit of its unit tests."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

KIT = Path(__file__).parents[2] / "unit/storage/store_kit.py"
_spec = importlib.util.spec_from_file_location("store_kit", KIT)
assert _spec is not None
assert _spec.loader is not None
_kit = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_kit)


@pytest.fixture(scope="session")
def kit() -> Any:
    return _kit


@pytest.fixture
def results(tmp_path: Path) -> Any:
    """An empty results folder, with a space in its name."""
    return _kit.Results(tmp_path / "my results")
