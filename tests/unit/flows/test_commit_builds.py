"""Builds of a real repository's commits as results: made once, shared, failed and remembered, too old; and the trend over it."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flows.build import BuildError, build_asked, source_under_test
from flows.commit_builds import CommitBuilds, Engine, Unmeasurable
from flows.commit_trend import changes_among
from flows.folders import RunFolder
from flows.settings import HostSettings, SettingsError, load_host
from flows.source import SourceError
from storage.commits import fill_commits
from storage.ingest import ingest
from storage.queries import query
from storage.records import dump


def load_helper(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


small = load_helper(Path(__file__).with_name("test_build.py"))
history = load_helper(Path(__file__).with_name("test_commit_range.py"))
make = load_helper(Path(__file__).parents[1] / "storage_records/record_factory.py")


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """empty, first, python, broken (does not compile), mended, old (an API that nobody measures), lost (on no branch)."""
    folder = tmp_path_factory.mktemp("repos") / "the repo"
    folder.mkdir()
    history.git(folder, "init", "-q", "-b", "main")
    for name, path, text in (
        ("empty", "README.md", "words"),
        ("first", "engine/__init__.py", "API_VERSION = 1\n"),
        ("python", "engine/__init__.py", "API_VERSION = 1\nMORE = 1\n"),
        ("broken", "native/module.cc", "no C++"),
        ("mended", "native/module.cc", small.MODULE),
        ("old", "engine/__init__.py", "API_VERSION = 0\n"),
        ("lost", "engine/__init__.py", "API_VERSION = 1\nLOST = 1\n"),
    ):
        if name == "first":
            small.make_repo(folder)
        (folder / path).write_text(text)
        history.git(folder, "add", ".")
        history.git(folder, "commit", "-qm", name)
        history.git(folder, "tag", name)
    history.git(folder, "reset", "-q", "--hard", "old")
    (folder / "lost").write_text(history.git(folder, "rev-parse", "lost"))
    history.git(folder, "tag", "-d", "lost")
    return folder


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, repo: Path) -> HostSettings:
    return HostSettings(cache=tmp_path_factory.mktemp("the cache"), repo=repo, build=None)


def builds(repo: Path, host: HostSettings, results: Path, run: str, **more: Any) -> CommitBuilds:
    folder = RunFolder(results, run)
    folder.create()
    return CommitBuilds(repo, host, folder, **more)


def named(repo: Path, name: str) -> str:
    return str(history.git(repo, "rev-parse", name))


def test_each_build_is_a_result_and_a_failure_is_not_tried_again(repo: Path, host: HostSettings, tmp_path: Path) -> None:
    made = builds(repo, host, tmp_path, "first")
    found = {name: made.of(named(repo, name)) for name in ("empty", "first", "python", "broken", "mended", "old")}
    assert isinstance(found["first"], Engine)
    assert isinstance(found["mended"], Engine)
    assert isinstance(found["python"], Engine)
    assert found["mended"].build.folder == found["python"].build.folder, "the same engine under another name"
    assert found["mended"].source.commit == named(repo, "mended")
    why = {name: one.why for name, one in found.items() if isinstance(one, Unmeasurable)}
    assert set(why) == {"empty", "broken", "old"}
    assert "has no engine/ and native/ to build" in why["empty"]
    assert "does not build" in why["broken"]
    assert why["old"] == "its engine speaks API version 0; this harness measures 1"
    assert (made.costs.compiled, made.costs.reused, made.costs.failed) == (1, 3, 1)
    rows = query(tmp_path, 'SELECT "commit", status, failure FROM builds ORDER BY status DESC, "commit"')
    assert sorted(rows["status"]) == ["failed", "ok", "ok", "ok", "ok"]
    assert list(rows[rows["status"] == "failed"]["commit"]) == [named(repo, "broken")]
    again = builds(repo, host, tmp_path, "second")
    told = again.of(named(repo, "broken"))
    assert isinstance(told, Unmeasurable)
    assert told.why.startswith("is known not to build, so it is not tried again: building the engine")
    assert (again.costs.known, again.costs.failed) == (1, 0)
    tried = builds(repo, host, tmp_path, "third", retry=True)
    tried.of(named(repo, "broken"))
    assert (tried.costs.known, tried.costs.failed) == (0, 1)
    flagged = builds(repo, host.model_copy(update={"flags": "-DOTHER"}), tmp_path, "fourth")
    flagged.of(named(repo, "broken"))
    assert (flagged.costs.known, flagged.costs.failed) == (0, 1), "other flags are another build"


def test_what_nothing_reaches_is_not_built(repo: Path, host: HostSettings, tmp_path: Path) -> None:
    lost = (repo / "lost").read_text()
    with pytest.raises(SourceError, match="no branch, tag or head"):
        builds(repo, host, tmp_path, "lost").of(lost)


def test_a_missing_compiler_is_no_commits_failure(repo: Path, host: HostSettings, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="not found"):
        builds(repo, host.model_copy(update={"compiler": "no-such-c++"}), tmp_path, "none")
    assert not (tmp_path / "paceline.duckdb").exists()


def test_a_commit_is_measured_in_place_of_the_tree(repo: Path, host: HostSettings, tmp_path: Path) -> None:
    chosen = host.model_copy(update={"commit": "python"})
    build, source = build_asked(chosen, tmp_path / "log")
    assert source == source_under_test(chosen)
    assert source.commit == named(repo, "python")
    assert "MORE = 1" in (build.folder / "engine/__init__.py").read_text()
    with pytest.raises(SettingsError, match="commit python: a build is named too"):
        load_host({"commit": "python", "build": str(build.folder)})


def test_a_step_among_commits_measured_in_any_order_is_found(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    history.git(repo, "init", "-q", "-b", "main")
    commits = [history.commit(repo, f"c{i}", f"engine {i}") for i in range(10)]
    results, files = tmp_path / "results", []
    for i in (9, 0, 5, 2, 7, 1, 3, 4, 6, 8):
        source = make.make_source(commit=commits[i])
        ratio = (3.0 if i < 6 else 2.4) * (1 + 0.002 * (i % 3))
        for number, record in enumerate(make.make_pair(4, ratio, run_id=f"run{i}", source=source)):
            path = results / f"run{i}/records/{number}.attempt1.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            dump(record, path)
            files.append(path)
    ingest(results, files)
    fill_commits(results, repo)
    (change,) = changes_among(results, commits)
    assert (change.good, change.bad, change.level, change.loss) == (commits[5], commits[6], 4, True)
    assert change.step == pytest.approx(0.8, rel=0.01)
    assert "speedup_vs_serial@4 -20" in change.describe()
    assert changes_among(results, commits[6:]) == []
    assert changes_among(tmp_path / "nothing", commits) == []
