"""Models and engines for the tests of the native module."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.binding import native

sys.path.insert(0, str(Path(__file__).parent))  # for native_support: tests are no packages here

from native_support import MakeEngine, Model, build


@pytest.fixture(scope="session")
def qwen3() -> Model:
    return build("qwen3", ["full_attention"] * 2)


@pytest.fixture(scope="session")
def hybrid() -> Model:
    return build("qwen3_5", ["linear_attention", "full_attention", "linear_attention"])


@pytest.fixture
def make_engine() -> Iterator[MakeEngine]:
    """A factory of loaded engines: make_engine(model, mode="batch", tp=1, **options). Closes them all at the end."""
    engines: list[Any] = []

    def make(model: Model, *, mode: str = "batch", tp: int = 1, **options: Any) -> Any:
        options = {"slots": 8, "context": 768, "threads": 1} | options
        engine = native().Engine(native().ModelConfig(**model.config), native().EngineOptions(mode=mode, tp=tp, **options))
        engines.append(engine)
        model.load(engine, tp)
        return engine

    yield make
    for engine in engines:
        engine.close()
