"""A compiled module that does not fit is refused with the command that rebuilds it."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from engine import binding
from engine.errors import BindingError

ROOT = Path(binding.__file__).parents[1]


def module(**changes: object) -> ModuleType:
    """A module with every needed name, then changed."""
    made = ModuleType("engine._native")
    made.__file__ = "/build/engine/_native.so"
    for name in binding._NEEDED[""]:
        setattr(made, name, SimpleNamespace(**dict.fromkeys(binding._NEEDED.get(name, ()))))
    for name, value in {"API_VERSION": binding.API_VERSION, **changes}.items():
        setattr(made, name, value)
    return made


def test_a_complete_module_is_accepted() -> None:
    binding.check_module(module())


@pytest.mark.parametrize("version", [0, 2, None])
def test_another_api_version_is_refused(version: object) -> None:
    with pytest.raises(BindingError, match=rf"_native\.so: API_VERSION: found {version!r}, expected 1; rebuild it .*make native"):
        binding.check_module(module(API_VERSION=version))


def test_a_module_without_the_scheduler_is_refused() -> None:
    old = module(Engine=SimpleNamespace(set_matrix=None, step=None))
    with pytest.raises(BindingError, match=r"built without .*Engine\.submit, .*; rebuild it"):
        binding.check_module(old)


def test_a_missing_module_says_how_to_build_it(tmp_path: Path) -> None:
    """In a copy of the package without its compiled part, which imports well until a session is opened."""
    (tmp_path / "engine").mkdir()
    for path in (ROOT / "engine").rglob("*.py"):
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    code = """
import sys
sys.path.insert(0, sys.argv[1])
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
import engine
try:
    engine.build_info()
except engine.BindingError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "engine._native: cannot be imported" in done.stdout
    assert "make native" in done.stdout
