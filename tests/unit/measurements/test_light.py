"""What a measuring process loads: neither Prefect, DuckDB, Altair nor torch, nor anything that is not needed to measure."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HEAVY = {"prefect", "duckdb", "altair", "torch", "pandas", "scipy", "transformers", "typer", "rich", "matplotlib", "jinja2"}
MODULES = sorted(path.stem for path in (ROOT / "flows" / "measurements").glob("*.py") if path.stem != "__init__")


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in result.stdout.split()}


def test_all_modules_are_looked_at() -> None:
    assert {"latency", "throughput", "parity", "occupancy", "idle", "program", "suite"} <= set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_a_measuring_module_loads_nothing_heavy(module: str) -> None:
    loaded = loaded_by(f"flows.measurements.{module}")
    assert loaded & HEAVY == set()
    assert "engine" not in loaded, "the engine comes from the build, once that is known"


def test_the_supervisor_loads_only_the_standard_library() -> None:
    assert loaded_by("flows.measurements.supervisor") <= set(sys.stdlib_module_names) | {"flows", "__main__", "sitecustomize"}
