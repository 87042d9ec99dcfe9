"""The build folder is the only source of `engine`, even where the environment has another. Real processes, real imports.

The packages here are stand-ins for what an import meets; the real engine is measured in tests/integration/measurements.
"""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

LOAD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
{before}
from flows.measurements.under_test import BuildError, load_under_test
try:
    print("loaded", load_under_test(Path(sys.argv[1])).module)
except BuildError as error:
    print("BuildError:", error)
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder on sys.path with an engine that must never be imported."""
    package = tmp_path / "else where" / "engine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("print('WRONG ENGINE')\nAPI_VERSION = 1\n")
    (package / "extra.py").write_text("print('WRONG MODULE')\n")
    return package.parent


def build(tmp_path: Path, init: str, manifest: str | None = None) -> Path:
    package = tmp_path / "the build" / "engine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(textwrap.dedent(init))
    if manifest is not None:
        (package.parent / "build.json").write_text(manifest)
    return package.parent


def load(folder: Path, elsewhere: Path, before: str = "") -> str:
    command = [sys.executable, "-c", LOAD.format(before=before), str(folder), str(elsewhere)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "WRONG" not in result.stdout
    return result.stdout


# A finder that stands first and would answer for `engine`, as an editable install's does.
REDIRECT = """
from importlib.machinery import PathFinder
class Redirect:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [sys.argv[2]]) if name == "engine" else None
sys.meta_path.insert(0, Redirect)
"""


@pytest.mark.parametrize("before", ["", REDIRECT])
def test_the_build_wins_over_path_and_finders(tmp_path: Path, elsewhere: Path, before: str) -> None:
    folder = build(tmp_path, "print('right engine')\nAPI_VERSION = 1\ndef build_info(): return {}")
    said = load(folder, elsewhere, before)
    assert said.startswith("right engine\n")
    assert "compiled modules loaded: none; must be exactly one" in said


def test_a_module_that_the_build_lacks_is_not_taken_from_elsewhere(tmp_path: Path, elsewhere: Path) -> None:
    folder = build(tmp_path, "API_VERSION = 1\nimport engine.extra")
    said = load(folder, elsewhere, REDIRECT)
    assert "engine cannot be imported: engine.extra is not in the build" in said
    assert "build it again" in said


def test_a_module_smuggled_in_from_elsewhere_is_seen(tmp_path: Path, elsewhere: Path) -> None:
    (elsewhere / "engine" / "extra.py").write_text("quiet = True\n")
    init = f"""
        import importlib.util, sys
        API_VERSION = 1
        def build_info(): return {{}}
        spec = importlib.util.spec_from_file_location("engine.extra", {str(elsewhere / "engine" / "extra.py")!r})
        sys.modules["engine.extra"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    """
    said = load(build(tmp_path, init), elsewhere)
    assert f"engine.extra: imported from {elsewhere}/engine/extra.py, outside the build" in said


@pytest.mark.parametrize("version", ["0", "2", "None", "'1'", "True"])
def test_another_api_version_is_refused(tmp_path: Path, elsewhere: Path, version: str) -> None:
    said = load(build(tmp_path, f"API_VERSION = {version}"), elsewhere)
    assert f"engine.API_VERSION is {version}; this harness measures API versions 1" in said


def test_an_engine_without_a_version_is_refused(tmp_path: Path, elsewhere: Path) -> None:
    assert "engine.API_VERSION is None" in load(build(tmp_path, ""), elsewhere)


def test_a_folder_that_is_no_build(tmp_path: Path, elsewhere: Path) -> None:
    assert "no engine/__init__.py in it: not a build folder" in load(tmp_path, elsewhere)


def test_one_process_measures_one_build(tmp_path: Path, elsewhere: Path) -> None:
    folder = build(tmp_path, "API_VERSION = 1")
    said = load(folder, elsewhere, "import types; sys.modules['engine'] = types.ModuleType('engine')")
    assert "engine: imported before the build" in said


@pytest.mark.parametrize(("manifest", "says"), [("{", "build.json: not readable as JSON"), ("[]", "build.json: found a list")])
def test_a_broken_manifest(tmp_path: Path, elsewhere: Path, manifest: str, says: str) -> None:
    assert says in load(build(tmp_path, "API_VERSION = 1", manifest), elsewhere)


def test_an_altered_module_is_seen(tmp_path: Path, elsewhere: Path) -> None:
    """The compiled module here is one of Python's own, loaded as the engine's."""
    import _ctypes

    init = """
        import importlib.machinery, importlib.util, sys
        from pathlib import Path
        API_VERSION = 1
        def build_info():
            path = str(Path(__file__).parent / "_native.so")
            loader = importlib.machinery.ExtensionFileLoader("_ctypes", path)
            sys.modules["engine._native"] = importlib.util.module_from_spec(importlib.util.spec_from_loader("_ctypes", loader))
            return {}
    """
    folder = build(tmp_path, init, json.dumps({"module_sha256": "ab" * 32}))
    module = folder / "engine" / "_native.so"
    module.write_bytes(Path(_ctypes.__file__).read_bytes())
    said = load(folder, elsewhere)
    assert f"but build.json states {'ab' * 32}: altered since it was built" in said
    (folder / "build.json").unlink()
    assert load(folder, elsewhere) == f"loaded {module.resolve()}\n"
