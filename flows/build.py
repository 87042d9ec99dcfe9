"""Builds of the engine under test: a content-addressed folder each, made once, whole or not at all.

BUILD/engine/*.py, BUILD/engine/_native*.so and BUILD/build.json. The key is the digest of engine/ and native/, the flags, the
compiler and Python, so that two commits with the same engine share a build; two that differ in engine/ alone share the compiled
module (flows/native_build.py). One process builds at a time on a cache.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flows.build_cache import clear_leftovers, lock_of, make_room, pin
from flows.locks import exclusive
from flows.native_build import (
    BuildError,
    NativeModule,
    Toolchain,
    find_compiler,
    find_tool,
    module_in,
    native_module,
    sha256_of,
    toolchain,
)
from flows.progress import duration
from flows.revisions import require_reached, resolve, sources_of
from flows.settings import HostSettings, harness_environment
from flows.source import describe_source, find_repo, source_files, tree_digest
from storage.records import Source

__all__ = [
    "Build",
    "BuildError",
    "build_asked",
    "build_commit",
    "build_engine",
    "build_key",
    "commit_source",
    "find_compiler",
    "find_tool",
    "open_build",
    "source_of",
    "source_under_test",
]

BUILD_VERSION = 1  # of the folder's layout
FOUND = "found in the cache"

# Runs in a process of its own: imports the engine's Python from the finished folder.
_PROBE = """
import json, sys
from pathlib import Path
from flows.measurements.under_test import use_engine_of
use_engine_of(Path(sys.argv[1]))
import engine
print(json.dumps(getattr(engine, "API_VERSION", None)))
"""


@dataclass(frozen=True)
class Build:
    """A build folder and what it says of itself (build.json). how and compiled_s tell of the call that opened it."""

    folder: Path
    info: dict[str, Any]
    how: str = field(default=FOUND, compare=False)
    compiled_s: float | None = field(default=None, compare=False)  # None where the compiled module was there already

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
    tools = toolchain(host)
    builds = host.cache / "builds"
    builds.mkdir(parents=True, exist_ok=True)
    folder = builds / build_key(source.tree, tools)
    pin(folder)
    if (folder / "build.json").is_file():
        return open_build(folder), source
    with exclusive(builds / "builder.lock", on_wait):
        if (folder / "build.json").is_file():
            return open_build(folder), source
        clear_leftovers(builds)
        native = _make(repo, source, folder, tools, (host, log))
        make_room(builds, 1e9 * host.builds_gb)
    made = open_build(folder)
    if native.compiled_s is None:
        return Build(folder, made.info, "its native module found in the cache, its Python put beside it"), source
    return Build(folder, made.info, f"compiled in {duration(native.compiled_s)}", native.compiled_s), source


def build_asked(host: HostSettings, log: Path, on_wait: Callable[[], None] = lambda: None) -> tuple[Build, Source]:
    """The engine that the settings name: an existing build, a commit, or the tree. Raises BuildError, SourceError."""
    if host.build:
        build = open_build(host.build)
        return build, source_of(build)
    repo = find_repo(host.repo)
    if host.commit:
        return build_commit(repo, resolve(repo, host.commit), host, log, on_wait)
    return build_engine(repo, host, log, on_wait)


def open_build(folder: Path) -> Build:
    """Use an existing build folder. Raises BuildError where it is incomplete or its module is not the one described."""
    folder = folder.resolve()
    if lock_of(folder).exists():
        pin(folder)
    description = folder / "build.json"
    try:
        info = json.loads(description.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BuildError(f"{description}: not a readable build description: {error}; `paceline build` makes one") from error
    found = sha256_of(module_in(folder))
    if info.get("module_sha256") != found:
        raise BuildError(
            f"{folder}: module_sha256 {info.get('module_sha256')!r} is not that of the module there ({found}): build it again"
        )
    return Build(folder, info)


def build_commit(
    repo: Path, commit: str, host: HostSettings, log: Path, on_wait: Callable[[], None] = lambda: None
) -> tuple[Build, Source]:
    """Build the engine of a commit that a branch, a tag or the head of `repo` reaches, or find it built.

    Raises BuildError, SourceError.
    """
    require_reached(repo, commit)
    with sources_of(repo, commit) as folder:
        source = Source(commit=commit, dirty=False, tree=tree_digest(folder))
        return build_engine(folder, host, log, on_wait, source=source)


def build_key(tree: str, tools: Toolchain) -> str:
    """The name of the build of sources with this digest."""
    return hashlib.sha256("\0".join(map(str, [BUILD_VERSION, tree, *tools.parts])).encode()).hexdigest()[:24]


def source_of(build: Build) -> Source:
    """What an existing build says it was built from."""
    return Source(commit=build.info["commit"], dirty=build.info["dirty"], tree=build.info["tree"])


def source_under_test(host: HostSettings) -> Source:
    """What would be measured: the source tree, a commit of it, or what an existing build says of itself.

    Raises SourceError, BuildError.
    """
    if host.build:
        return source_of(open_build(host.build))
    repo = find_repo(host.repo)
    return commit_source(repo, resolve(repo, host.commit)) if host.commit else describe_source(repo)


def commit_source(repo: Path, commit: str) -> Source:
    """A commit as a source. Raises SourceError where it has no engine/ and native/."""
    with sources_of(repo, commit) as folder:
        return Source(commit=commit, dirty=False, tree=tree_digest(folder))


def _make(repo: Path, source: Source, folder: Path, tools: Toolchain, where: tuple[HostSettings, Path]) -> NativeModule:
    """Put engine/ beside the module of native/, in a folder that appears whole or not at all. Raises BuildError."""
    host, log = where
    work = folder.with_name(f".{folder.name}.{os.getpid()}")
    sources, out = work / "sources", work / "out"
    try:
        _copy_sources(repo, sources)
        if tree_digest(sources) != source.tree:
            raise BuildError(f"{repo}: engine/ or native/ changed while being read: run again")
        native = native_module(sources, tools, host, log)
        shutil.copytree(sources / "engine", out / "engine")
        shutil.copy2(native.path, out / "engine" / native.path.name)
        _describe(out, source, native)
        out.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return native


def _copy_sources(repo: Path, target: Path) -> None:
    """Copy engine/ and native/, so that nothing changes under the compiler."""
    for path in source_files(repo):
        copy = target / path.relative_to(repo)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def _describe(made: Path, source: Source, native: NativeModule) -> None:
    """Write build.json beside the finished engine, whose Python must import here. Raises BuildError."""
    command = [sys.executable, "-P", "-c", _PROBE, str(made)]
    probe = subprocess.run(command, capture_output=True, text=True, check=False, env=harness_environment())
    if probe.returncode != 0:
        last = probe.stderr.strip().rpartition("\n")[2]
        raise BuildError(f"engine/ of {source.commit[:10]} cannot be imported: {last}")
    facts = {name: native.info[name] for name in ("api_version", "compiler", "flags", "module_sha256")}
    info = source.model_dump() | {"build_version": BUILD_VERSION, "engine_api": json.loads(probe.stdout), **facts}
    info["created_at"] = datetime.now(UTC).isoformat()
    (made / "build.json").write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")
