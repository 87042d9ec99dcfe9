"""Builds of a small real native project: content-addressed, whole or not at all, and errors that help."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from flows import build as building
from flows import build_cache
from flows.build import BuildError, build_engine, open_build, source_of
from flows.settings import HostSettings
from flows.source import SourceError, describe_source, find_repo, tree_digest

CMAKE = """
cmake_minimum_required(VERSION 3.24)
project(small LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 CONFIG REQUIRED)
Python_add_library(_native MODULE WITH_SOABI module.cc)
install(TARGETS _native DESTINATION engine)
"""
MODULE = """
#include <Python.h>
static PyObject* build_info(PyObject*, PyObject*) { return Py_BuildValue("{s:s,s:s}", "compiler", "some", "flags", "-O3"); }
static PyMethodDef methods[] = {{"build_info", build_info, METH_NOARGS, nullptr}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", nullptr, -1, methods};
PyMODINIT_FUNC PyInit__native() {
  PyObject* made = PyModule_Create(&module);
  PyModule_AddIntConstant(made, "API_VERSION", 1);
  return made;
}
"""


def make_repo(folder: Path, module: str = MODULE) -> Path:
    for path, text in {
        "native/CMakeLists.txt": CMAKE,
        "native/module.cc": module,
        "engine/__init__.py": "API_VERSION = 1\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a space in its name, as clones have."""
    return tmp_path_factory.mktemp("fresh clone.")


@pytest.fixture(scope="module")
def host(base: Path) -> HostSettings:
    return HostSettings(cache=base / "the cache")


@pytest.fixture(scope="module")
def repo(base: Path) -> Path:
    return make_repo(base / "the repo")


@pytest.fixture(scope="module")
def built(repo: Path, host: HostSettings, base: Path) -> building.Build:
    return build_engine(repo, host, base / "build.log")[0]


def test_folder_holds_engine_module_and_description(built: building.Build, repo: Path) -> None:
    assert (built.folder / "engine/__init__.py").read_text() == "API_VERSION = 1\n"
    assert len(list(built.folder.glob("engine/_native*.so"))) == 1
    info = json.loads((built.folder / "build.json").read_text())
    assert (info["commit"], info["dirty"], info["tree"]) == ("unknown", False, tree_digest(repo))
    assert (info["api_version"], info["compiler"], info["flags"]) == (1, "some", "-O3")
    assert source_of(built).tree == tree_digest(repo)


def test_same_sources_are_built_once(built: building.Build, repo: Path, host: HostSettings, base: Path) -> None:
    log = base / "second.log"
    again, _ = build_engine(repo, host, log)
    assert again == built
    assert not log.exists(), "nothing was compiled"


def test_a_copy_elsewhere_shares_the_build(built: building.Build, host: HostSettings, base: Path) -> None:
    again, _ = build_engine(make_repo(base / "another clone"), host, base / "third.log")
    assert again.folder == built.folder


def test_compiler_errors_are_shown_with_the_log(host: HostSettings, base: Path) -> None:
    broken = make_repo(base / "broken", MODULE.replace("return made;", "return undeclared;"))
    with pytest.raises(BuildError) as caught:
        build_engine(broken, host, base / "broken.log")
    assert "'undeclared' was not declared" in str(caught.value)
    assert f"log: {base / 'broken.log'}" in str(caught.value)
    left = list((host.cache / "builds").rglob("*.json"))
    assert sorted(path.name for path in left) == ["build.json", "native.json"], "a failed build leaves no folder"


def test_engines_that_differ_in_python_alone_share_the_compiled_module(
    built: building.Build, host: HostSettings, base: Path
) -> None:
    other = make_repo(base / "other python")
    (other / "engine/__init__.py").write_text("API_VERSION = 1\nMORE = 1\n")
    found, _ = build_engine(other, host, base / "python.log")
    assert found.folder != built.folder
    assert found.info["module_sha256"] == built.info["module_sha256"]
    assert (found.compiled_s, found.how) == (None, "its native module found in the cache, its Python put beside it")
    assert not (base / "python.log").exists(), "nothing was compiled"


def test_python_that_cannot_be_imported_is_no_build(host: HostSettings, base: Path) -> None:
    broken = make_repo(base / "broken python")
    (broken / "engine/__init__.py").write_text("API_VERSION = 1\nimport no_such_module\n")
    with pytest.raises(BuildError, match=r"cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"):
        build_engine(broken, host, base / "import.log")


def test_beyond_the_limit_the_build_used_longest_ago_goes_and_what_is_in_use_stays(tmp_path: Path) -> None:
    def make(name: str, used: float) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        description = folder / ("native.json" if name.startswith("native/") else "build.json")
        description.write_text(" " * 1000)
        os.utime(description, (used, used))
        return folder

    old, module, pinned, new = make("old", 1), make("native/module", 2), make("pinned", 0), make("new", 3)
    (tmp_path / ".dead.999999999").mkdir()
    (tmp_path / f".living.{os.getpid()}").mkdir()
    build_cache.pin(pinned)
    assert pinned.joinpath("build.json").stat().st_mtime > 3, "it is used now"
    os.utime(pinned / "build.json", (0, 0))
    build_cache.clear_leftovers(tmp_path)
    assert [path.name for path in tmp_path.glob(".*")] == [f".living.{os.getpid()}"]
    assert build_cache.make_room(tmp_path, 2500) == [old, module]
    assert build_cache.make_room(tmp_path, 2500) == []
    build_cache.unpin(pinned)
    assert build_cache.make_room(tmp_path, 1500) == [pinned]
    assert new.is_dir()


def test_a_missing_compiler_comes_with_the_command_that_installs_one(repo: Path, base: Path) -> None:
    with pytest.raises(BuildError, match=r"C\+\+ compiler 'no-such-c\+\+': not found: .*apt install g\+\+"):
        build_engine(repo, HostSettings(cache=base / "other", compiler="no-such-c++"), base / "log")


def test_a_missing_tool_comes_with_the_command_that_installs_it() -> None:
    with pytest.raises(BuildError, match=r"no-such-tool: not found: install it with: .* -m pip install no-such-tool"):
        building.find_tool("no-such-tool")


def test_changed_module_or_missing_description_is_refused(built: building.Build, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built.folder, copy)
    assert open_build(copy).info == built.info
    next(copy.glob("engine/_native*.so")).write_bytes(b"else")
    with pytest.raises(BuildError, match="module_sha256"):
        open_build(copy)
    (copy / "build.json").unlink()
    with pytest.raises(BuildError, match=r"build\.json: not a readable build description"):
        open_build(copy)


def test_source_is_described_by_commit_and_engine_changes_alone(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        return subprocess.run(
            ["git", "-C", repo, *identity, *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    clean = describe_source(repo)
    assert (clean.commit, clean.dirty) == (git("rev-parse", "HEAD"), False)
    (repo / "README.md").write_text("text")
    assert describe_source(repo) == clean, "what is not under test does not matter"
    (repo / "engine/__pycache__").mkdir()
    (repo / "engine/__pycache__/x.pyc").write_text("cached")
    (repo / "engine/_native.so").write_text("built")
    assert describe_source(repo).tree == clean.tree
    (repo / "engine/__init__.py").write_text("API_VERSION = 2\n")
    changed = describe_source(repo)
    assert changed.dirty
    assert changed.tree != clean.tree


def test_a_folder_without_sources_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no engine sources here .*--repo FOLDER.*--build FOLDER"):
        find_repo(tmp_path)
