"""The README's picture: `make pictures RESULTS=<results folder>`, from the newest run with pairs, in headless Chromium.

The picture is the top of the run's page, drawn anew: targets with verdicts, the ratio at each level, the levels in figures.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from dashboards.report import write_page
from dashboards.run_frames import newest_run
from storage.database import Database, readable_path

CHROMIUM = "/usr/bin/chromium"
OUT = Path(__file__).parents[2] / "docs" / "images"
WIDTH, SHARPNESS = 1000, 1.5  # px of the window; device pixels a px


def report(page_file: Path, out: Path) -> None:
    """The page's top, through the table of the levels."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport={"width": WIDTH, "height": 900}, device_scale_factor=SHARPNESS, offline=True)
        page = context.new_page()
        page.goto(page_file.as_uri())
        page.wait_for_function("document.documentElement.dataset.charts === 'ready'", timeout=60_000)
        bottom = page.locator("section[aria-labelledby=h-levels]").bounding_box()
        assert bottom is not None
        height = bottom["y"] + bottom["height"] + 16
        page.screenshot(path=out, full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
        browser.close()


def main() -> None:
    """Draw docs/images/report.png, or elsewhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="results folder with its store")
    parser.add_argument("--run", help="run to show; left out: the newest with pairs")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the pictures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "store.duckdb"  # what is measured stays as it is, whatever schema it has
        shutil.copyfile(readable_path(given.results), copy)
        with Database(copy).write():
            pass
        run = given.run or newest_run(copy)
        if run is None:
            parser.error(f"{given.results}: no run with pairs in its store")
        given.out.mkdir(parents=True, exist_ok=True)
        report(write_page(copy, run, Path(folder)).index_html, given.out / "report.png")
    print(given.out / "report.png")


if __name__ == "__main__":
    main()
