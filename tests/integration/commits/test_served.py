"""Backfill, bisect and compare as `paceline up` serves them: started by the API, on real builds of a real history."""

from collections.abc import Iterator
from typing import Any

import pytest
from planted import Repository, does_not_build, loses, plant
from up_support import Up, start, stop

from flows.settings import HostSettings
from storage.queries import ratio_history

# Slow: a busy machine can leave a step of the search undecided.
pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(900)]

MEASURE = {"checkpoint": "synthetic:tiny@0", "tp": 1, "levels": [2], "runs": 2, "warmup": 0, "new_tokens": 16, "kinds": []}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, engine_build: Any, host: HostSettings) -> Repository:
    """base, one, loss, broken (which the backfill finds out); and a commit that no branch reaches any more."""
    made = plant(tmp_path_factory.mktemp("planted") / "the repo", engine_build, host)
    made.commit("one")
    made.commit("loss", loses(1000))
    made.commit("forgotten")
    made.git("reset", "-q", "--hard", "HEAD~1")
    made.commit("broken", does_not_build)
    return made


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, repository: Repository, host: HostSettings) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("served") / "a service"
    started = start(folder, None, "--repo", str(repository.folder), "--cache", str(host.cache))
    yield started
    stop(started)


def ended(up: Up, deployment: str, **parameters: object) -> Any:
    return up.ended(up.start_run(deployment, parameters), 400).state


def test_a_backfill_gives_every_commit_its_point(up: Up, repository: Repository) -> None:
    state = ended(up, "backfill/backfill", range="main", measure={**MEASURE, "pairs": 1})
    assert state.type.value == "COMPLETED", state
    measured = set(ratio_history(up.results)["commit"])
    assert measured == {repository.names[name] for name in ("base", "one", "loss")}


def test_a_search_names_the_commit(up: Up, repository: Repository) -> None:
    names = repository.names
    state = ended(
        up, "bisect/bisect", good=names["base"], bad=names["loss"], target="x2", measure={**MEASURE, "looks": [3, 6, 12]}
    )
    assert (state.type.value, state.name) == ("COMPLETED", "Completed"), state
    assert f"{names['loss'][:10]} (loss) is the first commit with the loss" in state.message


def test_a_comparison_fails_on_the_slower_head(up: Up, repository: Repository) -> None:
    sides = {"base": repository.names["base"], "head": repository.names["loss"]}
    state = ended(up, "compare/compare", **sides, measure={**MEASURE, "looks": [3, 6]})
    assert (state.type.value, state.message.partition(":")[0]) == ("FAILED", "FAIL"), state


@pytest.mark.parametrize(("head", "words"), [("broken", "is known not to build"), ("forgotten", "git branch")])
def test_a_commit_that_cannot_be_measured_is_named(up: Up, repository: Repository, head: str, words: str) -> None:
    state = ended(up, "compare/compare", base=repository.names["base"], head=repository.names[head], measure=MEASURE)
    assert state.type.value in ("FAILED", "CRASHED"), state
    assert words in state.message
    assert repository.names[head][:10] in state.message
