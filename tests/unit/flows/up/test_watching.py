"""The night on a decided commit: its own plan, taken up where it was cut, and never judged."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from flows import night_watch
from flows.aggregate import judge_again
from flows.folders import RunFolder
from flows.parameters import ValidationParameters
from flows.plan import make_plan
from storage.records import dump


@pytest.fixture(scope="module")
def make() -> ModuleType:
    path = Path(__file__).parents[2] / "storage_records" / "record_factory.py"
    spec = importlib.util.spec_from_file_location("watch_record_factory", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def parameters(tmp_path: Path) -> ValidationParameters:
    return ValidationParameters(levels=(2, 8), pairs=1, results=str(tmp_path))


def test_its_plan_is_another_than_the_validations(parameters: ValidationParameters) -> None:
    plan = night_watch.watch_plan(parameters, "tree")
    assert plan == night_watch.watch_plan(parameters, "tree"), "the order follows from the seed"
    assert plan.identity not in (make_plan(parameters, "tree").identity, night_watch.watch_plan(parameters, "other").identity)
    assert {(pair.level, pair.canary) for pair in plan.pairs()} == {(1, True), (8, True)}
    names = [measurement.name for measurement in plan.measurements()]
    assert len(names) == len(set(names)) == 2 * 2 * night_watch.PAIRS


def test_cut_short_it_is_taken_up_and_measures_what_is_missing(parameters: ValidationParameters, make: ModuleType) -> None:
    plan = night_watch.watch_plan(parameters, "tree")
    folder = night_watch.lay_out(plan)
    whole = night_watch.left_to_do(plan, folder)
    assert [whole[0].label, len(whole)] == ["machine probe", 1 + 4 * night_watch.PAIRS]
    for measurement in whole[:4]:  # the probe, a pair, and one arm of the next
        record = make.make_record(run_id=folder.run_id, measurement=measurement.name, spec=measurement.spec)
        dump(record, folder.records / f"{measurement.file_stem}.attempt1.json")
    assert night_watch.lay_out(plan) == folder
    assert night_watch.left_to_do(plan, folder) == whole[3:]
    night_watch.close(plan, folder, "the run", "quiet")
    assert night_watch.lay_out(plan) != folder, "it has ended: the next night is another"


def test_it_decides_nothing_and_is_judged_on_nothing(parameters: ValidationParameters) -> None:
    plan = night_watch.watch_plan(parameters, "tree")
    folder = night_watch.lay_out(plan)
    night_watch.close(plan, folder, "the run", "quiet")
    results = Path(parameters.results)
    assert night_watch.decided_run(results, plan.identity) is None
    assert judge_again(folder.store, folder.root, folder.run_id, None) == []
    judged = RunFolder(results, "judged")
    judged.create()
    judged.summary_json.write_text(json.dumps({"plan": make_plan(parameters, "tree").identity, "exit_code": 1}))
    assert night_watch.decided_run(results, make_plan(parameters, "tree").identity) == "judged"
