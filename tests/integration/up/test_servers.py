"""A Prefect server of the user's own, joined; and our own on an address that other machines reach."""

import base64
import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from up_support import FORM, Up, eventually, free_port, start, stop

pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(900)]
AUTH = "admin:a secret"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[int]:
    """Port of a plain `prefect server` on loopback."""
    port = free_port()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environ |= {"PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        eventually(lambda: get("127.0.0.1", port, "/api/health") == 200, 240)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:  # it waits for open connections
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def get(address: str, port: int, path: str, auth: str | None = None) -> int | None:
    """HTTP status; None where nothing listens."""
    connection = http.client.HTTPConnection(address, port, timeout=10)
    try:
        headers = {"Authorization": f"Basic {base64.b64encode(auth.encode()).decode()}"} if auth else {}
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def test_a_server_that_runs_already_is_joined(server: int, engine_build: Path, tmp_path: Path) -> None:
    up = start(tmp_path / "service", engine_build, environment={"PREFECT_API_URL": f"http://127.0.0.1:{server}/api"})
    own, up.port = up.port, server
    try:
        assert f"UI       {up.ui}/deployments" in "\n".join(up.said)
        assert get("127.0.0.1", own, "/api/health") is None, "no second server"
        ended = up.ended(up.start_run("validate/validate", FORM), 400)
        assert ended.state.type.value in ("COMPLETED", "FAILED"), ended.state
        assert ended.state.name != "NoVerdict", ended.state
        with up.api() as client:
            lines = [log.message for log in client.read_logs(limit=200) if log.name == "paceline"]
            assert any("serial x1 pair 1/2 starts" in line for line in lines), lines
            assert client.read_deployment_by_name("nightly/nightly").paused is False
    finally:
        stop(up)
    assert get("127.0.0.1", server, "/api/health") == 200, "it was there before, and stays"
    with up.api() as client:
        assert client.read_deployment_by_name("nightly/nightly").paused is True, "nobody serves it now"


@pytest.fixture(params=["0.0.0.0", "127.0.0.2"])  # noqa: S104
def public(request: pytest.FixtureRequest, engine_build: Path, tmp_path: Path) -> Iterator[tuple[str, Up]]:
    """A service on an address that is not its own loopback's first, with a password."""
    up = start(
        tmp_path / "service", engine_build, "--address", request.param, environment={"PREFECT_SERVER_API_AUTH_STRING": AUTH}
    )
    yield request.param, up
    stop(up)


def test_another_address_asks_everyone_for_the_password(public: tuple[str, Up]) -> None:
    """127.0.0.2 stands for a machine's other addresses: what listens on 127.0.0.1 alone is not there."""
    from prefect.settings import PREFECT_API_AUTH_STRING, temporary_settings

    address, up = public
    outside = "127.0.0.2"
    assert [get(outside, up.port, "/api/health", auth) for auth in (None, AUTH)] == [200, 200]
    for path in ("/api/admin/version", "/api/flow_runs/count-history"):
        assert get(outside, up.port, path) == 401
        assert get(outside, up.port, path, "admin:guess") == 401
    assert get(outside, up.port, "/api/admin/version", AUTH) == 200
    assert get(outside, up.pages_port, "/site/index.html") is None, "pages stay on loopback"
    if address == "0.0.0.0":  # noqa: S104
        with temporary_settings({PREFECT_API_AUTH_STRING: AUTH}):
            ended = up.ended(up.start_run("validate/validate", FORM), 400)
        assert ended.state.type.value in ("COMPLETED", "FAILED"), ended.state
        assert ended.state.name != "NoVerdict", ended.state
        assert get("127.0.0.1", up.pages_port, "/site/index.html") == 200
    secret = AUTH.partition(":")[2]
    assert secret not in "\n".join(up.said)
    assert secret not in up.log()
