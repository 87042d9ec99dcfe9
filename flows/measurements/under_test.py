"""Imports the engine under test from its build folder, and from nowhere else.

The environment may hold an `engine` of its own (an editable install brings a finder that answers for it), so ours is asked first
and never passes the question on: a module that the build lacks is missing.
"""

import hashlib
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

SUPPORTED_API = frozenset({1})
PACKAGE = "engine"
REBUILD = "build it again: paceline build, or cmake -S native -B DIR && cmake --build DIR && cmake --install DIR --prefix BUILD"


class BuildError(RuntimeError):
    """A build folder that cannot be measured. The message names the folder or file, what was found and what to do."""


@dataclass(frozen=True)
class UnderTest:
    """The imported engine, and where it came from."""

    engine: ModuleType
    folder: Path
    manifest: dict[str, Any]  # build.json; empty where the build has none
    api_version: int
    build_info: dict[str, Any]  # as the module tells it
    module: Path  # the compiled module
    module_sha256: str


class BuildFinder(MetaPathFinder):
    """Answers for `engine` and everything below it, from one folder only."""

    def __init__(self, build: Path) -> None:
        self._root = build

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a module of the engine in the build; raises ModuleNotFoundError rather than let another finder answer."""
        if fullname.partition(".")[0] != PACKAGE:
            return None
        search = [str(self._root)] if fullname == PACKAGE else list(path or ())
        spec = PathFinder.find_spec(fullname, search, target)
        if spec is None:
            raise ModuleNotFoundError(f"{fullname} is not in the build {self._root}", name=fullname)
        return spec


def load_under_test(build: Path) -> UnderTest:
    """Import `engine` from `build`.

    Raises BuildError where the folder is no build, the API version is not a supported one, a module came from elsewhere, or the
    compiled module is not the one that was built.
    """
    folder = build.resolve()
    if not (folder / PACKAGE / "__init__.py").is_file():
        raise BuildError(f"{build}: no {PACKAGE}/__init__.py in it: not a build folder; {REBUILD}")
    present = sorted(name for name in sys.modules if name.partition(".")[0] == PACKAGE)
    if present:
        raise BuildError(f"{', '.join(present)}: imported before the build {build} was chosen; a process measures one build")
    manifest = _read_manifest(folder)
    use_engine_of(folder)
    try:
        engine = importlib.import_module(PACKAGE)
    except ImportError as error:
        raise BuildError(f"{build}: {PACKAGE} cannot be imported: {error}; {REBUILD}") from error
    api_version = _check_api(build, engine)
    info = dict(engine.build_info())
    module = _check_origins(folder)
    digest = hashlib.sha256(module.read_bytes()).hexdigest()
    stated = manifest.get("module_sha256")
    if stated is not None and stated != digest:
        raise BuildError(f"{module}: sha256 {digest}, but build.json states {stated}: altered since it was built; {REBUILD}")
    return UnderTest(engine, folder, manifest, api_version, info, module, digest)


def open_session(engine: ModuleType, checkpoint: str, options: Any, cache: Path | None) -> Any:
    """A session of the engine, synthetic checkpoints kept under `cache`. Builds from before that choice keep them in ~/.cache."""
    chooses = cache is not None and "cache" in inspect.signature(engine.Session.open).parameters
    return engine.Session.open(checkpoint, options, **({"cache": cache} if chooses else {}))


def use_engine_of(folder: Path) -> None:
    """From here on `engine` is what `folder` holds, a build or a source tree, and nothing else answers for it."""
    sys.meta_path.insert(0, BuildFinder(folder.resolve()))
    importlib.invalidate_caches()


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "build.json"
    if not path.exists():
        return {}
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BuildError(f"{path}: not readable as JSON: {error}; {REBUILD}") from error
    if not isinstance(manifest, dict):
        raise BuildError(f"{path}: found a {type(manifest).__name__}: must be an object; {REBUILD}")
    return manifest


def _check_api(build: Path, engine: ModuleType) -> int:
    version = getattr(engine, "API_VERSION", None)
    if isinstance(version, bool) or not isinstance(version, int) or version not in SUPPORTED_API:
        supported = ", ".join(map(str, sorted(SUPPORTED_API)))
        raise BuildError(f"{build}: engine.API_VERSION is {version!r}; this harness measures API versions {supported}")
    return version


def _check_origins(folder: Path) -> Path:
    """Every module of the engine lies in the build; returns the compiled one."""
    compiled: set[Path] = set()  # a native submodule carries its parent's file
    for name, module in sorted(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if name.partition(".")[0] != PACKAGE or origin is None:  # a namespace has no file of its own
            continue
        path = Path(origin).resolve()
        if not path.is_relative_to(folder):
            raise BuildError(f"{name}: imported from {path}, outside the build {folder}")
        if path.suffix == ".so":
            compiled.add(path)
    if len(compiled) != 1:
        found = ", ".join(map(str, sorted(compiled))) or "none"
        raise BuildError(f"{folder}: compiled modules loaded: {found}; must be exactly one, {PACKAGE}/_native*.so; {REBUILD}")
    return compiled.pop()
