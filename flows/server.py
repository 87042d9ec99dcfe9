"""The Prefect server of one run: started for it, ended with it, on loopback.

Prefect would start one by itself, in our process group and with our terminal: Ctrl-C would take it down before the flow has said
how it ended, SIGKILL would leave it behind, and its complaints would stand in the middle of the output. So it runs under
the supervisor of the measurements, with a log of its own.
"""

import atexit
import http.client
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from flows.locks import exclusive
from flows.measurements import supervisor
from flows.settings import api_authorization, child_environment, join_prefect, prefect_api_url

START_S = 120.0  # the first start creates the database
_STOP_S = 10.0
_TAIL = 1500  # characters of the log in an error


class ServerError(RuntimeError):
    """No Prefect API to run on. Names the address or the log."""


@dataclass
class OwnServer:
    """A Prefect server that is starting or running."""

    process: subprocess.Popen[bytes]
    api_url: str
    log: Path
    starting: ExitStack  # the lock on the home: two servers that create one database at once would break it

    def wait_ready(self, stop: threading.Event | None = None) -> None:
        """Return once the API answers or `stop` is set. Raises ServerError when the server ends or takes longer than START_S."""
        deadline = time.monotonic() + START_S
        with self.starting:
            self._wait_until(deadline, stop or threading.Event())

    def _wait_until(self, deadline: float, stop: threading.Event) -> None:
        while not stop.is_set() and not _answers(self.api_url):
            if self.process.poll() is not None:
                raise ServerError(f"the Prefect server ended with exit code {self.process.returncode}{_tail(self.log)}")
            if time.monotonic() > deadline:
                raise ServerError(f"the Prefect server did not answer at {self.api_url} within {START_S:.0f} s{_tail(self.log)}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End the server with all its processes. Does nothing the second time."""
        if self.process.stdin is not None:
            self.process.stdin.close()  # end of file ends the supervisor's family
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


def ensure_api(cache: Path, log: Path) -> OwnServer | None:
    """Start a server of our own, unless the user names one to join, which must answer. Raises ServerError."""
    joined = prefect_api_url()
    if joined is None:
        return start_server(cache / "prefect", log)
    check_api(joined)
    return None


def check_api(joined: str) -> None:
    """Raises ServerError where the server that the user names does not answer, is no Prefect API, or does not let us in."""
    status = _status(joined, "/admin/version", api_authorization())
    if status is None or status >= 500:
        raise ServerError(f"PREFECT_API_URL={joined}: nothing answers there; start that server, or unset it to run without one")
    if status in (401, 403):
        raise ServerError(f"PREFECT_API_URL={joined}: it asks for a password: set PREFECT_API_AUTH_STRING=user:password")
    if status == 404:
        raise ServerError(f"PREFECT_API_URL={joined}: no Prefect API there; the address ends in /api, as in http://HOST:4200/api")


def local_url(address: str, port: int) -> str:
    """Where this machine reaches the API of a server that listens there: on loopback wherever it listens everywhere."""
    host = "127.0.0.1" if address in ("0.0.0.0", "::", "localhost") else address  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/api"


def start_server(home: Path, log: Path, address: tuple[str, int] | None = None, *, ui: bool = False) -> OwnServer:
    """Start a server and point Prefect, not imported yet, at it; `wait_ready` must follow before it is used.

    address: host and port to listen on; left out, loopback and a free port.

    It ends at exit, after Prefect has sent its last messages: handlers run in the reverse order of their registration.
    """
    home.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    host, port = address or ("127.0.0.1", _free_port())
    command = [sys.executable, "-P", "-m", "prefect", "server", "start", "--host", host, "--port", str(port)]
    command.append("--ui" if ui else "--no-ui")
    with ExitStack() as stack:
        stack.enter_context(exclusive(home / "start.lock"))
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, "--", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=child_environment({"PREFECT_SERVER_API_PORT": str(port)}),
            )
        server = OwnServer(process, local_url(host, port), log, stack.pop_all())
    atexit.register(server.stop)
    join_prefect(server.api_url)
    return server


def _answers(api_url: str) -> bool:
    """Whether a server is up there."""
    status = _status(api_url, "/health")
    return status is not None and status < 500


def _status(api_url: str, path: str, authorization: str | None = None) -> int | None:
    """HTTP status of a GET; None where nothing speaks HTTP. No proxy is asked."""
    address = urllib.parse.urlsplit(api_url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.hostname or "127.0.0.1", address.port, timeout=5)
    try:
        headers = {"Authorization": authorization} if authorization else {}
        connection.request("GET", f"{address.path.rstrip('/')}{path}", headers=headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _tail(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")[-_TAIL:].strip()
    return f":\n{text}\nlog: {log}"
