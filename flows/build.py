"""Builds of the engine under test: a content-addressed folder each, made once, whole or not at all.

BUILD/engine/*.py, BUILD/engine/_native*.so and BUILD/build.json. The key is the digest of engine/ and native/, the flags, the
compiler and Python, so that two commits with the same engine share a build.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flows.locks import exclusive
from flows.measurements.child import run_supervised
from flows.revisions import sources_of
from flows.settings import HostSettings, child_environment
from flows.source import describe_source, find_repo, source_files, tree_digest
from storage.records import Source

BUILD_VERSION = 1  # of the folder's layout
_TAIL_LINES = 20
_FIRST_ERRORS = 5
_BUILD_TYPE = "Release"
_INSTALL_COMPILER = "install a C++20 compiler (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++) or name one in CXX"

# Runs in a process of its own: imports the compiled module by its file, whatever else is installed.
_PROBE = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("_native", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(json.dumps({"api_version": module.API_VERSION, **module.build_info()}))
"""


class BuildError(RuntimeError):
    """The engine could not be built, or a build folder cannot be used. Names the log or the missing tool."""


@dataclass(frozen=True)
class Build:
    """A build folder and what it says of itself (build.json)."""

    folder: Path
    info: dict[str, Any]

    @property
    def short(self) -> str:
        """First letters of the commit, or of the sources' digest outside git."""
        commit = str(self.info["commit"])
        return (commit if commit != "unknown" else str(self.info["tree"]))[:7]

    @property
    def content(self) -> str:
        """Digest of all that runs: the native module and the engine's Python. Equal contents cannot differ."""
        total = hashlib.sha256(str(self.info["module_sha256"]).encode())
        for path in sorted((self.folder / "engine").rglob("*.py")):
            total.update(f"{path.relative_to(self.folder).as_posix()}\0".encode() + path.read_bytes())
        return total.hexdigest()


def build_engine(
    repo: Path, host: HostSettings, log: Path, on_wait: Callable[[], None] = lambda: None, *, source: Source | None = None
) -> tuple[Build, Source]:
    """Build the engine of `repo`, or find it built. The compiler's output goes to `log`. Raises BuildError.

    source says what the tree is, where git cannot be asked there.
    """
    source = source or describe_source(repo)
    compiler = find_compiler(host.compiler)
    key = _key(source.tree, compiler, host)
    builds = host.cache / "builds"
    builds.mkdir(parents=True, exist_ok=True)
    folder = builds / key
    with exclusive(builds / f"{key}.lock", on_wait):
        if not (folder / "build.json").is_file():
            for leftover in builds.glob(f".{key}.*"):  # of a build that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            work = builds / f".{key}.{os.getpid()}"
            try:
                made = _compile(repo, source.tree, work, compiler, host, log)
                _describe(made, source)
                made.rename(folder)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return open_build(folder), source


def open_build(folder: Path) -> Build:
    """Use an existing build folder. Raises BuildError where it is incomplete or its module is not the one described."""
    folder = folder.resolve()
    description = folder / "build.json"
    try:
        info = json.loads(description.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BuildError(f"{description}: not a readable build description: {error}; `paceline build` makes one") from error
    found = _sha256(_module(folder))
    if info.get("module_sha256") != found:
        raise BuildError(
            f"{folder}: module_sha256 {info.get('module_sha256')!r} is not that of the module there ({found}): build it again"
        )
    return Build(folder, info)


def build_commit(repo: Path, commit: str, host: HostSettings, log: Path) -> tuple[Build, Source]:
    """Build the engine of a commit of `repo`, or find it built. Raises BuildError, SourceError."""
    with sources_of(repo, commit) as folder:
        source = Source(commit=commit, dirty=False, tree=tree_digest(folder))
        return build_engine(folder, host, log, source=source)


def source_of(build: Build) -> Source:
    """What an existing build says it was built from."""
    return Source(commit=build.info["commit"], dirty=build.info["dirty"], tree=build.info["tree"])


def source_under_test(host: HostSettings) -> Source:
    """What would be measured: the source tree, or what an existing build says of itself. Raises SourceError, BuildError."""
    return source_of(open_build(host.build)) if host.build else describe_source(find_repo(host.repo))


def _compile(repo: Path, tree: str, work: Path, compiler: Path, host: HostSettings, log: Path) -> Path:
    """Configure, build and install native/, and copy engine/ beside it; return the finished folder inside `work`."""
    import pybind11

    cmake, ninja = find_tool("cmake"), find_tool("ninja")
    sources, objects, out = work / "sources", work / "objects", work / "out"
    _copy_sources(repo, sources)
    if tree_digest(sources) != tree:
        raise BuildError(f"{repo}: engine/ or native/ changed while being read: run again")
    commands: list[list[str | Path]] = [
        [cmake, "-S", sources / "native", "-B", objects, "-G", "Ninja", f"-DCMAKE_BUILD_TYPE={_BUILD_TYPE}"],
        [cmake, "--build", objects, "-j", str(len(os.sched_getaffinity(0)))],
        [cmake, "--install", objects, "--prefix", out],
    ]
    commands[0] += [f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_CXX_FLAGS={host.flags}"]
    commands[0] += [f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]
    if host.cuda:
        commands[0] += ["-DPACELINE_CUDA=ON", f"-DPACELINE_CUDA_ARCHITECTURES={host.cuda}"]
    for command in commands:
        _run(command, log, 60 * host.build_minutes)
    shutil.copytree(sources / "engine", out / "engine", dirs_exist_ok=True)
    return out


def _copy_sources(repo: Path, target: Path) -> None:
    """Copy engine/ and native/, so that nothing changes under the compiler."""
    for path in source_files(repo):
        copy = target / path.relative_to(repo)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def _run(command: Sequence[str | Path], log: Path, deadline_s: float) -> None:
    outcome = run_supervised(command, log, deadline_s, env=child_environment({"NINJA_STATUS": "[%f/%t] ", "LC_ALL": "C"}))
    if not outcome.ok:
        step = " ".join(str(part) for part in command[:2])
        raise BuildError("\n".join([f"building the engine: {step}: {outcome.describe()}", *_worth_showing(log), f"log: {log}"]))


def _worth_showing(log: Path) -> list[str]:
    """The first errors, which cause the rest, and the end of the log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    first = [line for line in lines[:-_TAIL_LINES] if "error" in line.lower()][:_FIRST_ERRORS]
    return [*first, *lines[-_TAIL_LINES:]]


def _describe(made: Path, source: Source) -> None:
    """Write build.json beside the finished module, which must load here."""
    module = _module(made)
    probe = subprocess.run([sys.executable, "-P", "-c", _PROBE, str(module)], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        raise BuildError(f"{module.name} was built but does not load: {probe.stderr.strip()[-2000:]}")
    facts = json.loads(probe.stdout)
    info = source.model_dump() | {
        "build_version": BUILD_VERSION,
        "api_version": facts["api_version"],
        "compiler": facts["compiler"],
        "flags": facts["flags"],
        "module_sha256": _sha256(module),
        "created_at": datetime.now(UTC).isoformat(),
    }
    (made / "build.json").write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")


def _module(folder: Path) -> Path:
    found = sorted((folder / "engine").glob("_native*.so"))
    if len(found) != 1:
        raise BuildError(f"{folder}/engine: found {len(found)} files _native*.so: a build folder has exactly one")
    return found[0]


def find_compiler(name: str) -> Path:
    """The compiler of that name or path. Raises BuildError with the command that installs one."""
    found = shutil.which(name)
    if found is None:
        raise BuildError(f"C++ compiler {name!r}: not found: {_INSTALL_COMPILER}")
    return Path(found)


def find_tool(name: str) -> Path:
    """A build tool of this Python environment, else of the system. Raises BuildError with the command that installs it."""
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise BuildError(f"{name}: not found: install it with: {sys.executable} -m pip install {name}")
    return Path(found)


def _key(tree: str, compiler: Path, host: HostSettings) -> str:
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[0]
    parts = [BUILD_VERSION, tree, compiler.resolve(), version, _BUILD_TYPE, host.flags, sysconfig.get_config_var("SOABI")]
    parts += [f"cuda {host.cuda}"] if host.cuda else []
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:24]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
