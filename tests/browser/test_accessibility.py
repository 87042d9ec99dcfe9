"""Every page under axe, in light and dark and at the width of a phone: no violation of WCAG 2.2 A or AA, nor of best practice."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from dashboards.export import export
from dashboards.site import NAMES, write_site

pytestmark = pytest.mark.browser
OPTIONS = {"resultTypes": ["violations"], "preload": False}  # preloading asks for the style sheet anew, which file: pages may not


@pytest.fixture(scope="module")
def site(store_maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = store_maker.Results(tmp_path_factory.mktemp("accessible site"))
    store_maker.eventful(results, store_maker.record_factory(), 12)
    export("trend", results.snapshot, results.root / "site" / "single.html")
    return write_site(results.snapshot, results.root / "site").index_html.parent


@pytest.fixture(scope="module")
def crowd(store_maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of six machines: more series than are drawn, or open, at once."""
    results = store_maker.Results(tmp_path_factory.mktemp("accessible crowd"))
    store_maker.eventful(results, store_maker.record_factory(), 12, machines=6)
    return write_site(results.snapshot, results.root / "site").index_html.parent


def check(visit: Any, path: Path, width: int, scheme: str) -> None:
    page = visit(path, width=width, scheme=scheme).page
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true })")
    found = Axe().run(page, options=OPTIONS).response["violations"]
    told = [f"{rule['id']}: {rule['help']}: {rule['nodes'][0]['html'][:200]}" for rule in found]
    assert not told, f"{path.name}: {told}"


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light")])
def test_every_page_of_the_site(visit: Any, site: Path, width: int, scheme: str) -> None:
    point = sorted(site.glob("points/*.html"))[-1]
    for path in (*(site / f"{name}.html" for name in NAMES), point):
        check(visit, path, width, scheme)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1100, "dark"), (375, "light"), (375, "dark")])
def test_every_page_in_the_other_colours(visit: Any, site: Path, width: int, scheme: str) -> None:
    test_every_page_of_the_site(visit, site, width, scheme)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_of_many_series(visit: Any, crowd: Path, scheme: str) -> None:
    for name in ("index", "legs", "scaling"):
        check(visit, crowd / f"{name}.html", 1100, scheme)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_run(visit: Any, run_page: Path, scheme: str) -> None:
    check(visit, run_page, 1100, scheme)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_chart_exported_as_a_page(visit: Any, site: Path, scheme: str) -> None:
    check(visit, site / "single.html", 1100, scheme)
