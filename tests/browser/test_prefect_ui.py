"""The real Prefect UI of a real service, driven in Chromium: the form, a run under way, what it shows at the end.

Screens go to the folder that SCREENS names, where it is set; a person looks at them there.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from flows.build import build_engine
from flows.settings import load_host

pytestmark = [pytest.mark.browser, pytest.mark.prefect, pytest.mark.timeout(900)]
SUPPORT = Path(__file__).parents[1] / "integration" / "up" / "up_support.py"
SLOW_MS = 60_000  # a browser beside others on two cores


@pytest.fixture(scope="module")
def support() -> ModuleType:
    spec = importlib.util.spec_from_file_location("browser_up_support", SUPPORT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def service(support: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    host = load_host()
    build = host.build or build_engine(support.ROOT, host, tmp_path_factory.mktemp("build") / "build.log")[0].folder
    up = support.start(tmp_path_factory.mktemp("ui") / "service", build)
    yield up
    support.stop(up)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 1500})
    opened = context.new_page()
    opened.set_default_timeout(SLOW_MS)
    yield opened
    context.close()


def shot(page: Page, name: str) -> None:
    folder = os.environ.get("SCREENS")
    if folder:
        page.wait_for_timeout(1500)  # drawings fade in
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def open_form(page: Page, service: Any, name: str) -> None:
    with service.api() as client:
        deployment = client.read_deployment_by_name(f"{name}/{name}")
    page.goto(f"{service.ui}/deployments/deployment/{deployment.id}/run")
    expect(page.get_by_text("Every field has a default")).to_be_visible(timeout=SLOW_MS)


def field(page: Page, title: str) -> Locator:
    """A field of the form with its label, description and input."""
    around = "xpath=ancestor::div[contains(concat(' ', @class, ' '), ' schema-form-property ')][1]"
    return page.locator("label", has_text=title).locator(around)


def test_the_form_explains_itself(page: Page, service: Any) -> None:
    open_form(page, service, "validate")
    shot(page, "form")
    for words in (
        "Synthetic shape, made once and kept, or one of the configured checkpoint folders.",
        "Concurrent requests to measure, such as 2,4,8,16.",
        "Longest time for a measurement of which nothing is known yet.",
    ):
        expect(page.get_by_text(words)).to_be_visible()
    assert page.get_by_text("Results folder").count() == 0
    choices = field(page, "Checkpoint").locator("button.p-select-button__control")
    choices.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_text("synthetic:qwen3-0.6b@0")).to_be_visible(timeout=SLOW_MS)
    shot(page, "form_choices")


def test_a_bad_value_is_refused_in_the_form(page: Page, service: Any) -> None:
    open_form(page, service, "validate")
    field(page, "Tensor-parallel ranks").locator("input").fill("65")
    page.get_by_role("button", name="Submit").click()
    refusal = page.get_by_text("'parameters.tp'. Failure reason: 65 is greater than the maximum of 64").first
    expect(refusal).to_be_visible(timeout=SLOW_MS)
    shot(page, "form_refused")
    assert "/runs/" not in page.url, "no run came of it"
    with service.api() as client:
        assert not [run for run in client.read_flow_runs() if run.state.type.value != "SCHEDULED"]


@pytest.mark.slow
def test_a_run_from_start_to_end(page: Page, service: Any, support: ModuleType) -> None:
    flow_run = service.start_run("nightly/nightly", {"force": True})
    support.eventually(service.measuring, 180, service.log)
    with service.api() as client:
        below = support.eventually(
            lambda: [run for run in client.read_flow_runs() if run.parent_task_run_id is not None], 60, service.log
        )
    page.goto(f"{service.ui}/runs/flow-run/{below[0].id}")
    expect(page.get_by_text("Running").first).to_be_visible(timeout=SLOW_MS)
    ended = service.ended(flow_run)
    assert ended.state.type.value in ("COMPLETED", "FAILED"), ended.state
    page.goto(f"{service.ui}/runs/flow-run/{below[0].id}")
    expect(page.get_by_text(ended.state.name).first).to_be_visible(timeout=SLOW_MS)
    shot(page, "ended")
    with service.api() as client:
        night = next(artifact for artifact in client.read_artifacts() if artifact.key == "night")
    page.goto(f"{service.ui}/artifacts/artifact/{night.id}")
    expect(page.get_by_role("heading", name="tiny", exact=True)).to_be_visible(timeout=SLOW_MS)
    trend = page.get_by_alt_text("Trend of the ratios")
    expect(trend).to_be_visible()
    assert trend.evaluate("image => image.complete && image.naturalWidth > 300"), "the chart is drawn from the artifact itself"
    expect(page.get_by_role("cell", name="single-request latency")).to_be_visible()
    shot(page, "night")
    site = f"http://127.0.0.1:{service.pages_port}/site/index.html"
    page.goto(site)
    expect(page.locator("h1")).to_be_visible()
    shot(page, "site")


@pytest.mark.slow
def test_the_button_that_cancels(page: Page, service: Any, support: ModuleType) -> None:
    flow_run = service.start_run("validate/validate", support.LONG)
    support.eventually(service.measuring, 180, service.log)
    page.goto(f"{service.ui}/runs/flow-run/{flow_run}")
    expect(page.locator("canvas")).to_be_visible()
    page.wait_for_timeout(5000)  # the graph draws itself
    shot(page, "running")
    page.get_by_role("button", name="Cancel").first.click()
    shot(page, "cancel")
    page.get_by_role("button", name="Confirm").click()
    assert service.ended(flow_run).state.type.value == "CANCELLED"
    support.eventually(lambda: not service.measuring(), 30, service.log)
