"""A signal while `paceline up` starts ends it there and then: it does not come up first, and nothing of it is left."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from up_support import Up, begin, command, eventually, stop

from flows.up import START_S

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(240)]
SOON_S = START_S / 4  # generous to a busy machine, and far from a start that is waited for


class Mute(ThreadingHTTPServer):
    """A server that can be joined, and then lets whoever asks wait: what is started on it never serves."""

    def __init__(self) -> None:
        self.asked, self.release = threading.Event(), threading.Event()
        asked, release = self.asked, self.release

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the base class's name
                if self.path != "/api/admin/version":
                    asked.set()
                    release.wait()
                self.send_response(200)
                self.end_headers()

            do_POST = do_GET  # noqa: N815  # the base class's name

            def log_message(self, *_: object) -> None:
                return

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def mute() -> Iterator[Mute]:
    server = Mute()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()
    thread.join()


def stopped_at(started: Up, reached: Callable[[], Any]) -> str:
    """What it says when it is told to stop as soon as its start has got so far."""
    try:
        eventually(reached, 60)
        return stop(started, seconds=SOON_S)
    finally:
        started.process.kill()
        stop(started)


def test_before_its_server_answers(engine_build: Path, tmp_path: Path) -> None:
    started = begin(tmp_path / "service", engine_build)
    said = stopped_at(started, lambda: [pid for pid in started.children() if b"prefect" in command(pid)])
    assert (started.process.returncode, said.splitlines()[0]) == (0, "stopping"), said
    assert not (started.home / "service.log").exists(), "nothing more was started"


def test_before_its_service_serves(mute: Mute, engine_build: Path, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{mute.server_address[1]}/api"
    started = begin(tmp_path / "service", engine_build, environment={"PREFECT_API_URL": url})
    said = stopped_at(started, mute.asked.is_set)
    assert (started.process.returncode, said.splitlines()[0]) == (0, "stopping"), said
