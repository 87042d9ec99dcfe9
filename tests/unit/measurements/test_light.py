"""What a measuring process loads: neither Prefect, DuckDB, Altair nor torch, nor anything that is not needed to measure."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEAVY = {"prefect", "duckdb", "altair", "torch", "pandas", "scipy", "transformers", "typer", "rich", "matplotlib", "jinja2"}
MODULES = sorted(path.stem for path in (ROOT / "flows" / "measurements").glob("*.py") if path.stem != "__init__")


# Imports every module in turn, in one process, and names the first that brings something heavy.
LOOK = """
import importlib, sys
heavy = set(sys.argv[1].split(","))
for module in sys.argv[2:]:
    importlib.import_module("flows.measurements." + module)
    found = {name.partition(".")[0] for name in sys.modules} & heavy
    if found:
        sys.exit(f"flows.measurements.{module} loads {sorted(found)}")
"""


def test_all_modules_are_looked_at() -> None:
    assert {"latency", "throughput", "parity", "occupancy", "idle", "program", "suite"} <= set(MODULES)


def test_no_measuring_module_loads_anything_heavy_or_an_engine() -> None:
    """The engine comes from the build, once that is known."""
    command = [sys.executable, "-c", LOOK, ",".join(sorted(HEAVY | {"engine"})), *MODULES]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_look_sees_what_is_loaded() -> None:
    command = [sys.executable, "-c", LOOK, "pydantic", "supervisor", "request"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "flows.measurements.request loads ['pydantic']" in result.stderr


def test_the_supervisor_loads_only_the_standard_library() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import flows.measurements.supervisor; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in result.stdout.split()}
    assert loaded <= set(sys.stdlib_module_names) | {"flows", "__main__"}
