"""A commit's own tests: its own engine and no other, failures known from its ancestor told apart, kept beside the point."""

import json
from pathlib import Path

import pytest
from planted import Repository, plant

from flows.build import build_commit
from flows.folders import RunFolder
from flows.own_tests import OwnTests, run_own_tests
from flows.settings import HostSettings

TESTS = """
from pathlib import Path
import engine
from engine import binding


def test_it_is_the_commits_own_engine_with_its_module():
    assert Path(engine.__file__).is_relative_to(Path(__file__).parents[1])
    assert binding.native().API_VERSION == engine.API_VERSION


def test_that_failed_before():
    assert False


def test_that_this_commit_breaks():
    assert not Path(__file__).with_name("broken").exists()
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, engine_build: Path, host: HostSettings) -> Repository:
    made = plant(tmp_path_factory.mktemp("planted") / "the repo", engine_build, host)

    def add_tests(folder: Path) -> None:
        (folder / "tests").mkdir()
        (folder / "tests/test_fast.py").write_text(TESTS)

    made.commit("tested", add_tests)
    made.commit("breaks", lambda folder: (folder / "tests/broken").write_text("") and None)
    return made


@pytest.fixture(scope="module")
def told(repository: Repository, host: HostSettings, tmp_path_factory: pytest.TempPathFactory) -> dict[str, OwnTests]:
    results = tmp_path_factory.mktemp("results")
    found = {}
    for name in ("base", "tested", "breaks"):
        folder = RunFolder(results, name)
        folder.create()
        build, source = build_commit(repository.folder, repository.names[name], host, folder.logs / "build.log")
        found[name] = run_own_tests(build, source, folder, repository.folder, "tests/test_fast.py", 5)
        assert json.loads((folder.root / "tests.json").read_text())["commit"] == repository.names[name]
    return found


@pytest.mark.slow
def test_failures_that_the_ancestor_has_too_are_known(told: dict[str, OwnTests], repository: Repository) -> None:
    first, second = told["tested"], told["breaks"]
    assert (first.state, first.passed, first.new, first.known) == ("failed", 2, ("tests.test_fast::test_that_failed_before",), ())
    assert (second.passed, second.against) == (1, repository.names["tested"])
    assert second.new == ("tests.test_fast::test_that_this_commit_breaks",)
    assert second.known == ("tests.test_fast::test_that_failed_before",)
    assert "1 failed that failed on" in second.describe()


@pytest.mark.slow
def test_a_commit_without_them_says_so(told: dict[str, OwnTests]) -> None:
    assert told["base"].state == "broken"
    assert "file or directory not found" in told["base"].describe()
