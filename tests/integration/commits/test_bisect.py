"""The commit that a loss came with, found on real builds of a real history by the command line."""

import json
from pathlib import Path

import pytest
from planted import Repository, builds_again, does_not_build, loses, plant
from typer.testing import CliRunner, Result

from flows.cli import app
from flows.settings import HostSettings

SMALL = ["--checkpoint", "synthetic:tiny", "--tp", "1", "--new-tokens", "16", "--runs", "2", "--warmup", "0", "--looks", "3,6"]


def paceline(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, engine_build: Path, host: HostSettings) -> Repository:
    """base, one, broken, mended, loss: a commit that does not build stands in the middle."""
    made = plant(tmp_path_factory.mktemp("planted") / "the repo", engine_build, host)
    made.commit("one")
    made.commit("broken", does_not_build)
    made.commit("mended", builds_again)
    made.commit("loss", loses(1000))
    return made


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("the results")


@pytest.fixture(scope="module")
def found(repository: Repository, host: HostSettings, results: Path) -> Result:
    where = ["--repo", repository.folder, "--cache", host.cache, "--results", results, "--run", "search"]
    return paceline("bisect", repository.names["base"], "main", "--target", "x2", *SMALL, *where)


@pytest.mark.slow  # a hiccup of a busy machine can leave a step undecided
def test_the_commit_is_found_with_certainty_and_cost(found: Result, repository: Repository, results: Path) -> None:
    content = json.loads((results / "search/bisect.json").read_text())
    assert found.exit_code == 0, found.output
    assert content["first_bad"] == repository.names["loss"]
    assert f"{repository.names['loss'][:10]} (loss) is the first commit with the loss of batch at 2" in found.output
    found_as = {step["commit"]: step["found"] for step in content["steps"]}
    assert found_as[repository.names["loss"]] == "bad"
    assert found_as.get(repository.names["broken"], "skip") == "skip"
    assert content["costs"]["compiled"] == 0, "every engine shares the module of native/"
    assert content["costs"]["measurements"] == sum(step["measurements"] for step in content["steps"]) > 0
    assert 0.96 < content["certainty"] < 1


@pytest.mark.slow
def test_a_search_of_the_same_name_goes_on_where_it_was(
    found: Result, repository: Repository, host: HostSettings, results: Path
) -> None:
    before = json.loads((results / "search/bisect.json").read_text())
    where = ["--repo", repository.folder, "--cache", host.cache, "--results", results, "--run", "search"]
    again = paceline("bisect", repository.names["base"], "main", "--target", "x2", *SMALL, *where)
    assert again.exit_code == 0, again.output
    after = json.loads((results / "search/bisect.json").read_text())
    assert [step for step in after["steps"] if step["run"]] == [step for step in before["steps"] if step["run"]]
    other = paceline("bisect", repository.names["base"], "main", "--target", "x4", *SMALL, *where)
    assert other.exit_code == 2
    assert "leave out --run for a new one" in other.stderr


@pytest.mark.parametrize(
    ("ends", "target", "words"),
    [
        (("main", "base"), "x2", "no commit between them: base is main or older; name the older one first"),
        (("nowhere", "main"), "x2", "'nowhere': no commit, branch or tag"),
        (("base", "main"), "the best", "target 'the best': write x8"),
        (("broken", "main"), "x2", "does not build"),
    ],
)
def test_ends_that_cannot_be_searched_are_named(
    repository: Repository, host: HostSettings, tmp_path: Path, ends: tuple[str, str], target: str, words: str
) -> None:
    good, bad = (repository.names.get(name, name) for name in ends)
    where = ["--repo", repository.folder, "--cache", host.cache, "--results", tmp_path]
    done = paceline("bisect", good, bad, "--target", target, *SMALL, *where)
    assert done.exit_code == 2
    assert words.replace("base is main", f"{bad} is main") in done.stderr
    assert not list(tmp_path.rglob("*.attempt1.json")), "nothing was measured"
