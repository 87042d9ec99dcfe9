"""The static site in Chromium, no network: every page, each interaction."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dashboards.site import NAMES, write_site

pytestmark = pytest.mark.browser
WIDER = "document.documentElement.scrollWidth - window.innerWidth"
NIGHTS = 14  # enough for the strip to drag over


@pytest.fixture(scope="module")
def site(store_maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = store_maker.Results(tmp_path_factory.mktemp("browser site"))
    store_maker.eventful(results, store_maker.record_factory(), NIGHTS)
    return write_site(results.snapshot, results.root / "site").index_html.parent


@pytest.fixture(scope="module")
def crowd(store_maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of six machines, of which every other one has no level of 8."""
    results = store_maker.Results(tmp_path_factory.mktemp("browser crowd"))
    factory, runs = store_maker.record_factory(), {}
    for night in range(12):
        number = night % 6
        machine = {"cpu_model": f"Machine of rather a long name, number {number}", "cores": 2, "memory_bytes": 24 * 2**30}
        environment = factory.make_environment(fingerprint=f"{number:016x}", machine=machine)
        ratios = {1: 1.0, 2: 1.9, 8: 4.6} if number % 2 else {1: 1.0, 4: 3.1}
        run_id, records = store_maker.make_run(factory, night, ratios=ratios, pairs=2, environment=environment)
        runs[run_id] = records
    results.add_runs(runs)
    return write_site(results.snapshot, results.root / "site").index_html.parent


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (375, "dark")])
def test_every_page_draws_and_fits(visit: Any, site: Path, width: int, scheme: str) -> None:
    for name in NAMES:
        page = visit(site / f"{name}.html", width=width, scheme=scheme).page
        assert [place.get_attribute("data-state") for place in page.locator("[data-chart]").all()] == ["drawn"] * (
            {"index": 0, "latency": 2, "night": 3}.get(name, 1)
        )
        assert page.evaluate(WIDER) <= 0, name
        assert page.locator("h1").count() == 1
        assert page.locator("nav a[aria-current=page]").count() == 1


def test_the_pages_are_reached_with_the_keyboard(visit: Any, site: Path) -> None:
    made = visit(site / "index.html")
    made.page.keyboard.press("Tab")
    made.page.keyboard.press("Tab")
    made.page.keyboard.press("Tab")
    made.page.keyboard.press("Enter")
    made.page.wait_for_url("**/trend.html")
    made.ready()


def test_a_series_has_a_line_in_the_order_of_the_commits(visit: Any, site: Path) -> None:
    page = visit(site / "trend.html").page
    lines = page.locator("[data-chart] svg .mark-line path[stroke]")
    assert lines.count() >= 4
    labels = page.locator("[data-chart] svg .mark-symbol path[aria-label]")
    assert labels.count() == 3 * NIGHTS
    assert "1 alone: latency ratio: " in str(labels.first.get_attribute("aria-label"))


def test_dragging_over_the_strip_zooms_the_panels(visit: Any, site: Path) -> None:
    page = visit(site / "trend.html").page
    ticks = "[...document.querySelectorAll('[data-chart] svg .role-axis-label')][0].textContent"
    before = page.evaluate(ticks)
    box = page.locator("[data-chart] svg").bounding_box()
    strip = page.locator("[data-chart] svg .role-scope[class*='view_']").first.bounding_box()
    assert box is not None
    assert strip is not None
    y = strip["y"] + strip["height"] / 3
    page.mouse.move(strip["x"] + strip["width"] * 0.5, y)
    page.mouse.down()
    page.mouse.move(strip["x"] + strip["width"] * 0.8, y, steps=8)
    page.mouse.up()
    page.wait_for_function(f"{ticks} !== {before!r}")


def test_a_series_is_singled_out_in_the_legend(visit: Any, site: Path) -> None:
    page = visit(site / "trend.html").page
    faint = "document.querySelectorAll('[data-chart] svg .mark-symbol [opacity=\"0.15\"]').length"
    assert page.evaluate(faint) == 0
    page.locator("[data-chart] svg .role-legend-label text", has_text="CPU 0").click(force=True)
    page.wait_for_function(f"{faint} > 0")


def test_a_point_leads_to_its_page(visit: Any, site: Path) -> None:
    made = visit(site / "trend.html")
    made.page.locator("[data-chart] svg .role-mark.mark-symbol path").first.click()
    made.page.wait_for_url("**/points/*.html")
    assert made.page.locator("#targets").count() == 1
    assert made.page.locator("#records a").count() == 12
    made.ready()


def test_what_could_not_be_built_and_what_changed_say_so(visit: Any, site: Path) -> None:
    page = visit(site / "trend.html").page
    crosses = page.locator("[data-chart] svg text[aria-label*='build failed']")
    assert crosses.count() == 3, "one a panel"
    assert "model.cc:12: error: 'Rows' was not declared" in str(crosses.first.get_attribute("aria-label"))
    assert page.locator("[data-chart] svg text", has_text="+7.7 %").count() == 1
    assert page.locator("#changes tbody tr").count() == 1
    assert page.locator("#builds tbody tr").count() == 1


def test_a_level_is_picked_from_the_distributions(visit: Any, site: Path) -> None:
    page = visit(site / "latency.html").page
    chart = page.locator("[data-chart=distribution] svg")
    bright = '[data-chart=distribution] svg .mark-line path[opacity="1"]'
    strong, dashes = page.locator(bright), f"document.querySelector('{bright}').getAttribute('stroke-dasharray')"
    assert strong.count() == 8, "four metrics in both modes at the highest level"
    before = page.evaluate(dashes)
    chart.locator(".role-legend-label text", has_text="2 at once").click(force=True)
    page.wait_for_function(f"{dashes} !== {json.dumps(before)}")
    assert strong.count() == 8


def test_each_of_two_series_has_panels_of_its_legs(visit: Any, site: Path) -> None:
    page = visit(site / "legs.html").page
    for name in ("CPU 0, synthetic:small", "CPU 1, synthetic:small"):
        assert page.locator("[data-chart] svg text", has_text=name).count() == 1
    assert page.locator("[data-chart] svg text", has_text="8 at once").count() == 2
    assert page.locator("select").count() == 0


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (375, "dark")])
def test_one_of_many_series_is_chosen_and_stays_chosen(visit: Any, crowd: Path, width: int, scheme: str) -> None:
    made = visit(crowd / "legs.html", width=width, scheme=scheme)
    page, absent = made.page, made.page.locator("[data-chart] svg text", has_text="not measured in this series")
    assert absent.count() == 1, "4 at once"
    assert page.evaluate(WIDER) <= 0
    choice = page.get_by_role("combobox", name="Series")
    assert choice.locator("option").count() == 6
    choice.select_option(index=2)
    page.wait_for_function("document.querySelector('[data-chart] svg').textContent.includes('number 2')")
    page.locator("#theme").click()
    made.ready()
    assert "number 2" in choice.input_value()
    assert absent.count() == 2, "2 and 8 at once"


def test_the_overview_of_many_series_folds_all_but_a_few(visit: Any, crowd: Path) -> None:
    page = visit(crowd / "index.html").page
    assert page.locator(".tiles").count() == 6
    assert page.locator(".tiles:visible").count() == 4
    page.locator("section summary", has_text="number").first.click()
    assert page.locator(".tiles:visible").count() == 5


def test_the_night_tells_of_its_canary_and_of_causes(visit: Any, site: Path) -> None:
    page = visit(site / "night.html").page
    assert "The same build against itself moved" in page.locator(".lede").inner_text()
    assert page.locator("[data-chart=canary] svg .mark-symbol path").count() >= 2
    assert "slots were not filled" in page.locator("#causes").inner_text()
