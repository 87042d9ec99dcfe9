"""A record of every attempt, whether the program wrote one or could not."""

import json
from pathlib import Path

import pytest

from flows.attempt import Run, attempt
from flows.build import Build
from flows.deadlines import Expectations
from flows.folders import RunFolder, unfinished_records
from flows.parameters import ValidationParameters
from flows.plan import Measurement, measurement_of
from storage.records import Source, load

SOURCE = Source(commit="unknown", dirty=False, tree="t")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    folder = RunFolder(tmp_path, "r1")
    folder.create()
    return Run(folder, Build(tmp_path / "no build", {}), SOURCE, Expectations(longest_s=60))


def measurement(kind: str) -> Measurement:
    made = measurement_of(ValidationParameters(), 1, 2, "serial", 0)
    return made.model_copy(update={"spec": made.spec.model_copy(update={"kind": kind})})


def test_a_program_that_fails_says_why_in_its_own_record(run: Run) -> None:
    record = attempt(measurement("throughput"), run)
    assert record.status == "failed"
    assert record.failure is not None
    assert "no build" in record.failure.message
    assert load(run.folder.record_files()[0]) == record


def test_a_program_that_cannot_start_gets_a_record_with_the_end_of_its_log(run: Run) -> None:
    record = attempt(measurement("no_such_kind"), run)
    assert record.status == "failed"
    assert record.environment is None
    assert record.failure is not None
    assert "exit code 1" in record.failure.message
    assert "no_such_kind" in record.failure.message
    assert record.failure.log == "logs/report.throughput-x2-serial.pair01.attempt1.log"
    assert (run.folder.root / record.failure.log).is_file()
    assert load(run.folder.record_files()[0]) == record


def test_attempts_are_numbered_by_what_is_there(run: Run) -> None:
    for number in (1, 2):
        assert attempt(measurement("no_such_kind"), run).spec.attempt == number
    request = json.loads((run.folder.requests / "report.throughput-x2-serial.pair01.attempt2.json").read_text())
    assert (request["run_id"], request["spec"]["attempt"]) == ("r1", 2)
    assert run.folder.measured() == set()


def test_records_of_a_run_without_a_summary_are_found_again(run: Run) -> None:
    attempt(measurement("no_such_kind"), run)
    assert unfinished_records(run.folder.results) == [], "no plan: a benchmark alone"
    run.folder.plan.write_text("{}")
    assert unfinished_records(run.folder.results) == run.folder.record_files()
    run.folder.summary_json.write_text("{}")
    assert unfinished_records(run.folder.results) == []
