"""Checkpoints that the engine's unit tests read and damage."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.checkpoint import synthetic


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a synthetic shape (seed 0, two shards), made once; not to be written to."""
    root = tmp_path_factory.mktemp("checkpoints")

    def folder(shape: str) -> Path:
        if not (root / shape).exists():
            synthetic.save(shape, 0, root / shape, shards=2)
        return root / shape

    return folder


@pytest.fixture
def copy_of(checkpoints: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of such a folder for a test to damage."""

    def copy(shape: str) -> Path:
        return Path(shutil.copytree(checkpoints(shape), tmp_path / shape))

    return copy
