"""The site and the runs' pages over HTTP, on loopback alone: a browser follows no file: link from the Prefect UI.

GET and HEAD of finished pages and what they show, nothing else: no listing, no store, no path outside the results folder.
"""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SUFFIXES = (".html", ".js", ".css", ".png", ".svg", ".json", ".md", ".log", ".txt")
_NAMES = ("127.0.0.1", "localhost")
_POLL_S = 60.0  # it wakes for a connection anyway; this is how often it would look whether it should end


class _Pages(SimpleHTTPRequestHandler):
    """Files below one folder, by suffix."""

    server_version, sys_version = "paceline", ""

    def send_head(self) -> Any:
        """Refuse what is no page, and names that a page elsewhere could have made resolve to this machine."""
        host = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host")
        inside = Path(self.translate_path(self.path)).resolve()
        hidden = any(part.startswith(".") for part in inside.relative_to("/").parts[len(Path(self.directory).parts) - 1 :])
        if host not in _NAMES or not inside.is_relative_to(Path(self.directory).resolve()) or hidden:
            self.send_error(403)
            return None
        if inside.suffix not in SUFFIXES or not inside.is_file():
            self.send_error(404)
            return None
        return super().send_head()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is the base class's
        """Say nothing: who reads which page is nobody's business."""


class PageServer:
    """Serves from a thread of this process until it is closed."""

    def __init__(self, results: Path, port: int) -> None:
        """Raises OSError where the port is taken."""
        handler = partial(_Pages, directory=str(results.resolve()))
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="pages", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening; answers that are under way end with the process."""
        self._server.server_close()
