"""The pages' server: finished pages to this machine, nothing else to anyone."""

import http.client
from collections.abc import Iterator

import pytest

from flows.pages import PageServer


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    top = tmp_path_factory.mktemp("top")
    results = top / "the results"
    (results / "site").mkdir(parents=True)
    (results / "site" / "index.html").write_text("the site")
    (results / "paceline.duckdb").write_text("store")
    (results / ".hidden.html").write_text("hidden")
    (top / "secret.html").write_text("secret")
    (results / "link.html").symlink_to(top / "secret.html")
    server = PageServer(results, 0)
    yield server
    server.close()


def get(pages: PageServer, path: str, host: str = "127.0.0.1", method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", pages.port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", f"{host}:{pages.port}")
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def test_a_page_is_served(pages: PageServer) -> None:
    assert get(pages, "/site/index.html") == (200, "the site")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/site",
        "/site/",
        "/paceline.duckdb",
        "/.hidden.html",
        "/link.html",
        "/../secret.html",
        "/%2e%2e/secret.html",
        "/x.html",
    ],
)
def test_nothing_else_is(pages: PageServer, path: str) -> None:
    status, body = get(pages, path)
    assert status in (403, 404)
    assert "secret" not in body
    assert "hidden" not in body.replace(".hidden", "")


def test_a_foreign_name_for_this_machine_is_refused(pages: PageServer) -> None:
    assert get(pages, "/site/index.html", host="evil.example")[0] == 403


def test_it_takes_no_other_method(pages: PageServer) -> None:
    assert get(pages, "/site/index.html", method="POST")[0] == 501
