"""`paceline site` and `paceline chart` on a real store."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_the_site_is_written_beside_the_runs(three_nights: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("site", "--results", str(three_nights.root), "--out", "drawn", "--commit-url", "https://git.example/{commit}")
    assert done.exit_code == 0, done.output
    assert "drawn/index.html: " in done.output
    assert "https://git.example/" in Path("drawn/trend.html").read_text(encoding="utf-8")


def test_a_chart_is_written_into_the_file(three_nights: Any, tmp_path: Path) -> None:
    done = run("chart", "targets", "--out", str(tmp_path / "t.svg"), "--results", str(three_nights.root))
    assert (done.exit_code, done.output.strip()) == (0, str(tmp_path / "t.svg"))
    assert (tmp_path / "t.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chart", "nope", "--out", "a.svg"], "chart 'nope': there is none; choose one of canary, distribution, latency"),
        (["chart", "trend", "--out", "a.gif"], "ending '.gif'"),
        (["chart", "targets", "--out", "a.svg", "--run", "x"], "'x'"),
        (["site", "--commit-url", "https://x"], "--commit-url https://x"),
    ],
)
def test_a_mistake_is_named(three_nights: Any, arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    done = run(*arguments, "--results", str(three_nights.root))
    assert done.exit_code == 2
    assert words in done.output + capfd.readouterr().err


def test_no_store_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = run("site", "--results", str(tmp_path / "nowhere"))
    assert done.exit_code == 2
    assert "no results store there" in done.output + capfd.readouterr().err
