"""The plan file: what it expands to, and what it says of each mistake."""

from pathlib import Path

import pytest

from flows.night_plan import LOOKS, NightPlanError, read_night


def plan(folder: Path, text: str) -> Path:
    path = folder / "nightly.toml"
    path.write_text(text)
    return path


def test_lists_stand_for_each_of_their_values(tmp_path: Path) -> None:
    entries = read_night(
        plan(
            tmp_path, '[[measure]]\nname = "small"\nworkload = ["report", "latency"]\ntp = [2, 4]\nminutes = 30\nlooks = [5, 10]'
        )
    )
    assert [entry.name for entry in entries] == ["small report 2", "small report 4", "small latency 2", "small latency 4"]
    assert {entry.parameters.budget_minutes for entry in entries} == {30}
    assert entries[2].parameters.new_tokens == 128, "the workload's own"
    assert entries[0].parameters.looks == (5, 10)


def test_without_a_file_the_default_validation_at_planned_looks() -> None:
    (entry,) = read_night(None)
    assert entry.parameters.stages == LOOKS


def test_checkpoints_start_where_the_file_lies(tmp_path: Path) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    (tmp_path / "models" / "mine" / "config.json").write_text("{}")
    (entry,) = read_night(plan(tmp_path, '[[measure]]\ncheckpoint = "models/mine"'))
    assert entry.parameters.checkpoint == str(tmp_path / "models" / "mine")
    assert entry.name == "report tp4 mine cpu"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[measure]\n", "not readable as TOML"),
        ("", "no entry [[measure]]"),
        ("budget = 3\n[[measure]]\n", "budget: unknown; a plan has entries [[measure]]"),
        ("[[measure]]\ntp = [2, 65]\n", "measure 1: tp 65: Input should be less than or equal to 64"),
        ("[[measure]]\n[[measure]]\nname = 'b'\nlevel = [2]\n", "measure 2 (b): level: unknown; known are"),
        ("[[measure]]\nbudget_minutes = 3\n", "minutes is the budget here"),
        ("[[measure]]\nresults = '/tmp'\n", "results: unknown"),
        ("[[measure]]\nminutes = 0\n", "measure 1: minutes 0: Input should be greater than 0"),
        ("[[measure]]\nworkload = []\n", "workload: an empty list measures nothing"),
        ("[[measure]]\nworkload = 'reports'\n", "workload 'reports': Input should be 'report', 'latency' or 'throughput'"),
        ("[[measure]]\ncheckpoint = 'nowhere'\n", "no config.json there"),
        ("[[measure]]\n[[measure]]\n", "more than one entry of that name"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = plan(tmp_path, text)
    with pytest.raises(NightPlanError) as caught:
        read_night(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)
