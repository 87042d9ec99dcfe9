"""A real `paceline up` in a folder of its own, and what a person would do with it, over Prefect's API."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

ROOT = Path(__file__).resolve().parents[3]
# One night of seconds; `levels` and `runs` are what a test wants longer.
NIGHT = '[[measure]]\nname = "tiny"\ncheckpoint = "synthetic:tiny"\ntp = 1\nlevels = [2]\nruns = 1\nlooks = [2]\nminutes = 5\n'
NIGHT += "kinds = []\n"
FORM = {"checkpoint": "synthetic:tiny@0", "tp": 1, "levels": [2], "runs": 1, "looks": [2], "new_tokens": 8, "kinds": []}
LONG = {**FORM, "runs": 1000, "new_tokens": 480}  # minutes, so that it is surely cut


@dataclass
class Up:
    """A running service."""

    process: "subprocess.Popen[str]"
    folder: Path
    port: int
    pages_port: int
    said: list[str]

    @property
    def ui(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def home(self) -> Path:
        return self.folder / "cache" / "up"

    def log(self) -> str:
        return (self.home / "service.log").read_text(errors="replace")

    def api(self) -> Any:
        """A client of its API, as a context."""
        return client_of(f"{self.ui}/api")

    def start_run(self, deployment: str, parameters: dict[str, Any]) -> UUID:
        with self.api() as client:
            found = client.read_deployment_by_name(deployment)
            run = client.create_flow_run_from_deployment(found.id, parameters={"parameters": parameters})
            assert isinstance(run.id, UUID)
            return run.id

    def read_run(self, flow_run: UUID) -> Any:
        with self.api() as client:
            return client.read_flow_run(flow_run)

    def ended(self, flow_run: UUID, seconds: float = 240.0) -> Any:
        """The run once it has ended."""

        def final() -> Any:
            run = self.read_run(flow_run)
            return run if run.state.is_final() else None

        return eventually(final, seconds, self.log)

    def children(self) -> list[int]:
        """Everything that came of it: its own processes carry its results folder in their environment."""
        return [pid for pid in processes(str(self.results), "environ") if pid != self.process.pid]

    def measuring(self) -> list[int]:
        """Processes that measure now, and their supervisors."""
        return [pid for pid in processes(str(self.results), "cmdline") if b"flows.measurements." in command(pid)]

    def service(self) -> int:
        """The process that serves the deployments."""
        found = [pid for pid in self.children() if b"flows.deployments" in command(pid) and b"supervisor" not in command(pid)]
        assert len(found) == 1, found
        return found[0]


@contextmanager
def client_of(api_url: str) -> Iterator[Any]:
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: api_url}), get_client(sync_client=True) as client:
        yield client


def start(folder: Path, build: Path | None, *options: str, environment: dict[str, str] | None = None) -> Up:
    """Start it and return once it says that it is up. The same folder again: a restart on the same ports."""
    up = begin(folder, build, *options, environment=environment)
    assert up.process.stdout is not None
    for line in up.process.stdout:
        up.said.append(line.rstrip("\n"))
        if line.startswith("Ctrl-C"):
            return up
    up.process.wait()
    pytest.fail("it did not come up:\n" + "\n".join(up.said))


def begin(folder: Path, build: Path | None, *options: str, environment: dict[str, str] | None = None) -> Up:
    """Start it and return at once."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = folder / "nightly.toml"
    if not plan.exists():
        plan.write_text(NIGHT)
    ports = folder / "ports"
    if not ports.exists():
        ports.write_text(f"{free_port()} {free_port()}")
    port, pages_port = map(int, ports.read_text().split())
    command = [sys.executable, "-P", "-m", "flows.cli", "up", "--cache", str(folder / "cache")]
    command += ["--build", str(build)] if build is not None else []
    command += ["--port", str(port), "--pages-port", str(pages_port), "--wait-minutes", "0", *options]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "PACELINE_"))}
    environ |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "xdg")} | (environment or {})
    process = subprocess.Popen(
        command, cwd=folder, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    return Up(process, folder, port, pages_port, [])


def stop(up: Up, number: signal.Signals = signal.SIGTERM, seconds: float = 90.0) -> str:
    """Signal it; what it said on the way out. It must have left nothing. Does nothing the second time."""
    if up.process.stdout is None or up.process.stdout.closed:
        return ""
    if up.process.poll() is None:
        up.process.send_signal(number)
    output, _ = up.process.communicate(timeout=seconds)
    eventually(lambda: not up.children(), 20, lambda: str([command(pid) for pid in up.children()]))
    return output


def processes(needle: str, where: str) -> list[int]:
    """Ids of the processes, ours excepted, that have a text in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if needle.encode() in (entry / where).read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def eventually(condition: Callable[[], Any], seconds: float, explain: Callable[[], str] = str) -> Any:
    """What the condition gives once it holds. Fails the test where it does not in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.3)
    pytest.fail(f"not within {seconds} s\n{explain()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_names(text: str) -> set[str]:
    return set(re.findall(r"\d{8}T\d{6}Z-[0-9a-f]{4}", text))
