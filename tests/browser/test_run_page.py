"""The page of a run as a reader meets it: Chromium, no network."""

from pathlib import Path
from typing import Any

import pytest

from dashboards import theme

pytestmark = pytest.mark.browser
WIDER = "document.documentElement.scrollWidth - window.innerWidth"


def test_both_tables_and_every_chart_are_there(visit: Any, run_page: Path) -> None:
    page = visit(run_page).page
    assert page.get_by_role("table").count() >= 2
    assert page.locator("#targets tbody tr").count() == 5
    assert page.locator("#levels tbody tr").count() == 10
    places = page.locator("[data-chart]")
    assert places.count() == 2
    for place in places.all():
        assert place.get_attribute("data-state") == "drawn"
        box = place.locator("svg").bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert box["height"] > 100
        assert place.locator("svg path").count() > 5


def test_charts_state_their_finding_to_a_screen_reader(visit: Any, run_page: Path) -> None:
    page = visit(run_page).page
    for place in page.locator("[data-chart]").all():
        label = place.get_attribute("aria-label")
        assert label is not None
        assert "FAIL" in label
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.get_by_role("main").count() == 1
    assert page.locator("th:not([scope])").count() == 0
    assert page.locator("h1").count() == 1


def test_the_toggle_changes_page_and_charts_and_is_remembered(visit: Any, run_page: Path) -> None:
    made = visit(run_page)
    page = made.page
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    button = page.get_by_role("button", name="Switch to dark colours")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    made.ready()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert page.locator(f"[data-chart] svg [fill='{theme.DARK.failed}']").count() > 0
    assert page.locator(f"[data-chart] svg [fill='{theme.LIGHT.failed}']").count() == 0
    page.reload()
    made.ready()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert page.get_by_role("button", name="Switch to light colours").is_visible()


def test_dark_is_taken_from_the_system(visit: Any, run_page: Path) -> None:
    page = visit(run_page, scheme="dark").page
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 25, 31)"
    assert page.locator(f"[data-chart] svg [fill='{theme.DARK.passed}']").count() > 0


@pytest.mark.parametrize("width", [320, 375, 768])
def test_a_phone_scrolls_down_only(visit: Any, run_page: Path, width: int) -> None:
    page = visit(run_page, width=width).page
    assert page.evaluate(WIDER) <= 0
    for place in page.locator("[data-chart] svg").all():
        box = place.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= width


def test_tables_that_scroll_can_be_reached_with_the_keyboard(visit: Any, run_page: Path) -> None:
    page = visit(run_page, width=375).page
    regions = page.get_by_role("region")
    assert regions.count() >= 2
    assert all(region.get_attribute("tabindex") == "0" for region in page.locator(".scroll").all())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"


def test_a_point_tells_its_figures_on_hover(visit: Any, run_page: Path) -> None:
    page = visit(run_page).page
    page.locator("[data-chart=trend] svg .mark-symbol path").first.hover()
    tip = page.locator("#vg-tooltip-element")
    tip.wait_for(state="visible")
    assert "ratio" in tip.inner_text()
    assert "commit" in tip.inner_text()


def test_narrowing_the_window_redraws_to_fit(visit: Any, run_page: Path) -> None:
    made = visit(run_page)
    made.page.set_viewport_size({"width": 400, "height": 900})
    made.page.wait_for_function("document.querySelector('[data-chart] svg').getBoundingClientRect().width < 400")
    made.ready()
    assert made.page.evaluate(WIDER) <= 0
