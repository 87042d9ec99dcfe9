"""What is said of a PREFECT_API_URL that cannot be joined, and where a server of our own is reached."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from flows.server import ServerError, check_api, local_url

WANTED = "Basic YWRtaW46c2VjcmV0"  # admin:secret


class Guarded(BaseHTTPRequestHandler):
    """A Prefect API as far as it is asked here: below /api, with a password."""

    def do_GET(self) -> None:  # the base class's name
        known = self.path == "/api/admin/version"
        self.send_response((200 if self.headers.get("Authorization") == WANTED else 401) if known else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("PREFECT_API_AUTH_STRING", "PREFECT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    server = HTTPServer(("127.0.0.1", 0), Guarded)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_server_with_a_password_is_joined_with_it(guarded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerError, match="asks for a password: set PREFECT_API_AUTH_STRING=user:password"):
        check_api(f"{guarded}/api")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "admin:secret")
    check_api(f"{guarded}/api")
    check_api(f"{guarded}/api/")


def test_what_is_no_prefect_api_is_named(guarded: str) -> None:
    with pytest.raises(ServerError, match="no Prefect API there; the address ends in /api"):
        check_api(guarded)


def test_where_nothing_answers() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: nobody else gets it
        with pytest.raises(ServerError, match="nothing answers there; start that server, or unset it"):
            check_api(f"http://127.0.0.1:{taken.getsockname()[1]}/api")


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1/api"),
        ("localhost", "http://127.0.0.1:1/api"),
        ("0.0.0.0", "http://127.0.0.1:1/api"),  # noqa: S104
        ("192.0.2.7", "http://192.0.2.7:1/api"),
        ("::1", "http://[::1]:1/api"),
    ],
)
def test_our_own_server_is_asked_where_it_listens(address: str, url: str) -> None:
    assert local_url(address, 1) == url
