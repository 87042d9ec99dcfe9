"""Word of changed verdicts: what counts as a change, and the message that reaches a webhook through the real server."""

import asyncio
import importlib.util
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from up_support import ROOT, Up

from flows.aggregate import tell_changes
from flows.folders import RunFolder
from flows.notify import Change, changes, ensure_automation

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(600)]


def load_module(path: str) -> ModuleType:
    """A helper of the unit tests, by its path below them."""
    file = ROOT / "tests" / "unit" / path
    spec = importlib.util.spec_from_file_location(f"up_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def store_maker() -> ModuleType:
    return load_module("dashboards/store_maker.py")


@pytest.fixture(scope="module")
def nights(store_maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[str]]:
    """Four nights of one series: level 8 fails, fails again, is met, fails."""
    results = store_maker.Results(tmp_path_factory.mktemp("nights"))
    factory = store_maker.record_factory()
    names = []
    for night, at_eight in enumerate((3.9, 3.9, 5.0, 3.9)):
        run_id, records = store_maker.make_run(factory, night, ratios={**store_maker.RATIOS, 8: at_eight}, pairs=6)
        results.add_run(run_id, records)
        names.append(run_id)
    return results, names


def test_only_a_verdict_that_differs_from_the_last_is_a_change(nights: tuple[Any, list[str]]) -> None:
    results, names = nights
    found = [[(c.name, c.before, c.now) for c in changes(results.snapshot, name)] for name in names]
    assert found == [[], [], [("8 concurrent", "FAIL", "PASS")], [("8 concurrent", "PASS", "FAIL")]]


@pytest.fixture
def receiver() -> Iterator[tuple[str, "queue.Queue[dict[str, Any]]"]]:
    """A webhook on loopback, and what it got."""
    got: queue.Queue[dict[str, Any]] = queue.Queue()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the base class's name
            got.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hook", got
    server.shutdown()
    server.server_close()
    thread.join()


def in_a_process(up: Up, program: str, given: Any) -> str:
    """Run it in a process of its own, as a flow run is: Prefect's sender of events keeps the first server it met. Its output."""
    environ = os.environ | {"PREFECT_API_URL": f"{up.ui}/api", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-c", program]
    asked = json.dumps(given)
    done = subprocess.run(command, input=asked, text=True, env=environ, check=True, timeout=120, stdout=subprocess.PIPE)
    return done.stdout


def told(up: Up, found: list[Change], run_id: str, link: str | None) -> None:
    """Announce these."""
    program = (
        "import json, sys\n"
        "from flows.notify import Change, announce\n"
        "found, run_id, link = json.load(sys.stdin)\n"
        "announce([Change(**change) for change in found], run_id, '0123456789abcdef', link)\n"
    )
    in_a_process(up, program, [[vars(change) for change in found], run_id, link])


def test_the_message_reaches_the_webhook(up: Up, receiver: tuple[str, "queue.Queue[dict[str, Any]]"]) -> None:
    from prefect.blocks.notifications import CustomWebhookNotificationBlock
    from prefect.settings import PREFECT_API_URL, temporary_settings

    address, got = receiver
    with temporary_settings({PREFECT_API_URL: f"{up.ui}/api"}):
        assert "no such block yet" in asyncio.run(ensure_automation("custom-webhook/nobody"))
        body = {"title": "{{subject}}", "text": "{{body}}"}
        CustomWebhookNotificationBlock(name="team", url=address, json_data=body).save("team", overwrite=True)
        assert "changed verdicts go to custom-webhook/team" in asyncio.run(ensure_automation("custom-webhook/team"))
        change = Change("8 concurrent", "report", "abc", "PASS", "FAIL", "The interval 3.8x to 4.0x lies below 4.5x.")
        told(up, [], "quiet-run", None)
        told(up, [change], "loud-run", "http://127.0.0.1:1/page")
        message = got.get(timeout=60)
        assert message["title"] == "Paceline: 1 verdict changed for the worse at 0123456789"
        assert message["text"].splitlines() == [
            "8 concurrent (report): PASS -> FAIL. The interval 3.8x to 4.0x lies below 4.5x.",
            "run loud-run",
            "http://127.0.0.1:1/page",
        ]
        assert "told to nobody" in asyncio.run(ensure_automation(None)), "the automation is gone again"
        with pytest.raises(queue.Empty):
            got.get(timeout=3)


TELL = """
import json, sys
from pathlib import Path
from flows.folders import RunFolder
from flows.notify import tell_run
results, runs = json.load(sys.stdin)
print(json.dumps({run: tell_run(RunFolder(Path(results), run), None) for run in runs}))
"""


def test_a_step_of_the_trend_is_told_once(up: Up, receiver: tuple[str, "queue.Queue[dict[str, Any]]"], tmp_path: Path) -> None:
    """Nine nights, batching 8 % slower from the sixth on; then an old commit again, and every night told of again."""
    from prefect.blocks.notifications import CustomWebhookNotificationBlock
    from prefect.settings import PREFECT_API_URL, temporary_settings

    series = load_module("flows/test_history.py").Series(tmp_path)
    runs = {series.measure(number, batch=1.0 if number < 5 else 1.08): number for number in range(9)}
    runs[series.measure(2)] = 2
    fired = {}
    for run, number in runs.items():
        folder = RunFolder(series.results, run)
        fired[run] = tell_changes(folder.store, run)
        found = {"source": {"commit": series.commits[number]}, "alerts": fired[run]}
        folder.summary_json.write_text(json.dumps(found))
    assert any(fired.values())
    assert fired[list(runs)[-1]] == [], "an old commit measured again"
    address, got = receiver
    with temporary_settings({PREFECT_API_URL: f"{up.ui}/api"}):
        body = {"title": "{{subject}}", "text": "{{body}}"}
        CustomWebhookNotificationBlock(name="trend", url=address, json_data=body).save("trend", overwrite=True)
        asyncio.run(ensure_automation("custom-webhook/trend"))
        said = json.loads(in_a_process(up, TELL, [str(series.results), list(runs)]))
        assert {run for run, lines in said.items() if lines} == {run for run, alerts in fired.items() if alerts}
        again = json.loads(in_a_process(up, TELL, [str(series.results), list(runs)]))
        assert not any(again.values()), "each night is told of once"
        messages = [got.get(timeout=60) for alerts in fired.values() if alerts]
        with pytest.raises(queue.Empty):
            got.get(timeout=3)
        asyncio.run(ensure_automation(None))
    lines = [line for message in messages for line in message["text"].splitlines() if line.startswith("The trend changed")]
    assert len(lines) == len({line.split(" by ")[0] for line in lines}), lines
    assert f"in {series.commits[4][:10]}..{series.commits[5][:10]}." in lines[0]
    assert all(
        message["title"].startswith("Paceline: ") and "changed, first seen at " in message["title"] for message in messages
    )
