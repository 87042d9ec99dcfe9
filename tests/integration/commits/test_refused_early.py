"""What cannot be searched, filled or compared is refused by the command line before anything is built or left behind."""

import os
import subprocess
from pathlib import Path

import pytest
from planted import Repository
from typer.testing import CliRunner, Result

from flows.cli import app

RIGHT = "write A..B for the commits that B has and A has not, or B for all of B's history"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Two commits whose engine no compiler takes: whoever builds one before it refuses says another thing."""
    folder = tmp_path / "the repo"
    for name, text in (("engine/__init__.py", '"""Of nobody."""\n'), ("native/CMakeLists.txt", "builds nowhere\n")):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    made = Repository(folder)
    made.git("init", "-q", "-b", "main")
    made.commit("one", lambda _: None)
    made.commit("two")
    return made


def paceline(repository: Repository | Path, results: Path, *arguments: str) -> Result:
    repo = repository if isinstance(repository, Path) else repository.folder
    where = ["--repo", str(repo), "--results", str(results), "--cache", f"{results}.cache"]
    return CliRunner().invoke(app, [*arguments, *where])


def refused(found: Result, words: str, results: Path) -> None:
    assert found.exit_code == 2, found.output
    assert words in found.stderr
    assert "Traceback" not in found.output
    assert not results.exists(), "nothing was begun"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", f"range '': names no commit; {RIGHT}"),
        ("..", f"range '..': names no older end; {RIGHT}"),
        ("..main", f"range '..main': names no older end; {RIGHT}"),
        ("main..", f"range 'main..': names no newer end; {RIGHT}"),
        ("main~1...main", f"range 'main~1...main': {RIGHT}"),
        ("main~1..main..main", f"range 'main~1..main..main': {RIGHT}"),
        ("two words", f"range 'two words': holds what no name of a commit holds; {RIGHT}"),
        ("main..main", "range 'main..main': holds no commit; the older end stands first"),
        ("nowhere", "'nowhere': no commit, branch or tag of"),
        ("main..nowhere", "'nowhere': no commit, branch or tag of"),
    ],
)
def test_a_range_to_fill(repository: Repository, tmp_path: Path, text: str, words: str) -> None:
    refused(paceline(repository, tmp_path / "results", "backfill", text), words, tmp_path / "results")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "main"], "'nowhere': no commit, branch or tag of"),
        (["main", "main~1"], "name the older one first"),
        (["main~1", "main", "--target", "the best"], "target 'the best': write x8"),
    ],
)
def test_ends_of_a_search(repository: Repository, tmp_path: Path, arguments: list[str], words: str) -> None:
    refused(paceline(repository, tmp_path / "results", "bisect", *arguments), words, tmp_path / "results")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["main", "nowhere"], "'nowhere': no commit, branch or tag of"),
        (["nowhere", "main"], "'nowhere': no commit, branch or tag of"),
        (["main~1", "--head", "nowhere"], "'nowhere': no commit, branch or tag of"),
        (["main~1", ""], "'': no commit, branch or tag of"),
        (["main~1", "--head", ""], "'': no commit, branch or tag of"),
        (["main~1", "main", "--base-build", "nowhere"], "nowhere/build.json: not a readable build description"),
        (["main~1", "main", "--head", "HEAD"], "HEAD is main as the second argument and HEAD by --head: name it once"),
    ],
)
def test_sides_of_a_comparison(repository: Repository, tmp_path: Path, arguments: list[str], words: str) -> None:
    refused(paceline(repository, tmp_path / "results", "compare", *arguments), words, tmp_path / "results")


@pytest.mark.parametrize("command", [["backfill", "main"], ["bisect", "main~1", "main"], ["compare", "main~1", "main"]])
class TestWhereverItRuns:
    def test_a_commit_that_nothing_reaches(self, repository: Repository, tmp_path: Path, command: list[str]) -> None:
        lost = repository.commit("three")
        repository.git("reset", "-q", "--hard", "HEAD~1")
        named = [lost if name == "main" else name for name in command]
        words = f"commit {lost[:10]}: no branch, tag or head of {repository.folder} reaches it"
        refused(paceline(repository, tmp_path / "results", *named), words, tmp_path / "results")

    def test_a_shallow_clone_says_what_it_lacks(self, repository: Repository, tmp_path: Path, command: list[str]) -> None:
        shallow = tmp_path / "shallow"
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        clone = ["git", "-c", "protocol.file.allow=always", "clone", "-q", "--depth", "1", f"file://{repository.folder}"]
        subprocess.run([*clone, str(shallow)], check=True, env=environ)
        named = ["backfill", "main~1..main"] if command[0] == "backfill" else command
        words = f"'main~1': no commit, branch or tag of {shallow}; `git fetch` it, or name an existing one; this clone is shallow"
        refused(paceline(shallow, tmp_path / "results", *named), words, tmp_path / "results")

    def test_a_repository_that_is_a_file(self, tmp_path: Path, command: list[str]) -> None:
        file = tmp_path / "a file"
        file.write_text("")
        words = f"{file}: no engine sources here (native/CMakeLists.txt is missing)"
        refused(paceline(file, tmp_path / "results", *command), words, tmp_path / "results")

    def test_results_that_are_a_file(self, repository: Repository, tmp_path: Path, command: list[str]) -> None:
        file = tmp_path / "results"
        file.write_text("mine")
        found = paceline(repository, file, *command, "--checkpoint", "synthetic:tiny")
        assert found.exit_code == 2, found.output
        assert f"--results {file}: cannot be written: Not a directory; name another folder" in found.stderr
        assert file.read_text() == "mine"
