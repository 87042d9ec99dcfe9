"""The whole flow on a real engine, a real Prefect API and a real store."""

import json
import os
import signal
import subprocess
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from flow_support import TINY, eventually, processes, tiny

from flows.folders import RunFolder
from flows.parameters import ValidationParameters
from flows.plan import make_plan
from flows.settings import HostSettings, use_host
from storage.queries import level_table, query, target_ratios
from storage.records import load

pytestmark = pytest.mark.prefect


def run_flow(parameters: ValidationParameters, build: Path) -> Any:
    from flows.validation import validate

    with use_host(HostSettings(build=build)):
        return validate(parameters, return_state=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("the results")


@pytest.fixture(scope="module")
def finished(prefect_api: None, engine_build: Path, results: Path) -> tuple[Any, RunFolder]:
    """One pair at levels 1 and 2."""
    return run_flow(tiny(results, run="first"), engine_build), RunFolder(results, "first")


def test_every_planned_measurement_has_a_good_record(finished: tuple[Any, RunFolder]) -> None:
    _, folder = finished
    every = [load(path) for path in folder.record_files()]
    assert {record.status for record in every} <= {"ok", "invalid"}, "a restless machine has a pair measured once more"
    last = {record.measurement: record for record in sorted(every, key=lambda r: r.spec.attempt)}
    records = list(last.values())
    assert sorted(record.measurement for record in records) == [
        "report/latency-x1-batch/pair01",
        "report/latency-x1-serial/pair01",
        "report/throughput-x2-batch/pair01",
        "report/throughput-x2-serial/pair01",
    ]
    assert {record.status for record in records} == {"ok"}
    assert {len(record.kept_rounds()) for record in records} == {TINY["runs"]}
    planned = json.loads(folder.plan.read_text())
    order = [{m["name"] for m in pair["measurements"]} for block in planned["blocks"] for pair in block["pairs"]]
    first = [r.measurement for r in sorted((r for r in every if r.spec.attempt == 1), key=lambda r: r.started_at)]
    assert [set(first[i : i + 2]) for i in range(0, len(first), 2)] == order, "the plan's order, one pair at a time"
    assert all(record.values["turns_waited_s"] > 0 for record in records), "the legs of a pair took turns"


def test_store_has_ratios_levels_verdicts_and_the_run(finished: tuple[Any, RunFolder]) -> None:
    _, folder = finished
    ratios = target_ratios(folder.snapshot, "first")
    assert list(ratios["metric"]) == ["single_latency_ratio", "speedup_vs_serial"]
    assert list(ratios["valid"]) == [True, True], list(ratios["reason"])
    levels = level_table(folder.snapshot, "first")
    assert list(zip(levels["level"], levels["mode"], strict=True)) == [(1, "serial"), (1, "batch"), (2, "serial"), (2, "batch")]
    stored = query(folder.snapshot, "SELECT name, status FROM verdicts WHERE run_id = 'first' ORDER BY level")
    assert list(stored["status"]) == ["INCONCLUSIVE", "INCONCLUSIVE"]
    run = query(folder.snapshot, "SELECT exit_code, finished_at FROM runs WHERE run_id = 'first'")
    assert list(run["exit_code"]) == [3]


def test_one_pair_is_a_point_without_an_interval(finished: tuple[Any, RunFolder]) -> None:
    state, folder = finished
    assert (state.type.value, state.name) == ("COMPLETED", "Inconclusive")
    summary = json.loads(folder.summary_json.read_text(), parse_constant=pytest.fail)
    assert summary["exit_code"] == 3
    assert [target["point"] for target in summary["targets"]] == [True, True]
    assert all(target["ratio"] > 0 and target["low"] is None for target in summary["targets"])
    assert set(summary["lone_request_s"]) == {"serial", "batch"}
    text = folder.summary_markdown.read_text()
    assert "point without an interval" in text
    assert "| 2 | batch |" in text


def test_page_and_charts_are_written(finished: tuple[Any, RunFolder]) -> None:
    _, folder = finished
    assert "speedup_vs_serial" in (folder.root / "index.html").read_text()
    assert list((folder.root / "charts").glob("*.png"))


def test_a_run_that_is_done_is_not_measured_again(finished: tuple[Any, RunFolder], results: Path, engine_build: Path) -> None:
    _, folder = finished
    before = {path: path.stat().st_mtime_ns for path in folder.record_files()}
    state = run_flow(tiny(results, run="first"), engine_build)
    assert state.name == "Inconclusive"
    assert {path: path.stat().st_mtime_ns for path in folder.record_files()} == before


def test_a_pair_that_lost_a_leg_is_measured_again(finished: tuple[Any, RunFolder], results: Path, engine_build: Path) -> None:
    _, folder = finished
    gone = folder.records / "report.throughput-x2-batch.pair01.attempt1.json"
    gone.unlink()
    run_flow(tiny(results, run="first"), engine_build)
    counts = Counter(load(path).measurement for path in folder.record_files())
    assert counts["report/throughput-x2-serial/pair01"] == 2
    assert (folder.records / "report.throughput-x2-batch.pair01.attempt2.json").exists()
    assert counts["report/latency-x1-serial/pair01"] == 1


def test_another_plan_cannot_take_over_a_run(finished: tuple[Any, RunFolder], results: Path, engine_build: Path) -> None:
    state = run_flow(tiny(results, run="first", runs=3), engine_build)
    assert state.type.value == "FAILED"
    assert "its plan differs: runs 2 there, 3 here" in state.message


def kill_when_it_measures(needle: str, number: signal.Signals) -> threading.Thread:
    """Signal the first process that measures this, once it has loaded the engine."""

    def measuring() -> list[int]:
        return [pid for pid in processes(needle) if b"flows.measurements." in cmdline(pid)]

    def watch() -> None:
        eventually(measuring)
        for pid in measuring():
            os.kill(pid, number)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def cmdline(pid: int) -> bytes:
    """The command itself: the supervisor has it among its own arguments, behind `--`."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
    return b"" if b"supervisor" in text else text


def test_a_measurement_killed_is_kept_retried_and_stops_nothing(prefect_api: None, engine_build: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "killed")
    killer = kill_when_it_measures(f"{folder.requests}/report.latency-x1-serial", signal.SIGKILL)
    state = run_flow(tiny(tmp_path, run="killed", levels=(1,), pairs=2), engine_build)
    killer.join()
    first = load(folder.records / "report.latency-x1-serial.pair01.attempt1.json")
    assert (first.status, first.spec.attempt) == ("killed", 1)
    assert first.failure is not None
    assert "SIGKILL" in first.failure.message
    assert (folder.root / str(first.failure.log)).is_file()
    assert load(folder.records / "report.latency-x1-serial.pair01.attempt2.json").status == "ok"
    assert len(folder.measured()) == 4
    assert state.name in ("Inconclusive", "Completed", "Failed"), state.message
    failures = json.loads(folder.summary_json.read_text())["failures"]
    assert [(f["measurement"], f["status"]) for f in failures] == [
        ("report/latency-x1-batch/pair01", "invalid"),
        ("report/latency-x1-serial/pair01", "killed"),
    ]
    assert "its partner" in failures[0]["what"]


def test_legs_apart_each_have_their_own_second_try(prefect_api: None, engine_build: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "apart")
    killer = kill_when_it_measures(f"{folder.requests}/report.latency-x1-serial", signal.SIGKILL)
    run_flow(tiny(tmp_path, run="apart", levels=(1,), pairs=1, interleave="legs"), engine_build)
    killer.join()
    status = {path.stem: load(path).status for path in folder.record_files()}
    assert status == {
        "report.latency-x1-batch.pair01.attempt1": "ok",
        "report.latency-x1-serial.pair01.attempt1": "killed",
        "report.latency-x1-serial.pair01.attempt2": "ok",
    }
    assert "turns_waited_s" not in load(folder.records / "report.latency-x1-batch.pair01.attempt1.json").values


def test_a_measurement_that_hangs_is_ended_at_its_deadline(prefect_api: None, engine_build: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "hung")
    order = [m.name for m in make_plan(tiny(tmp_path, levels=(1,), pairs=2), "any").measurements()]
    stopper = kill_when_it_measures(f"{folder.requests}/{order[0].replace('/', '.')}", signal.SIGSTOP)
    run_flow(tiny(tmp_path, run="hung", levels=(1,), pairs=2, deadline_minutes=0.1), engine_build)
    stopper.join()
    first = load(folder.records / f"{order[0].replace('/', '.')}.attempt1.json")
    assert first.status == "timeout"
    assert processes(str(folder.requests)) == []
    assert set(order[2:]) <= folder.measured(), "the others went on"


def test_the_budget_cuts_pairs_and_says_so(prefect_api: None, engine_build: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "cut")
    run_flow(tiny(tmp_path, run="cut", levels=(1,), pairs=3, budget_minutes=0.001), engine_build)
    assert {load(path).spec.pair for path in folder.record_files()} == {1}
    note = json.loads(folder.summary_json.read_text())["notes"][0]
    assert note.startswith("Cut by the budget of 0.001 minutes: of 3 pairs 1 at level 1 were measured")


def test_an_engine_that_does_not_build_is_a_result_with_its_commit(prefect_api: None, tmp_path: Path) -> None:
    from flows.validation import validate

    repo = tmp_path / "the repo"
    for file in ("native/CMakeLists.txt", "engine/__init__.py"):
        (repo / file).parent.mkdir(parents=True)
        (repo / file).write_text("message(FATAL_ERROR broken)\n" if "native" in file else "")
    git = ["git", "-C", repo, "-c", "user.name=one", "-c", "user.email=one@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Break the build"]):
        subprocess.run([*map(str, git), *command], check=True)
    with use_host(HostSettings(repo=repo, cache=tmp_path / "cache")):
        state = validate(tiny(tmp_path / "results", run="broken"), return_state=True)
    assert state.type.value == "FAILED"
    (failed,) = query(tmp_path / "results", "SELECT subject, position, failure FROM build_failures").to_dict("records")
    assert (failed["subject"], failed["position"]) == ("Break the build", 1)
    assert "broken" in failed["failure"]
    assert [*query(tmp_path / "results", "SELECT exit_code FROM runs")["exit_code"]] == [2]
