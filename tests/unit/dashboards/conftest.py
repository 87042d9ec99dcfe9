import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def store_maker() -> Iterator[ModuleType]:
    name = "dashboards_store_maker"
    yield _load(name, Path(__file__).parent / "store_maker.py")
    del sys.modules[name]


@pytest.fixture(scope="session")
def history_maker() -> Iterator[ModuleType]:
    name = "dashboards_history_maker"
    yield _load(name, Path(__file__).parent / "history_maker.py")
    del sys.modules[name]


@pytest.fixture(scope="session")
def three_nights(store_maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Results of three runs, the last with a level that has no target and a pair without a serial leg."""
    results = store_maker.Results(tmp_path_factory.mktemp("three nights"))
    factory = store_maker.record_factory()
    for night in range(2):
        results.add_run(*store_maker.make_run(factory, night))
    run_id, records = store_maker.make_run(factory, 2, ratios={**store_maker.RATIOS, 16: 5.0})
    results.add_run(run_id, [r for r in records if not (r.spec.level == 4 and r.spec.mode == "serial" and r.spec.pair == 1)])
    results.last = run_id
    return results


@pytest.fixture
def no_history(history_maker: ModuleType) -> pd.DataFrame:
    return history_maker.history(1).iloc[:0]
