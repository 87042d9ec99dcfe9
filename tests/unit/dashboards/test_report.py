"""The page of a run, from a real store."""

import re
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import pytest

from dashboards import run_view
from dashboards.report import write_page


class Outline(HTMLParser):
    """Tables by id with their cells' text, links, and ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.links: list[str] = []
        self.sources: list[str] = []
        self._table: list[list[str]] | None = None
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "table":
            self._table = self.tables.setdefault(str(given["id"]), [])
        elif tag == "tr" and self._table is not None:
            self._table.append([])
        elif tag in ("td", "th") and self._table:
            self._table[-1].append("")
            self._cell = True
        elif tag == "a":
            self.links.append(str(given["href"]))
        if given.get("src"):
            self.sources.append(str(given["src"]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._table = None
        elif tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._table and self._cell:
            self._table[-1][-1] = f"{self._table[-1][-1]} {data.strip()}".strip()


@pytest.fixture(scope="module")
def page(three_nights: Any) -> tuple[Path, str, Outline]:
    folder = three_nights.root / three_nights.last
    files = write_page(three_nights.snapshot, three_nights.last, folder)
    assert [path.name for path in files.pngs] == ["targets.png", "trend.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in files.pngs)
    text = files.index_html.read_text(encoding="utf-8")
    return folder, text, Outline(text)


def test_both_tables_are_there(page: tuple[Path, str, Outline]) -> None:
    targets, levels = page[2].tables["targets"], page[2].tables["levels"]
    assert targets[0] == ["target", "verdict", "ratio", "interval", "bound", "MDE", "pairs", "why"]
    assert [row[0] for row in targets[1:]] == [
        "1 alone: latency ratio",
        "2 at once: speed-up",
        "4 at once: speed-up",
        "8 at once: speed-up",
        "16 at once: speed-up",
    ]
    assert [row[1].split(maxsplit=1)[1] for row in targets[1:]] == ["INCONCLUSIVE", "PASS", "ERROR", "FAIL", "NO TARGET"]
    assert [row[:2] for row in levels[1:]] == [[str(n), mode] for n in (1, 2, 4, 8, 16) for mode in ("serial", "batch")]


def test_the_figures_are_those_of_the_store(page: tuple[Path, str, Outline], three_nights: Any) -> None:
    view = run_view.read_run(three_nights.snapshot, three_nights.last)
    two = view.targets[view.targets["level"] == 2].iloc[0]
    row = page[2].tables["targets"][2]
    assert row[2] == f"{two['ratio']:.3f}"
    assert row[3] == f"{two['low']:.3f} to {two['high']:.3f}"
    assert row[6] == "3"
    serial = view.levels[(view.levels["level"] == 8) & (view.levels["mode"] == "serial")].iloc[0]
    assert f"{serial['wall_s']:.3f} s" in next(r for r in page[2].tables["levels"] if r[:2] == ["8", "serial"])


def test_every_record_is_linked_and_there(page: tuple[Path, str, Outline]) -> None:
    folder, _, outline = page
    records = [unquote(link) for link in outline.links if link.startswith("records/")]
    assert len(records) == len(outline.tables["records"]) - 1 == 29
    assert all((folder / link).is_file() for link in records)
    assert all((folder / link).is_file() for link in outline.links if link.startswith("charts/"))


def test_one_bundle_and_nothing_from_elsewhere(page: tuple[Path, str, Outline]) -> None:
    _, text, outline = page
    assert text.count("window.vegaEmbed=") == 1
    assert text.count("data-chart=") == 2
    assert outline.sources == []
    assert not [link for link in outline.links if "//" in link]
    assert len(text.encode()) < 1_100_000


def test_the_run_s_facts(page: tuple[Path, str, Outline]) -> None:
    for fact in ("Example CPU, 2 cores, 24 GiB", "synthetic:small", "(clean)", "g++ 12.2.0", "Tensor-parallel ranks"):
        assert fact in page[1]
    assert str(page[0]) not in page[1]


def test_what_comes_from_the_store_is_escaped(store_maker: ModuleType, tmp_path: Path) -> None:
    results = store_maker.Results(tmp_path)
    evil = "</script><img src=x onerror=alert(1)>"
    factory = store_maker.record_factory()
    environment = factory.make_environment(machine={"cpu_model": evil, "cores": 2}, hostname=evil)
    run_id, records = store_maker.make_run(factory, 0, pairs=2, environment=environment)
    results.add_run(run_id, [r.model_copy(update={"spec": r.spec.model_copy(update={"checkpoint": evil})}) for r in records])
    text = write_page(results.snapshot, run_id, tmp_path / run_id).index_html.read_text(encoding="utf-8")
    assert evil not in text
    assert "&lt;/script&gt;&lt;img" in text
    assert len(re.findall(r"</script", text)) == len(re.findall(r"<script", text))


def test_a_single_pair_is_a_point_and_says_so(store_maker: ModuleType, tmp_path: Path) -> None:
    results = store_maker.Results(tmp_path)
    run_id, records = store_maker.make_run(store_maker.record_factory(), 0, pairs=1)
    results.add_run(run_id, records)
    text = write_page(results.snapshot, run_id, tmp_path / run_id).index_html.read_text(encoding="utf-8")
    assert "4 of 4 verdicts rest on a point without an interval" in text


def test_an_unknown_run_is_named(three_nights: Any, tmp_path: Path) -> None:
    with pytest.raises(run_view.UnknownRunError, match=rf"no record of run 'nope'; the latest runs there: .*{three_nights.last}"):
        write_page(three_nights.snapshot, "nope", tmp_path)
    assert not list(tmp_path.iterdir())
