"""Two builds head to head on the real engine: a loss, one binary; then their records shown, replayed, set side by side."""

import json
import shutil
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app
from storage.queries import query

SMALL = ["--checkpoint", "synthetic:tiny", "--tp", "1", "--levels", "2", "--new-tokens", "16", "--runs", "2"]
PORTABLE = """

import dataclasses as _dataclasses

_open = Session.open.__func__


def _open_portable(cls, checkpoint, options):
    return _open(cls, checkpoint, _dataclasses.replace(options, isa="portable"))


Session.open = classmethod(_open_portable)
"""


def paceline(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def slow(engine_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same native module under a Python side that takes the portable kernels whatever the machine has."""
    folder = tmp_path_factory.mktemp("builds") / "a slow build"
    shutil.copytree(engine_build, folder)
    with (folder / "engine/session.py").open("a") as file:
        file.write(PORTABLE)
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("the results")


@pytest.fixture(scope="module")
def lost(engine_build: Path, slow: Path, results: Path) -> Result:
    builds = ["--base-build", engine_build, "--head-build", slow]
    return paceline(
        "compare", *builds, *SMALL, "--looks", "2,3", "--results", results, "--run", "lost", "--markdown", results / "c.md"
    )


def test_both_builds_are_measured_and_judged_and_a_comment_is_written(lost: Result, results: Path) -> None:
    content = json.loads((results / "lost/comparison.json").read_text())
    assert lost.exit_code == content["exit_code"], lost.output
    assert lost.exit_code in (0, 1, 3), "tiny models on a busy machine: which it is the noise decides"
    assert not content["same_binary"]
    for verdict in content["verdicts"]:
        assert verdict["status"] in ("PASS", "FAIL", "INCONCLUSIVE"), verdict["reason"]
        assert verdict["low"] < verdict["ratio"] < verdict["high"]
        assert verdict["pairs"] in (2, 3)
    records = [json.loads(path.read_text()) for path in (results / "lost/records").iterdir()]
    assert {record["status"] for record in records} == {"ok"}
    assert len({record["engine"]["isa"] for record in records if record["spec"]["extra"]["arm"] == "base"}) == 1
    assert {record["engine"]["isa"] for record in records if record["spec"]["extra"]["arm"] == "head"} == {"portable"}
    comment = (results / "c.md").read_text()
    assert comment.startswith("### ")
    assert ": a slow build (" in comment
    assert "| batch at 2 | throughput |" in comment
    assert f"Exit code {lost.exit_code}." in comment


def test_a_comparison_is_in_the_store_and_in_no_ratio(lost: Result, results: Path) -> None:
    records = query(results, "SELECT kind, options ->> 'arm' AS arm, count(*) AS n FROM records GROUP BY ALL ORDER BY arm")
    assert list(records["arm"]) == ["base", "head"]
    assert set(records["kind"]) == {"comparison"}
    assert len(query(results, "SELECT * FROM target_ratios")) == 0
    assert list(query(results, "SELECT exit_code FROM runs WHERE run_id = 'lost'")["exit_code"]) == [lost.exit_code]


def test_one_binary_cannot_fail(engine_build: Path, results: Path) -> None:
    builds = ["--base-build", engine_build, "--head-build", engine_build]
    found = paceline("compare", *builds, *SMALL, "--looks", "2,9", "--results", results, "--run", "same")
    assert found.exit_code == 0, found.output
    assert "SAME: both builds are one binary" in found.output
    assert len(list((results / "same/records").iterdir())) == 8, "the first look and no more"


def test_a_record_is_shown_replayed_and_runs_are_set_side_by_side(lost: Result, results: Path, engine_build: Path) -> None:
    path = next((results / "lost/records").glob("*x2-batch-base*"))
    record = json.loads(path.read_text())
    shown = paceline("show", record["record_id"][:10], "--results", results)
    assert shown.exit_code == 0
    assert record["measurement"] in shown.output
    assert f"paceline replay {record['record_id'][:12]}" in shown.output
    again = paceline("replay", record["record_id"][:12], "--results", results, "--build", engine_build)
    assert again.exit_code == 0, again.output
    assert again.output.count("throughput  ") == 2
    side = paceline("diff", "lost", "lost", "--results", results)
    assert side.exit_code == 0
    assert "nothing" in side.output
    missing = paceline("diff", "lost", "gone", "--results", results)
    assert missing.exit_code == 2
    assert "run 'gone': has no record" in missing.output


def test_profile_uses_what_is_there_and_says_what_is_not(
    lost: Result, results: Path, engine_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = next((results / "lost/records").glob("*x2-batch-base*"))
    monkeypatch.setenv("PATH", str(tmp_path))
    none = paceline("profile", record, "--results", results, "--build", engine_build)
    assert none.exit_code == 2
    assert "no profiler here: perf, py-spy not found in PATH" in none.output
    perf = tmp_path / "perf"  # stands in for the distribution's: writes its file and runs the program that follows `--`
    perf.write_text('#!/bin/bash\nwhile [ "$1" != -o ]; do shift; done\necho data > "$2"\nshift 3\nexec "$@"\n')
    perf.chmod(perf.stat().st_mode | stat.S_IXUSR)
    made = paceline("profile", record, "--results", results, "--build", engine_build)
    assert made.exit_code == 0, made.output
    assert "look at it: perf report -i" in made.output
    profiled = next((results / "replays").rglob("*.profiled.json"))
    assert json.loads(profiled.read_text())["status"] == "ok"
