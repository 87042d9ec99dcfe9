"""The static site from a real store."""

import re
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import pytest

from dashboards.site import NAMES, write_site
from storage import queries
from storage.database import Database
from storage.runs import store_changes

COMMIT_URL = "https://git.example/c/{commit}"


@pytest.fixture(scope="module")
def site(three_nights: Any) -> Any:
    history = queries.ratio_history(three_nights.snapshot)
    row = history[(history["run_id"] == three_nights.last) & (history["level"] == 8)].iloc[0]
    told = {name: row[name] for name in ("series", "workload", "metric")} | {"level": 8, "good": "a" * 40, "bad": row["commit"]}
    told |= {"good_position": 1, "bad_position": 3, "step": 1.06, "low": 1.05, "high": 1.07, "p": 1e-6}
    store_changes(three_nights.store, three_nights.last, [told])
    return write_site(three_nights.snapshot, three_nights.root / "site", COMMIT_URL)


def text_of(site: Any, name: str) -> str:
    return (site.index_html.parent / name).read_text(encoding="utf-8")


def test_every_page_is_there_and_one_bundle(site: Any) -> None:
    folder = site.index_html.parent
    names = {path.relative_to(folder).as_posix() for path in site.files}
    assert {f"{name}.html" for name in NAMES} <= names
    assert len([name for name in names if name.startswith("points/")]) == 3
    assert sum(path.read_text(encoding="utf-8").count("window.vegaEmbed=") for path in site.files) == 1
    assert site.total_bytes == sum(path.stat().st_size for path in site.files) < 1_400_000


def test_every_inner_link_leads_somewhere(site: Any) -> None:
    count = 0
    for path in site.files:
        if path.suffix != ".html":
            continue
        for link in re.findall(r'(?:href|src)="([^"#]+)"', path.read_text(encoding="utf-8")):
            if not link.startswith("https://git.example/c/"):
                assert (path.parent / unquote(link)).resolve().is_file(), f"{path.name}: {link}"
                count += 1
    assert count > 100


def test_the_overview_has_a_tile_a_target_and_the_change(site: Any) -> None:
    text = text_of(site, "index.html")
    assert text.count('class="what"') == 4
    assert "Example CPU, synthetic:small, tp 4, report" in text
    assert "+6.0 % (+5.0 % to +7.0 %)" in text
    assert "Noise floor" in text


def test_points_link_to_their_pages_and_commits(site: Any, three_nights: Any) -> None:
    text = text_of(site, "trend.html")
    assert f'href="points/{three_nights.last}.html"' in text
    assert text.count("https://git.example/c/") >= 12
    assert f"points/{three_nights.last}.html" in text.split("application/json")[1]


def test_a_point_says_how_to_measure_it_again(site: Any, three_nights: Any) -> None:
    text = text_of(site, f"points/{three_nights.last}.html")
    assert "paceline measure throughput --mode batch --levels 8 --checkpoint synthetic:small --devices cpu --tp 4" in text
    assert 'aria-current="page"' not in text
    assert f"../../{three_nights.last}/records/" in text


def test_nothing_leaks_the_machine_s_paths(site: Any, three_nights: Any) -> None:
    for path in site.files:
        assert str(three_nights.root) not in path.read_text(encoding="utf-8")


def test_an_empty_store_has_all_pages(tmp_path: Path) -> None:
    database = Database(tmp_path / "paceline.duckdb")
    with database.write():
        pass
    site = write_site(tmp_path / "snapshot.duckdb", tmp_path / "site")
    assert "No verdict is in the store yet" in text_of(site, "index.html")
    assert "The trend begins with the first run. No run is in the store yet." in text_of(site, "trend.html")
    for name in NAMES[3:]:
        assert "No run is in the store yet." in text_of(site, f"{name}.html")


def test_a_template_without_a_commit_is_refused(three_nights: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"commit_url_template 'https://x': \{commit\} must stand in it"):
        write_site(three_nights.snapshot, tmp_path, "https://x")


def test_two_machines_are_two_series_by_name(store_maker: ModuleType, tmp_path: Path) -> None:
    results, factory = store_maker.Results(tmp_path), store_maker.record_factory()
    for night, cpu in enumerate(("First CPU", "Second CPU")):
        environment = factory.make_environment(fingerprint=f"{night:016x}", machine={"cpu_model": cpu, "cores": 2})
        results.add_run(*store_maker.make_run(factory, night, ratios={1: 1.0, 8: 5.0}, pairs=2, environment=environment))
    site = write_site(results.snapshot, tmp_path / "site")
    for name in ("index.html", "trend.html", "legs.html"):
        assert "First CPU, synthetic:small" in text_of(site, name)
        assert "Second CPU, synthetic:small" in text_of(site, name)
    assert text_of(site, "legs.html").count("First CPU, synthetic:small, tp 4, report: most at") == 0, "one commit: no move"
    for name in ("scaling.html", "latency.html", "limits.html"):
        drawn, others = text_of(site, name).split("Other series")
        assert "Second CPU, synthetic:small" in drawn
        assert re.search(r'First CPU, synthetic:small.*?<a href="points/2026', others, re.DOTALL)
        assert "Second CPU" not in others
    assert "Newest run: Second CPU, synthetic:small, tp 4, report. Latest 1 alone" in text_of(site, "trend.html")


def test_change_frames_join_by_run_and_metric(site: Any) -> None:
    assert "Change of 8 at once: speed-up" in text_of(site, "trend.html")
