"""Whatever ends a run or the service: no process survives, records are kept, and the next start measures what is missing."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from up_support import FORM, LONG, Up, eventually, start, stop

from storage.records import load

pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def alone(engine_build: Path, tmp_path: Path) -> Iterator[Up]:
    """A service that may be hurt."""
    up = start(tmp_path / "service", engine_build)
    yield up
    stop(up)


def begin(up: Up, parameters: dict[str, Any], records: int = 0) -> Any:
    """Start a run; return it once it measures and has so many records."""
    flow_run = up.start_run("validate/validate", parameters)
    eventually(up.measuring, 120, up.log)
    eventually(lambda: len(list(up.results.glob("*/records/*.json"))) >= records, 240, up.log)
    eventually(up.measuring, 60, up.log)
    return flow_run


def only_run(up: Up) -> Path:
    (plan,) = up.results.glob("*/plan.json")
    return plan.parent


def test_cancelled_while_it_measures(alone: Up) -> None:
    """As the UI's button does it: the state Cancelling. The next run takes the interrupted one up."""
    from prefect.states import Cancelling

    flow_run = begin(alone, LONG)
    with alone.api() as client:
        client.set_flow_run_state(flow_run, Cancelling())
    run = alone.ended(flow_run)
    assert run.state.type.value == "CANCELLED", run.state
    eventually(lambda: not alone.measuring(), 30, alone.log)
    assert len(alone.children()) >= 2, "the service itself lives on"
    first = only_run(alone)
    assert not (first / "summary.json").exists()
    again = alone.ended(alone.start_run("validate/validate", FORM))
    assert again.state.type.value in ("COMPLETED", "FAILED"), again.state
    assert "NoVerdict" not in again.state.name
    assert "exception" not in again.state.message, again.state


def test_service_killed_while_it_measures(alone: Up) -> None:
    """SIGKILL to the worker: nothing of the run survives; it is started again, buries the dead run and takes it up."""
    short = {**FORM, "runs": 150}
    flow_run = begin(alone, short, records=1)
    before = {path.name for path in only_run(alone).glob("records/*.json")}
    victims = [*alone.measuring()]
    os.kill(alone.service(), signal.SIGKILL)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in victims), 30)
    assert alone.ended(flow_run).state.type.value == "CRASHED"
    taken = eventually(lambda: other_runs(alone, flow_run), 120, alone.log)
    ended = alone.ended(taken[0].id, 400)
    assert taken[0].name.endswith("(taken up)")
    assert ended.state.type.value in ("COMPLETED", "FAILED"), ended.state
    records = [load(path) for path in only_run(alone).glob("records/*.json")]
    assert before <= {path.name for path in only_run(alone).glob("records/*.json")}, "one run: nothing of it was lost"
    good = Counter(record.measurement for record in records if record.status == "ok")
    assert len(good) == 8
    assert sum(good.values()) <= 9, "only what was missing, with the partner of the leg that was cut"


def other_runs(up: Up, flow_run: Any) -> list[Any]:
    with up.api() as client:
        return [run for run in client.read_flow_runs() if "taken up" in run.tags and run.id != flow_run]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_stopped_and_started_again(number: signal.Signals, engine_build: Path, tmp_path: Path) -> None:
    """A clean stop, Ctrl-C, and what a reboot does: it takes up where it was."""
    up = start(tmp_path / "service", engine_build)
    try:
        flow_run = begin(up, {**FORM, "runs": 150}, records=1)
        said = stop(up, number)
    finally:
        stop(up)
    if number != signal.SIGKILL:
        assert up.process.returncode == 0, said
        assert "stopped; started again, it takes up what was interrupted" in said
    kept = {path.name for path in only_run(up).glob("records/*.json")}
    assert kept
    up = start(tmp_path / "service", engine_build)
    try:
        assert any("taken up as" in line for line in up.said), up.said
        first = up.read_run(flow_run)
        assert first.state.type.value in ("CRASHED", "CANCELLED"), first.state
        (taken,) = other_runs(up, flow_run)
        ended = up.ended(taken.id, 400)
        assert ended.state.type.value in ("COMPLETED", "FAILED"), ended.state
        summary = json.loads((only_run(up) / "summary.json").read_text())
        assert summary["exit_code"] in (0, 1, 3), summary["headline"]
        assert kept <= {path.name for path in only_run(up).glob("records/*.json")}
        with up.api() as client:
            assert client.read_deployment_by_name("nightly/nightly").paused is False, "the schedule goes on"
    finally:
        stop(up)


def test_a_run_beyond_its_deadline_is_ended_and_says_so(alone: Up) -> None:
    """Every first process of a kind is cut at the deadline; the others have their chance, and the run says what happened."""
    flow_run = alone.start_run("validate/validate", {**LONG, "deadline_minutes": 0.05, "quick": True})
    run = alone.ended(flow_run, 500)
    assert (run.state.type.value, run.state.name) == ("FAILED", "NoVerdict"), run.state
    assert not alone.measuring()
    statuses = {load(path).status for path in only_run(alone).glob("records/*.json")}
    assert statuses == {"timeout"}


def test_a_decided_commit_gets_the_canary_alone_unless_forced(alone: Up) -> None:
    """The night's rule; the first run is declared decided in its summary."""
    night = alone.ended(alone.start_run("nightly/nightly", {}))
    assert night.state.type.value in ("COMPLETED", "FAILED"), night.state
    run = only_run(alone)
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {"exit_code": 0}))
    second = alone.ended(alone.start_run("nightly/nightly", {}))
    assert (second.state.name, run.name in second.state.message) == ("Completed", True), second.state
    canaries = [load(path) for path in alone.results.glob("*/records/*.json") if "canary" in path.name]
    assert {record.spec.extra["arm"] for record in canaries if record.status == "ok"} == {"a", "b"}
    (probe,) = [load(path) for path in alone.results.glob("*/records/*.json") if "machine" in path.name]
    assert probe.status == "ok"
    assert probe.values["read_bandwidth_bytes_per_s"] > 1e9
    (watched,) = [path.parent for path in alone.results.glob("*/plan.json") if path.parent != run]
    assert json.loads((watched / "summary.json").read_text())["decided_by"] == run.name
    assert json.loads((watched / "run.json").read_text())["finished_at"]
    third = alone.ended(alone.start_run("nightly/nightly", {"force": True}))
    assert third.state.type.value in ("COMPLETED", "FAILED")
    assert len(list(alone.results.glob("*/plan.json"))) == 3
