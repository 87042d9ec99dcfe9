"""The rules of the house that a linter cannot see: what loads at run time, and who owns which file."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("prefect", "duckdb", "altair", "torch", "pandas", "scipy")


def modules_after(statement: str) -> set[str]:
    """Top-level modules loaded in a fresh interpreter after `statement`."""
    code = f"{statement}\nimport sys\nprint(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    ["storage.records", "flows.measurements.latency", "flows.measurements.throughput", "flows.measurements.suite"],
)
def test_measurement_programs_load_nothing_heavy(module: str) -> None:
    loaded = modules_after(f"import {module}")
    assert not loaded & set(HEAVY), f"{module} loads {sorted(loaded & set(HEAVY))}"


def test_command_line_imports_lazily() -> None:
    loaded = modules_after("import flows.cli")
    assert not loaded & set(HEAVY), f"flows.cli loads {sorted(loaded & set(HEAVY))}"


def test_verdicts_load_no_prefect_and_no_store() -> None:
    loaded = modules_after("import flows.verdicts")
    assert not loaded & {"prefect", "duckdb", "altair", "torch", "storage", "dashboards"}


def python_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def offenders(pattern: str, files: list[Path]) -> list[str]:
    expression = re.compile(pattern, re.MULTILINE)
    return [str(path.relative_to(ROOT)) for path in files if expression.search(path.read_text(encoding="utf-8"))]


def test_only_binding_imports_the_compiled_module() -> None:
    files = [p for p in python_files("engine", "flows", "storage", "dashboards") if p.name != "binding.py"]
    assert offenders(r"^\s*(from|import) engine\._native|from engine import _native", files) == []


def test_only_the_database_module_connects() -> None:
    files = [p for p in python_files("flows", "storage", "dashboards") if p != ROOT / "storage/database.py"]
    assert offenders(r"duckdb\.connect\(", files) == []


def test_environment_variables_are_read_in_one_place() -> None:
    files = [p for p in python_files("flows", "engine", "storage", "dashboards") if p != ROOT / "flows/settings.py"]
    assert offenders(r"os\.(environ\.get|getenv)\(|os\.environ\[[^\]]+\](?!\s*=)", files) == []


def test_no_file_over_400_lines() -> None:
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT).stdout.split("\n")
    code = [ROOT / name for name in tracked if name.endswith((".py", ".pyi", ".cc", ".h", ".cu", ".cuh", ".sql"))]
    long = {str(p.relative_to(ROOT)): n for p in code if p.exists() and (n := len(p.read_text().splitlines())) > 400}
    assert long == {}


def test_native_core_links_no_python() -> None:
    sources = [p for p in (ROOT / "native").rglob("*.[ch]*") if "bindings" not in p.parts]
    assert sources
    assert offenders(r"#include [<\"](pybind11|Python\.h)", sources) == []


def test_flow_modules_keep_real_annotations() -> None:
    """Served Prefect flows fail on postponed annotations: 'not fully defined'."""
    flow_files = [p for p in python_files("flows") if re.search(r"^\s*@(flow|task)\b", p.read_text(), re.MULTILINE)]
    assert flow_files
    assert offenders(r"from __future__ import annotations", flow_files) == []


def test_native_layers_include_downwards_only() -> None:
    order = {"base": 0, "ops": 1, "parallel": 1, "model": 2, "runtime": 3, "bindings": 4}
    pairs = [
        (path, included)
        for path in (ROOT / "native").rglob("*.[ch]*")
        if "test" not in path.parts  # a program over all layers
        for included in re.findall(r'#include "(\w+)/', path.read_text(encoding="utf-8"))
    ]
    assert pairs
    top = {path: path.relative_to(ROOT / "native").parts[0] for path, _ in pairs}
    upward = [
        f"{path.relative_to(ROOT)} includes {included}/"
        for path, included in pairs
        if included in order and top[path] in order and order[included] > order[top[path]]
    ]
    assert upward == []
