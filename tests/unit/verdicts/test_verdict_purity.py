"""flows/verdicts takes numbers and gives verdicts: no Prefect, DuckDB, engine, and scipy only when a quantile is asked for."""

import subprocess
import sys

PROBE = """
import importlib, pkgutil, sys
import flows.verdicts
for module in pkgutil.iter_modules(flows.verdicts.__path__):
    importlib.import_module(f"flows.verdicts.{module.name}")
heavy = {"scipy", "prefect", "duckdb", "altair", "pandas", "torch", "engine", "storage", "pydantic"}
print(" ".join(sorted(heavy & {name.split(".")[0] for name in sys.modules})))
"""


def test_importing_the_verdicts_loads_nothing_heavy() -> None:
    ran = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""
