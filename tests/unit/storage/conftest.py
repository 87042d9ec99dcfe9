"""Fixtures of the store's tests."""

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest

from storage.database import Database

_spec = importlib.util.spec_from_file_location("store_kit", Path(__file__).with_name("store_kit.py"))
assert _spec is not None
assert _spec.loader is not None
_kit = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_kit)


@pytest.fixture(scope="session")
def kit() -> Any:
    return _kit


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with schema and views and no row, made once."""
    database = Database(tmp_path_factory.mktemp("template"))
    database.publish_snapshot()
    return database.path


@pytest.fixture
def results(tmp_path: Path, empty_store: Path) -> Any:
    """A results folder, with a space in its name, whose store is empty."""
    made = _kit.Results(tmp_path / "my results")
    made.root.mkdir()
    shutil.copyfile(empty_store, made.store)
    return made
