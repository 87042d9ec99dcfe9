"""Chromium with the network off, and a page of a real run."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
MAKERS = Path(__file__).parent.parent / "unit" / "dashboards"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"browser_{name}", MAKERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def store_maker() -> ModuleType:
    return _load("store_maker")


@pytest.fixture(
    scope="module"
)  # not longer: while it is open its event loop counts as running, and asyncio.run is refused to others
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{CHROMIUM} is missing: CI installs the distribution's package 'chromium' before these tests")
        pytest.skip(f"Chromium is missing: no {CHROMIUM}; install the distribution's package 'chromium'")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@dataclass
class Visit:
    """A page that is open, with everything it complained of or asked for elsewhere."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def ready(self) -> None:
        """Wait until every chart is drawn or has failed."""
        self.page.wait_for_function("document.documentElement.dataset.charts === 'ready'", timeout=60_000)


@pytest.fixture
def visit(browser: Browser) -> Iterator[Any]:
    """visit(path, width=1100, scheme='light') -> Visit, network off; complaints and foreign requests are checked at the end."""
    visits: list[Visit] = []

    def go(path: Path, width: int = 1100, scheme: Any = "light") -> Visit:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        made = Visit(context.new_page())
        made.page.on("console", lambda message: made.complaints.append(f"{message.type}: {message.text}"))
        made.page.on("pageerror", lambda error: made.complaints.append(f"error: {error}"))
        made.page.on("request", lambda request: made.requests.append(request.url))
        visits.append(made)
        made.page.goto(path.as_uri())
        made.ready()
        return made

    yield go
    for made in visits:
        assert made.complaints == []
        assert [url for url in made.requests if not url.startswith(("file:", "data:"))] == []
        made.page.context.close()


@pytest.fixture(scope="session")
def run_page(store_maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """index.html of the second of two runs; a level fails and one has no target."""
    from dashboards.report import write_page

    results = store_maker.Results(tmp_path_factory.mktemp("browser results"))
    factory = store_maker.record_factory()
    for night in range(2):
        run_id, records = store_maker.make_run(factory, night, ratios={**store_maker.RATIOS, 16: 5.0}, pairs=4)
        results.add_run(run_id, records)
    return write_page(results.snapshot, run_id, results.root / run_id).index_html
