"""A commit's own fast tests, run in a copy of its tree on its own build, and the result kept beside its point (tests.json).

A test that failed on the nearest tested ancestor too is marked as known: it says nothing about this commit.
"""

import json
import shutil
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from flows.build import Build
from flows.commit_range import ancestors_of
from flows.folders import RunFolder
from flows.locks import exclusive, measuring_lock
from flows.measurements.child import run_supervised
from flows.progress import duration, report
from flows.revisions import tree_of
from flows.settings import child_environment
from flows.source import find_repo
from storage.records import Source

FILE = "tests.json"
_NO_TESTS = 5  # pytest's exit code where it collected nothing

# An editable install of the harness answers for `engine` and `flows`; the commit's tests must get the commit's own.
_SITE = """
import sys
from importlib.machinery import PathFinder
for finder in list(sys.meta_path):
    if finder is not PathFinder and finder.find_spec("engine", None) is not None:
        sys.meta_path.remove(finder)
"""

State = Literal["passed", "failed", "broken", "none"]


@dataclass(frozen=True)
class OwnTests:
    """What a commit's own tests said. new and known are names of tests that failed; against is the ancestor that knew them."""

    commit: str
    selection: str
    state: State
    passed: int
    new: tuple[str, ...]
    known: tuple[str, ...]
    against: str | None
    seconds: float
    why: str = ""

    def describe(self) -> str:
        """For the run's notes."""
        if self.state in ("broken", "none"):
            return f"Its own tests ({self.selection}): {self.why}."
        said = [f"{self.passed} passed"]
        said += (
            [f"{len(self.new)} failed: {', '.join(self.new[:3])}{' and more' if len(self.new) > 3 else ''}"] if self.new else []
        )
        said += [f"{len(self.known)} failed that failed on {str(self.against)[:10]} too"] if self.known else []
        return f"Its own tests ({self.selection}): {'; '.join(said)}. {duration(self.seconds)}."


def run_own_tests(build: Build, source: Source, folder: RunFolder, repo: Path | None, selection: str, minutes: float) -> OwnTests:
    """Run them and keep the result. Whatever they do is a result; raises SourceError alone."""
    repo = find_repo(repo)
    report().note(f"its own tests: {selection}")
    with tree_of(repo, source.commit) as tree, TemporaryDirectory(prefix="paceline-tests-") as outside:
        for module in (build.folder / "engine").glob("_native*.so"):
            shutil.copy(module, tree / "engine" / module.name)
        with exclusive(measuring_lock(), lambda: report().note("waiting: a measurement is running on this machine")):
            blank = OwnTests(source.commit, selection, "broken", 0, (), (), None, 0.0)
            found = _run(blank, (tree, Path(outside)), build, folder.logs / "own-tests.log", 60 * minutes)
    known, against = _known_failures(repo, folder, source.commit)
    new, old = (tuple(name for name in found.new if (name in known) is before) for before in (False, True))
    told = replace(found, new=new, known=old, against=against)
    text = json.dumps(asdict(told), indent=1) + "\n"
    (folder.root / FILE).write_text(text, encoding="utf-8")
    report().note(told.describe())
    return told


def _run(blank: OwnTests, folders: tuple[Path, Path], build: Build, log: Path, deadline_s: float) -> OwnTests:
    """Run pytest in the commit's tree; what it needs beside that lies outside of it."""
    tree, outside = folders
    (outside / "sitecustomize.py").write_text(_SITE, encoding="utf-8")
    results = outside / "junit.xml"
    environ = {"PYTHONPATH": f"{outside}:{tree}", "PACELINE_BUILD": str(build.folder), "HOME": str(outside)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={results}", *blank.selection.split()]
    outcome = run_supervised(command, log, deadline_s, env=child_environment(environ), cwd=tree)
    blank = replace(blank, seconds=outcome.wall_s)
    if outcome.returncode == _NO_TESTS:
        return replace(blank, state="none", why="it has none there")
    passed, failed = _read(results) if results.is_file() else (0, [])
    if not passed and not failed and outcome.returncode not in (0, 1):
        tail = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        return replace(blank, why=f"did not run: {outcome.describe()}: {tail}")
    return replace(blank, state="failed" if failed else "passed", passed=passed, new=tuple(failed))


def _read(results: Path) -> tuple[int, list[str]]:
    """How many passed, and the names of those that failed."""
    from xml.etree import ElementTree

    passed, failed = 0, []
    for case in ElementTree.parse(results).iter("testcase"):  # noqa: S314  # our own child's file
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.find("skipped") is None:
            passed += 1
    return passed, sorted(failed)


def _known_failures(repo: Path, folder: RunFolder, commit: str) -> tuple[set[str], str | None]:
    """What failed on the nearest ancestor that was tested, and which that is."""
    tested: dict[str, set[str]] = {}
    for path in sorted(folder.results.glob(f"*/{FILE}")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["state"] in ("passed", "failed") and content["commit"] != commit:
            tested[content["commit"]] = {*content["new"], *content["known"]}
    nearest = next((name for name in ancestors_of(repo, commit) if name in tested), None) if tested else None
    return (tested[nearest], nearest) if nearest else (set(), None)
