"""The doctor: each thing that is missing, with what mends it."""

import socket
from pathlib import Path

import pytest

from flows.cli.doctor import Finding, examine
from flows.settings import HostSettings

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostSettings:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    return HostSettings(cache=tmp_path / "cache", repo=ROOT)


def found(host: HostSettings, what: str) -> Finding:
    return next(finding for finding in examine(host) if finding.what == what)


def test_here_everything_needed_is_there(host: HostSettings) -> None:
    findings = list(examine(host))
    assert [finding for finding in findings if finding.needed and not finding.good] == []
    assert {"compiler", "sources", "cpu", "gpu", "memory", "cache", "quiet", "prefect", "plan file"} <= {f.what for f in findings}


def test_a_missing_compiler_comes_with_the_command(host: HostSettings) -> None:
    finding = found(host.model_copy(update={"compiler": "no-such-compiler"}), "compiler")
    assert not finding.good
    assert "apt install g++" in finding.seen


def test_a_folder_without_sources(host: HostSettings, tmp_path: Path) -> None:
    finding = found(host.model_copy(update={"repo": tmp_path}), "sources")
    assert (finding.good, finding.needed) == (False, True)
    assert "--repo FOLDER" in finding.seen


def test_a_port_that_is_taken_and_a_plan_that_is_wrong(
    host: HostSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nightly.toml").write_text("[[measure]]\ntp = 0\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setenv("PACELINE_UP_PORT", str(taken.getsockname()[1]))
        assert "is taken" in found(host, "prefect").seen
    finding = found(host, "plan file")
    assert not finding.good
    assert "measure 1: tp 0" in finding.seen


def test_a_setting_that_does_not_hold(host: HostSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_UP_TIMEZONE", "Mars")
    assert "PACELINE_UP_TIMEZONE Mars: no such time zone" in found(host, "up").seen
