"""The builds that a run over commits needs: each is a result, recorded in the store; what failed to build is not tried again."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flows.build import Build, BuildError, build_engine, find_compiler, find_tool
from flows.build_cache import unpin
from flows.folders import RunFolder
from flows.measurements.under_test import SUPPORTED_API
from flows.native_build import toolchain
from flows.progress import report
from flows.revisions import require_reached, sources_of
from flows.settings import HostSettings
from flows.source import SourceError, tree_digest
from storage.records import Source


@dataclass(frozen=True)
class Engine:
    """A commit's engine, ready to be measured."""

    commit: str
    build: Build
    source: Source


@dataclass(frozen=True)
class Unmeasurable:
    """A commit without an engine that can be measured here, and why."""

    commit: str
    why: str


@dataclass
class BuildCosts:
    """What the builds of one run took."""

    compiled: int = 0  # native modules
    reused: int = 0  # builds of which the native module was there
    failed: int = 0
    known: int = 0  # failures of earlier runs, not tried again
    seconds: float = 0.0

    def describe(self) -> str:
        """For people: 2 compiled, 9 from the cache, 1 failed; 130 s."""
        parts = [f"{self.compiled} compiled", f"{self.reused} from the cache"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.known} known to fail"] if self.known else []
        return f"{', '.join(parts)}; {self.seconds:.0f} s"


class CommitBuilds:
    """Builds commits of one repository for one run, and keeps count."""

    def __init__(self, repo: Path, host: HostSettings, folder: RunFolder, retry: bool = False) -> None:
        self._repo, self._host, self._folder, self._retry = repo, host, folder, retry
        self.costs = BuildCosts()
        need_tools(host)
        self._tools = toolchain(host).text

    def of(self, commit: str) -> Engine | Unmeasurable:
        """The commit's engine, built or found, or why there is none. Raises SourceError for a commit that nothing reaches, and
        StoreError.
        """
        require_reached(self._repo, commit)
        began = time.monotonic()
        try:
            found = self._build(commit)
        finally:
            self.costs.seconds += time.monotonic() - began
        if isinstance(found, Unmeasurable):
            report().note(f"{commit[:10]}: {found.why.partition(chr(10))[0]}")
        return found

    def let_go(self, engine: Engine) -> None:
        """The build is not needed any more: it stays in the cache for as long as there is room."""
        unpin(engine.build.folder)

    def _build(self, commit: str) -> Engine | Unmeasurable:
        try:
            with sources_of(self._repo, commit) as folder:
                source = Source(commit=commit, dirty=False, tree=tree_digest(folder))
                return self._build_in(folder, source)
        except SourceError as error:  # no engine/ or no native/ in it yet: nothing to build, and so no failure
            return Unmeasurable(commit, str(error))

    def _build_in(self, folder: Path, source: Source) -> Engine | Unmeasurable:
        from storage.builds import known_failure

        known = None if self._retry else known_failure(self._folder.snapshot, source.tree, self._tools)
        if known is not None:
            self.costs.known += 1
            return Unmeasurable(source.commit, f"is known not to build, so it is not tried again: {known}")
        log = self._folder.logs / f"build.{source.commit[:12]}.log"
        try:
            made = partial(build_engine, folder, self._host, log, _waiting, source=source)
            build = recorded(self._folder, source, self._tools, lambda: made()[0])
        except BuildError as error:
            self.costs.failed += 1
            return Unmeasurable(source.commit, f"does not build: {error}")
        report().note(f"{source.commit[:10]}: engine {build.how}")
        self.costs.compiled += build.compiled_s is not None
        self.costs.reused += build.compiled_s is None
        if (why := too_old(build)) is not None:
            return Unmeasurable(source.commit, why)
        return Engine(source.commit, build, source)


def recorded(folder: RunFolder, source: Source, tools: str, make: Callable[[], Build]) -> Build:
    """The build that is made, or its error, kept as a result of the run either way; `tools` is the toolchain's text.

    Raises BuildError, StoreError.
    """
    from storage.ingest import store_build

    began, asked = time.monotonic(), {**source.model_dump(), "toolchain": tools}
    try:
        build = make()
    except BuildError as error:
        seconds = time.monotonic() - began
        store_build(folder.store, folder.run_id, asked, seconds=seconds, failure=str(error))
        raise
    store_build(folder.store, folder.run_id, {**build.info, **asked}, seconds=build.compiled_s)
    return build


def need_tools(host: HostSettings) -> None:
    """Raise BuildError where a tool is missing: that is no commit's fault, and no result."""
    find_compiler(host.compiler)
    for tool in ("cmake", "ninja"):
        find_tool(tool)


def too_old(build: Build) -> str | None:
    """Why this harness cannot measure the engine; None where it can."""
    version = build.info.get("engine_api", build.info["api_version"])
    if version in SUPPORTED_API:
        return None
    supported = ", ".join(map(str, sorted(SUPPORTED_API)))
    return f"its engine speaks API version {version}; this harness measures {supported}"


def _waiting() -> None:
    report().note("waiting: another engine is being built on this cache")
