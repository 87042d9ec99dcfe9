"""The service as it stands: what it serves, whom it lets in, what a run of it shows."""

import http.client
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest
from up_support import FORM, Up, free_port

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(600)]


def test_it_says_where_everything_is(up: Up) -> None:
    text = "\n".join(up.said)
    assert f"UI       {up.ui}/deployments" in text
    assert f"results  {up.results}" in text
    assert "nightly  0 2 * * *" in text


def test_nothing_listens_beyond_loopback(up: Up) -> None:
    processes = [psutil.Process(pid) for pid in [up.process.pid, *up.children()]]
    listening = [c.laddr for process in processes for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert {up.port, up.pages_port} <= {address.port for address in listening}
    assert {address.ip for address in listening} == {"127.0.0.1"}


def test_another_sites_page_may_not_ask(up: Up) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", up.port, timeout=30)
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    connection.request("OPTIONS", "/api/flow_runs/filter", headers=headers)
    assert connection.getresponse().getheader("Access-Control-Allow-Origin") is None
    connection.close()
    connection.request("POST", "/api/flow_runs/filter", body=b"{}")
    answer = connection.getresponse()
    assert (answer.status, b"CSRF" in answer.read()) == (403, True)
    connection.close()


def test_the_deployments_are_there_and_the_night_is_scheduled(up: Up) -> None:
    with up.api() as client:
        found = {
            name: client.read_deployment_by_name(f"{name}/{name}")
            for name in ("nightly", "validate", "site", "backfill", "bisect", "compare")
        }
    (schedule,) = found["nightly"].schedules
    assert (schedule.schedule.cron, schedule.active, found["nightly"].paused) == ("0 2 * * *", True, False)
    assert found["validate"].schedules == []
    assert found["nightly"].parameter_openapi_schema["additionalProperties"] is False
    entries = found["nightly"].parameter_openapi_schema["definitions"]["NightParameters"]["properties"]["only"]["items"]
    assert entries["enum"] == ["tiny"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"parameters": {"tp": 65}}, "65 is greater than the maximum of 64"),
        ({"parameters": {"tp": "many"}}, "'parameters.tp'"),
        ({"parameters": {"workload": "reports"}}, "is not one of ['report', 'latency', 'throughput']"),
        ({"parameters": {"checkpoint": "/etc"}}, "'parameters.checkpoint'"),
        ({"parameters": {"devices": "cpu; rm"}}, "'parameters.devices'"),
        ({"parameters": {"run": "../x"}}, "'parameters.run'"),
        ({"parameters": {"results": "/tmp"}}, "'results' was unexpected"),
        ({"parameters": {"command": "rm"}}, "'command' was unexpected"),
        ({"command": "rm"}, "'command' was unexpected"),
    ],
)
def test_the_api_refuses_and_names_the_field(up: Up, parameters: dict[str, Any], words: str) -> None:
    from prefect.exceptions import PrefectHTTPStatusError

    with up.api() as client:
        deployment = client.read_deployment_by_name("validate/validate")
        with pytest.raises(PrefectHTTPStatusError) as caught:
            client.create_flow_run_from_deployment(deployment.id, parameters=parameters)
    assert caught.value.response.status_code == 409
    assert words in caught.value.response.json()["detail"]


def test_a_run_that_asks_for_no_check_is_checked_all_the_same(up: Up) -> None:
    """The form's box "Validate parameters" can be unticked, which the API allows anyone."""
    body = {"parameters": {"parameters": {"checkpoint": "/etc"}}, "enforce_parameter_schema": False}
    with up.api() as client:
        deployment = client.read_deployment_by_name("validate/validate")
        answer = client._client.post(f"/deployments/{deployment.id}/create_flow_run", json=body)
    ended = up.ended(UUID(answer.json()["id"]))
    assert (ended.state.name, "checkpoint /etc: not offered here" in ended.state.message) == ("Failed", True), ended.state
    assert not [path for path in up.results.glob("*/plan.json") if "/etc" in path.read_text()]


@pytest.fixture(scope="module")
def finished(up: Up) -> Any:
    """A validation from the form, once it has ended."""
    return up.ended(up.start_run("validate/validate", FORM))


def test_the_last_state_says_what_was_found(up: Up, finished: Any) -> None:
    assert finished.name == "report tp1 synthetic:tiny@0"
    assert finished.state.type.value in ("COMPLETED", "FAILED"), finished.state
    words = {"Completed": "All targets met", "Failed": "TargetsMissed: x", "Inconclusive": "INCONCLUSIVE: "}
    assert finished.state.message.startswith(words[finished.state.name]), finished.state


def test_tasks_are_named_for_people(up: Up, finished: Any) -> None:
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    with up.api() as client:
        runs = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[finished.id])))
    names = {run.name for run in runs}
    assert {"plan", "preflight", "serial x1 pair 1/2", "batch x2 pair 2/2", "verdicts", "report", "site"} <= names
    assert any(name.startswith("build ") for name in names)


def test_artifacts_show_tables_trend_and_links(up: Up, finished: Any) -> None:
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    with up.api() as client:
        mine = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[finished.id]))
        found = {artifact.key: artifact for artifact in client.read_artifacts(artifact_filter=mine)}
    assert set(found) == {"validation", "progress", "page", "site"}
    text = str(found["validation"].data)
    assert "| target | bound | measured |" in text
    assert "](data:image/png;base64," in text
    assert (found["progress"].type, found["progress"].data) == ("progress", 100.0)
    for key in ("page", "site"):
        address = str(found[key].data).partition("](")[2].rstrip(")")
        assert f"127.0.0.1:{up.pages_port}" in address
        assert page(up, address.partition(str(up.pages_port))[2]) == 200


def page(up: Up, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", up.pages_port, timeout=10)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def test_the_runs_own_lines_are_in_the_ui_and_in_its_log(up: Up, finished: Any) -> None:
    with up.api() as client:
        lines = [log.message for log in client.read_logs(limit=200) if log.name == "paceline"]
    assert any("serial x1 pair 1/2 starts" in line for line in lines), lines
    (log,) = up.results.glob("*/run.log")
    assert "serial x1 pair 1/2 starts" in log.read_text()


def test_a_second_service_on_this_cache_is_refused(up: Up, engine_build: Path) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-P", "-m", "flows.cli", "up", "--build", str(engine_build), "--cache", str(up.folder / "cache")]
    done = subprocess.run([*command, "--port", str(free_port())], cwd=up.folder, capture_output=True, text=True, check=False)
    assert (done.returncode, "paceline up runs already" in done.stderr) == (2, True), done.stderr
