"""A planted history: a real repository of this engine in which one commit loses speed, and others break or change nothing.

native/ is this tree's; its module is taken from an existing build, so that nothing is compiled but where a commit asks for it.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from flows.build import open_build
from flows.native_build import native_folder, toolchain
from flows.settings import HostSettings

ROOT = Path(__file__).resolve().parents[3]
DATE = "2026-01-01T00:00:00+00:00"  # of every commit: dates order nothing

# Batch mode's requests say that they took FACTOR times as long: a loss that no noise hides, and that costs the test no time.
LOSS = """

import dataclasses as _dataclasses

_open, _generate = Session.open.__func__, Session.generate


def _open_known(cls, checkpoint, options, **more):
    session = _open(cls, checkpoint, options, **more)
    session.mode = options.mode
    return session


def _slowed(generation, first):
    later = lambda instant: first + FACTOR * (instant - first)
    times = tuple(map(later, generation.token_times_s))
    return _dataclasses.replace(generation, finished_s=later(generation.finished_s), token_times_s=times)


def _generate_slowly(self, prompts, max_new_tokens, **more):
    results = _generate(self, prompts, max_new_tokens, **more)
    first = min(result.submitted_s for result in results)
    return [_slowed(result, first) for result in results] if self.mode == "batch" else results


Session.open, Session.generate = classmethod(_open_known), _generate_slowly
"""


ONE_THREAD = """

import dataclasses as _dataclasses

_open = Session.open.__func__


def _open_narrow(cls, checkpoint, options, **more):
    threads = options.tp if options.mode == "batch" else options.threads
    return _open(cls, checkpoint, _dataclasses.replace(options, threads=threads), **more)


Session.open = classmethod(_open_narrow)
"""


@dataclass
class Repository:
    """A git repository with an engine in it."""

    folder: Path
    names: dict[str, str] = field(default_factory=dict)  # by subject

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=A Person", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environ |= {"GIT_COMMITTER_DATE": DATE, "GIT_AUTHOR_DATE": DATE}
        command = ["git", "-C", str(self.folder), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environ).stdout.strip()

    def commit(self, subject: str, change: Callable[[Path], None] | None = None) -> str:
        """A commit that makes the change; without one, it adds a line to the engine that changes nothing."""
        if change is None:
            with (self.folder / "engine/__init__.py").open("a") as file:
                file.write(f"# {subject}\n")
        else:
            change(self.folder)
        self.git("add", "-A")
        self.git("commit", "-qm", subject)
        self.names[subject] = self.git("rev-parse", "HEAD")
        return self.names[subject]


def plant(folder: Path, build: Path, host: HostSettings) -> Repository:
    """A repository with one commit, `base`: the engine of an existing build, whose module is in the cache of `host` already."""
    folder.mkdir(parents=True)
    made = open_build(build)
    ignore = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(made.folder / "engine", folder / "engine", ignore=ignore)
    shutil.copytree(ROOT / "native", folder / "native", ignore=shutil.ignore_patterns("build", ".*"))
    kept = native_folder(folder, toolchain(host), host)
    (kept / "engine").mkdir(parents=True, exist_ok=True)
    module = next((made.folder / "engine").glob("_native*.so"))
    shutil.copy(module, kept / "engine" / module.name)
    facts = {name: made.info[name] for name in ("api_version", "compiler", "flags", "module_sha256")}
    (kept / "native.json").write_text(json.dumps(facts))
    repository = Repository(folder)
    repository.git("init", "-q", "-b", "main")
    repository.commit("base", lambda _: None)
    return repository


def loses(factor: float) -> Callable[[Path], None]:
    """A change after which batch mode is `factor` times as slow."""

    def change(folder: Path) -> None:
        with (folder / "engine/session.py").open("a") as file:
            file.write(LOSS.replace("FACTOR", f"{factor:g}"))

    return change


def one_thread_in_batch(folder: Path) -> None:
    """A change after which batch mode gives each rank one thread, whatever the machine has: a loss that is really measured."""
    with (folder / "engine/session.py").open("a") as file:
        file.write(ONE_THREAD)


def does_not_build(folder: Path) -> None:
    """A change after which CMake stops at once."""
    path = folder / "native/CMakeLists.txt"
    path.write_text('message(FATAL_ERROR "planted")\n' + path.read_text())


def builds_again(folder: Path) -> None:
    """Takes `does_not_build` back."""
    path = folder / "native/CMakeLists.txt"
    path.write_text(path.read_text().partition("\n")[2])
