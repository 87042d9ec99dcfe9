"""What the deployments over commits may be asked for, and what a night queues."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from flows.bisection import LOOKS, MINUTES, parse_target
from flows.commit_forms import ServedBackfill, ServedBisect, ServedComparison
from flows.folders import RunFolder
from flows.night_plan import NightPlanError, read_night
from flows.night_queue import searches
from flows.up_settings import load_up
from flows.verdicts.targets import TargetError
from storage.runs import store_changes


@pytest.mark.parametrize(
    ("form", "given", "words"),
    [
        (ServedBackfill, {"range": "--all"}, "range"),
        (ServedBackfill, {"range": "a b"}, "range"),
        (ServedBackfill, {"range": "HEAD", "every": 0}, "every"),
        (ServedBackfill, {"range": "HEAD", "command": "rm"}, "command"),
        (ServedBackfill, {"measure": {"results": "/tmp"}}, "results: not free in a served run"),
        (ServedBisect, {"good": "-x", "bad": "main"}, "good"),
        (ServedBisect, {"good": "a", "bad": "b", "target": "the best"}, "target 'the best': write x8"),
        (ServedBisect, {"good": "a"}, "bad"),
        (ServedComparison, {"base": "main", "head": "worktree"}, "uncommitted changes are compared from the command line alone"),
        (ServedComparison, {"base": "main", "legs": "left"}, "legs"),
    ],
)
def test_what_a_form_refuses_it_names(form: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        form(**given)


def test_results_go_where_the_service_keeps_them_and_a_search_has_its_own_looks() -> None:
    settings = load_up({"results": "kept"})
    search = ServedBisect(good="v1", bad="main")
    resolved = search.resolved(settings)
    assert (resolved.results, resolved.looks, resolved.budget_minutes) == (str(Path("kept").absolute()), LOOKS, MINUTES)
    given = ServedBisect(good="v1", bad="main", measure={"looks": [2, 4]}).resolved(settings)
    assert (given.looks, given.budget_minutes) == ((2, 4), MINUTES)
    assert ServedBackfill(range="a..b", every=3).resolved(settings).folder == Path("kept").absolute()
    assert ServedComparison(base="main", legs="both").modes == ("serial", "batch")


@pytest.mark.parametrize(
    ("text", "level", "mode"),
    [
        ("x8", 8, "batch"),
        ("4", 4, "batch"),
        ("batch at 2", 2, "batch"),
        ("serial at 16", 16, "serial"),
        ("8 concurrent", 8, "batch"),
    ],
)
def test_targets_by_any_name(text: str, level: int, mode: str) -> None:
    assert parse_target(text) == (level, mode)


@pytest.mark.parametrize("text", ["x0", "batch", "9 concurrent", "8x"])
def test_unknown_targets_come_with_the_known_ones(text: str) -> None:
    with pytest.raises(TargetError, match=r"write x8, 'batch at 8' or 'serial at 8', or one of .*'8 concurrent'"):
        parse_target(text)


def test_a_loss_queues_a_search_with_the_entrys_parameters_and_a_gain_does_not(tmp_path: Path) -> None:
    plan = tmp_path / "nightly.toml"
    plan.write_text('[[measure]]\ncheckpoint = "synthetic:tiny"\ntp = 2\nlooks = [2]\nbisect = true\n')
    (entry,) = read_night(plan)
    assert entry.bisect
    folder = RunFolder(tmp_path / "results", "night")

    def change(level: int, step: float, metric: str = "speedup_vs_serial") -> dict[str, Any]:
        ends = {"good": f"{level}" * 40, "bad": "b" * 40, "good_position": 1, "bad_position": 2}
        return ends | {
            "series": "s",
            "workload": "report",
            "metric": metric,
            "level": level,
            "step": step,
            "low": step,
            "high": step,
            "p": 0,
        }

    changes = [change(4, 0.8), change(8, 1.2), change(1, 1.3, "single_latency_ratio"), change(2, 0.9, "single_latency_ratio")]
    store_changes(folder.store, folder.run_id, changes)
    queued = searches(entry, folder)
    assert sorted(asked["target"] for asked in queued) == ["x1", "x4"]
    assert queued[0]["measure"]["tp"] == 2
    assert not {"looks", "budget_minutes", "results", "levels"} & set(queued[0]["measure"])
    for asked in queued:
        ServedBisect(**asked)


def test_bisect_in_a_plan_is_yes_or_no(tmp_path: Path) -> None:
    plan = tmp_path / "nightly.toml"
    plan.write_text('[[measure]]\nbisect = "always"\n')
    with pytest.raises(NightPlanError, match="bisect 'always': must be true or false"):
        read_night(plan)
