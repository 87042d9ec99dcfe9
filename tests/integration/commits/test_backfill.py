"""Points for commits that have none, by the command line, on real builds of a real history."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from planted import ROOT, Repository, builds_again, does_not_build, loses, plant

from flows.settings import HostSettings
from storage.queries import ratio_history

pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(1500)]

PLAN = [
    "--checkpoint",
    "synthetic:tiny",
    "--tp",
    "1",
    "--levels",
    "2",
    "--new-tokens",
    "8",
    "--runs",
    "1",
    "--warmup",
    "0",
    "--pairs",
    "1",
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, engine_build: Path, host: HostSettings) -> Repository:
    """Nine commits: the fourth does not build, from the sixth on batch mode is slow."""
    made = plant(tmp_path_factory.mktemp("planted") / "the repo", engine_build, host)
    for name in ("two", "three"):
        made.commit(name)
    made.commit("broken", does_not_build)
    made.commit("mended", builds_again)
    made.commit("loss", loses(30))
    for name in ("seven", "eight", "nine"):
        made.commit(name)
    return made


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("the results")


def paceline(results: Path, host: HostSettings, repository: Repository, run: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own, as a person starts it: it sets Prefect up before importing it."""
    command = [sys.executable, "-P", "-m", "flows.cli", "backfill", "main", *PLAN, "--results", results, "--run", run]
    command += ["--repo", repository.folder, "--cache", host.cache]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "PACELINE_"))}
    environ |= {"PYTHONPATH": str(ROOT)}
    return subprocess.run(list(map(str, command)), cwd=results, env=environ, capture_output=True, text=True, check=False)


def test_every_commit_that_builds_gets_its_point_and_the_loss_is_told(
    repository: Repository, results: Path, host: HostSettings
) -> None:
    done = paceline(results, host, repository, "filled")
    assert done.returncode == 0, done.stderr[-4000:]
    content = json.loads((results / "filled/backfill.json").read_text())
    what = {one["subject"]: one["what"] for one in content["filled"]}
    assert what == dict.fromkeys(["base", "two", "three", "loss", "seven", "eight", "nine"], "measured") | {
        "broken": "unmeasurable"
    }
    assert [one["subject"] for one in content["filled"]][:2] == ["nine", "base"], "the ends come first"
    assert content["costs"]["compiled"] == 0
    history = ratio_history(results)
    placed = history[(history["level"] == 2) & (history["placement"] == "placed")]
    assert list(placed["commit"]) == [repository.names[n] for n in ("base", "two", "three", "loss", "seven", "eight", "nine")]
    (change,) = [change for change in content["changes"] if change["level"] == 2]
    assert (change["good"], change["bad"]) == (repository.names["three"], repository.names["loss"])
    assert f"paceline bisect {change['good'][:10]} {change['bad'][:10]} --target x2" in done.stdout
    again = paceline(results, host, repository, "again")
    assert again.returncode == 0, again.stderr[-4000:]
    content = json.loads((results / "again/backfill.json").read_text())
    assert {one["what"] for one in content["filled"]} == {"there already", "unmeasurable"}
    assert content["costs"]["known"] == 1, "what does not build is not tried again"
    assert len(ratio_history(results)) == len(history)
