"""The compiled module: made once for each state of native/, whatever engine/ stands beside it.

NATIVE/engine/_native*.so and NATIVE/native.json, in a folder named by the digest of native/, the flags, the compiler and Python.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flows.build_cache import NATIVE, pin
from flows.measurements.child import run_supervised
from flows.settings import HostSettings, child_environment
from flows.source import native_digest

NATIVE_VERSION = 1  # of the folder's layout
BUILD_TYPE = "Release"
_TAIL_LINES = 20
_FIRST_ERRORS = 5
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
class Toolchain:
    """What turns sources into a module, and so is part of every build's name."""

    compiler: Path
    version: str
    flags: str
    cuda: str

    @property
    def parts(self) -> list[str]:
        """What digests are made of."""
        python = str(sysconfig.get_config_var("SOABI"))
        parts = [str(self.compiler.resolve()), self.version, BUILD_TYPE, self.flags, python]
        return parts + ([f"cuda {self.cuda}"] if self.cuda else [])

    @property
    def text(self) -> str:
        """All of it in one line, for records."""
        return "; ".join(self.parts)


@dataclass(frozen=True)
class NativeModule:
    """A compiled module and what it says of itself (native.json). compiled_s is None where it was found."""

    path: Path
    info: dict[str, Any]
    compiled_s: float | None


def toolchain(host: HostSettings) -> Toolchain:
    """The compiler and flags that the settings name. Raises BuildError."""
    compiler = find_compiler(host.compiler)
    told = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return Toolchain(compiler, told.partition("\n")[0], host.flags, host.cuda)


def native_folder(sources: Path, tools: Toolchain, host: HostSettings) -> Path:
    """Where the module of these sources is kept, made or not."""
    text = "\0".join(map(str, [NATIVE_VERSION, native_digest(sources), *tools.parts]))
    return host.cache / "builds" / NATIVE / hashlib.sha256(text.encode()).hexdigest()[:24]


def native_module(sources: Path, tools: Toolchain, host: HostSettings, log: Path) -> NativeModule:
    """Compile native/ of a folder that nobody changes meanwhile, or find it compiled. Only the one builder calls this.

    Raises BuildError with the compiler's words.
    """
    folder = native_folder(sources, tools, host)
    folder.parent.mkdir(parents=True, exist_ok=True)
    pin(folder)
    if (folder / "native.json").is_file():
        info = json.loads((folder / "native.json").read_text(encoding="utf-8"))
        return NativeModule(module_in(folder), info, None)
    work = folder.with_name(f".{folder.name}.{os.getpid()}")
    began = time.monotonic()
    try:
        made = _compile(sources, work, tools, host, log)
        compiled_s = time.monotonic() - began
        info = _facts_of(module_in(made)) | {"seconds": compiled_s, "created_at": datetime.now(UTC).isoformat()}
        (made / "native.json").write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")
        made.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return NativeModule(module_in(folder), info, compiled_s)


def module_in(folder: Path) -> Path:
    """The one compiled module of a build folder. Raises BuildError."""
    found = sorted((folder / "engine").glob("_native*.so"))
    if len(found) != 1:
        raise BuildError(f"{folder}/engine: found {len(found)} files _native*.so: a build folder has exactly one")
    return found[0]


def sha256_of(path: Path) -> str:
    """Digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


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


def _compile(sources: Path, work: Path, tools: Toolchain, host: HostSettings, log: Path) -> Path:
    """Configure, build and install native/; return the finished folder inside `work`."""
    import pybind11

    cmake, ninja = find_tool("cmake"), find_tool("ninja")
    objects, out = work / "objects", work / "out"
    commands: list[list[str | Path]] = [
        [cmake, "-S", sources / "native", "-B", objects, "-G", "Ninja", f"-DCMAKE_BUILD_TYPE={BUILD_TYPE}"],
        [cmake, "--build", objects, "-j", str(len(os.sched_getaffinity(0)))],
        [cmake, "--install", objects, "--prefix", out],
    ]
    commands[0] += [f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DCMAKE_CXX_COMPILER={tools.compiler}", f"-DCMAKE_CXX_FLAGS={tools.flags}"]
    commands[0] += [f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]
    if tools.cuda:
        commands[0] += ["-DPACELINE_CUDA=ON", f"-DPACELINE_CUDA_ARCHITECTURES={tools.cuda}"]
    for command in commands:
        _run(command, log, 60 * host.build_minutes)
    return out


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


def _facts_of(module: Path) -> dict[str, Any]:
    """What the module says of itself; it must load here. Raises BuildError."""
    probe = subprocess.run([sys.executable, "-P", "-c", _PROBE, str(module)], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        raise BuildError(f"{module.name} was built but does not load: {probe.stderr.strip()[-2000:]}")
    facts = json.loads(probe.stdout)
    return {name: facts[name] for name in ("api_version", "compiler", "flags")} | {"module_sha256": sha256_of(module)}
