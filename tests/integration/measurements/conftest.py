"""The real engine, built once into the user's cache of builds, and measuring processes as the flow starts them."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.build import Build, build_engine, open_build, source_of
from flows.settings import harness_environment, load_host
from storage import records
from storage.records import Record, Source

ROOT = Path(__file__).parents[3]
SPEC: dict[str, Any] = {
    "kind": "throughput",
    "workload": "test",
    "mode": "batch",
    "level": 4,
    "tp": 1,
    "slots": 8,
    "context": 48,
    "prompt_tokens": 16,
    "new_tokens": 32,
    "warmup": 1,
    "runs": 2,
    "seed": 5,
    "checkpoint": "synthetic:tiny",
}


@dataclass(frozen=True)
class Measured:
    """What a measuring process left."""

    returncode: int
    output: str
    record: Record | None


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Build, Source]:
    """The build of this tree, and its source; or the one that the settings name (PACELINE_BUILD)."""
    host = load_host()
    if host.build:
        build = open_build(host.build)
        return build, source_of(build)
    return build_engine(ROOT, host, tmp_path_factory.mktemp("build") / "build.log")


@pytest.fixture
def measure(built: tuple[Build, Source], tmp_path: Path) -> Callable[..., Measured]:
    """Returns a function that runs one kind with the given fields of the spec and comes back with record and output."""
    build, source = built
    folder = tmp_path / "a run"
    folder.mkdir()

    def run(
        kind: str,
        *,
        asked_for: str = "",
        build_folder: Path | None = None,
        extra: dict[str, Any] | None = None,
        cache: Path | None = None,
        **spec: Any,
    ) -> Measured:
        number = len(list(folder.iterdir()))
        request, result = folder / f"{number}.request.json", folder / f"{number}.json"
        body = {
            "request_version": 1,
            "run_id": "test",
            "measurement": f"test/{kind}/{number}",
            "spec": SPEC | {"kind": asked_for or kind, "extra": extra or {}} | spec,
            "build": str(build_folder or build.folder),
            "source": source.model_dump(),
            "log": "logs/test.log",
            "cache": str(cache) if cache else None,
        }
        request.write_text(json.dumps(body))
        command = [sys.executable, "-P", "-m", f"flows.measurements.{kind}", str(request), str(result)]
        ended = subprocess.run(
            command, env=harness_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        return Measured(ended.returncode, ended.stdout + ended.stderr, records.load(result) if result.exists() else None)

    return run
