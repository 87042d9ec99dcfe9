"""`paceline up`: a Prefect server (ours, or one that is joined), the process that serves the deployments, and the pages.

Server and service run under the supervisor of the measurements: whatever ends this process, and whatever ends them, nothing that
they started survives. A part that dies is started again; what it was at is settled first.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from flows.locks import try_exclusive
from flows.measurements import supervisor
from flows.pages import PageServer
from flows.server import OwnServer, ServerError, check_api, start_server
from flows.settings import (
    HostSettings,
    child_environment,
    hand_down,
    prefect_api_url,
    quiet_prefect,
    server_auth,
    set_defaults,
)
from flows.up_settings import UpSettings, variables

READY = "paceline: serving"
START_S = 120.0
STOP_STARTING_S = 3.0  # a service that does not serve yet has no run to end
STOP_S = 45.0  # a run that goes on is cancelled in this time: its processes end, what was measured goes into the store
_BACK_OFF_S = (5.0, 15.0, 60.0)  # before a part that died is started again
_HEALTHY_S = 300.0  # after which a death counts as the first again

Tell = Callable[[str], None]


class UpError(RuntimeError):
    """The service cannot run. Says what is in the way and what clears it."""


@dataclass
class Service:
    """The process that serves the deployments, under its supervisor."""

    log: Path
    own_server: bool
    tell: Tell
    stop_asked: threading.Event
    process: subprocess.Popen[bytes] | None = None
    began: float = field(default=0.0)
    serves: bool = field(default=False)

    def start(self) -> None:
        """Start it and return once it serves or a stop is asked for. Raises UpError with the end of its log."""
        command = [sys.executable, "-P", "-m", "flows.deployments", *(["--own-server"] if self.own_server else [])]
        self.began, self.serves = time.monotonic(), False
        offset = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, "--", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=child_environment(),
            )
        self.serves = self._wait_ready(offset)

    def alive(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """Ask the service itself, which cancels its run, pauses the schedule and ends; then end whatever is left."""
        if self.process is None or self.process.stdin is None:
            return
        for pid in _children(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S if self.serves else STOP_STARTING_S)
        self.process.stdin.close()  # end of file ends the supervisor's family
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(supervisor.GRACE_S + 5)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def _wait_ready(self, offset: int) -> bool:
        """Whether it serves; else a stop is asked for."""
        deadline = time.monotonic() + START_S
        shown = 0
        while time.monotonic() < deadline:
            lines = _since(self.log, offset)
            for line in lines[shown:]:
                if line == READY:
                    return True
                if line.startswith(("paceline: ", "error: ")):
                    self.tell(line.removeprefix("paceline: "))
            shown = len(lines)
            if not self.alive():
                raise UpError("\n".join(["the service ended while starting:", *lines[-12:], f"log: {self.log}"]))
            if self.stop_asked.is_set():
                return False
            time.sleep(0.1)
        raise UpError(f"the service did not come up within {START_S:.0f} s; log: {self.log}")


def run(settings: UpSettings, host: HostSettings, tell: Tell) -> None:
    """Serve until SIGINT or SIGTERM. Raises UpError, ServerError."""
    refuse_open_door(settings)
    home = host.cache / "up"
    home.mkdir(parents=True, exist_ok=True)
    with try_exclusive(home / "up.lock") as got:
        if not got:
            raise UpError(f"paceline up runs already with this cache ({host.cache}); stop it first, or name another with --cache")
        with _stop_signals() as stop:
            _serve(settings, host, home, tell, stop)


def _serve(settings: UpSettings, host: HostSettings, home: Path, tell: Tell, stop: threading.Event) -> None:
    joined = prefect_api_url()
    settings.results.mkdir(parents=True, exist_ok=True)
    hand_down(variables(settings, host))
    set_defaults(quiet_prefect() | {"PREFECT_LOGGING_EXTRA_LOGGERS": "paceline"})
    pages = _pages(settings)
    server = None if joined else _start_server(settings, home)
    service = Service(home / "service.log", own_server=joined is None, tell=tell, stop_asked=stop)
    try:
        if server is None:
            check_api(str(joined))
        else:
            server.wait_ready(stop)
        if not stop.is_set():
            service.start()
        if service.serves:
            _say(settings, joined, home, tell)
        _watch(settings, home, server, service, stop)
    finally:
        tell("stopping")
        service.stop()
        if server is not None:
            server.stop()
        if pages is not None:
            pages.close()
    tell("stopped; started again, it takes up what was interrupted")


def _watch(settings: UpSettings, home: Path, server: OwnServer | None, service: Service, stop: threading.Event) -> None:
    """Start what died again, with growing pauses; return when asked to stop."""
    deaths = 0
    while not stop.wait(2.0):
        if server is not None and server.process.poll() is not None:
            raise ServerError(f"the Prefect server ended with exit code {server.process.returncode}; log: {server.log}")
        if service.alive():
            continue
        deaths = deaths + 1 if time.monotonic() - service.began < _HEALTHY_S else 1
        pause = _BACK_OFF_S[min(deaths, len(_BACK_OFF_S)) - 1]
        service.tell(f"the service ended; it starts again in {pause:.0f} s (log: {service.log})")
        if stop.wait(pause):
            return
        try:
            service.start()
        except UpError as error:
            service.tell(str(error))


def _start_server(settings: UpSettings, home: Path) -> OwnServer:
    """Our own server, with its database in the cache, its UI on, and closed to other sites' pages."""
    if not port_is_free(settings.address, settings.port):
        raise UpError(f"{settings.address}, port {settings.port}: taken: stop what listens there, or choose another with --port")
    names = ("127.0.0.1", "localhost", f"[{settings.address}]" if ":" in settings.address else settings.address)
    origins = {f"http://{name}:{settings.port}" for name in names}
    set_defaults(
        {
            "PREFECT_HOME": str(home),
            "PREFECT_SERVER_API_PORT": str(settings.port),
            "PREFECT_SERVER_UI_API_URL": "/api",  # the browser's own address of this server, whatever it is
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ",".join(sorted(origins)),
            "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
            "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        }
    )
    if (auth := server_auth()) is not None:
        set_defaults({"PREFECT_API_AUTH_STRING": auth})
    return start_server(home, home / "server.log", (settings.address, settings.port), ui=True)


def refuse_open_door(settings: UpSettings) -> None:
    """Raises UpError where other machines could reach our server and Prefect would ask them for nothing."""
    auth = server_auth()
    if settings.public and prefect_api_url() is None and not (auth and all(part for part in auth.partition(":"))):
        raise UpError(
            f"--address {settings.address}: other machines could then start runs here without a password: set "
            "PREFECT_SERVER_API_AUTH_STRING=user:password, which Prefect asks everyone for, or leave the address on loopback"
        )


def _pages(settings: UpSettings) -> PageServer | None:
    if not settings.pages_port:
        return None
    try:
        return PageServer(settings.results, settings.pages_port)
    except OSError as error:
        raise UpError(f"port {settings.pages_port}: {error.strerror}: choose another with --pages-port (0: no pages)") from error


def _say(settings: UpSettings, joined: str | None, home: Path, tell: Tell) -> None:
    ui = (joined or settings.api_url).removesuffix("/api")
    tell(f"UI       {ui}/deployments")
    if settings.pages_url:
        tell(f"pages    {settings.pages_url}/site/index.html (once a run has ended)")
    tell(f"nightly  {settings.schedule} ({settings.timezone}); plan: {settings.plan or 'one validation at planned looks'}")
    tell(f"results  {settings.results.absolute()}")
    tell(f"log      {home / 'service.log'}")
    tell("Ctrl-C stops it.")


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set. A second one changes nothing: the stop is bounded anyway."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def port_is_free(address: str, port: int) -> bool:
    """Whether a server could listen there now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def _since(log: Path, offset: int) -> list[str]:
    with log.open("rb") as file:
        file.seek(offset)
        return file.read().decode("utf-8", errors="replace").splitlines()
