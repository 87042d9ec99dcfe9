"""The doctor: each thing that is missing, with what mends it."""

import os
import shutil
import socket
import subprocess
import sys
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


def test_sources_without_git_have_no_place_in_the_trend(host: HostSettings, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    for part in ("engine", "native"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    finding = found(host.model_copy(update={"repo": folder}), "sources")
    assert (finding.good, finding.needed) == (False, False)
    assert "no place in the trend; git clone" in finding.seen


def test_a_server_to_join_that_does_not_answer(host: HostSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unanswered:  # bound and not listening: connections are refused
        unanswered.bind(("127.0.0.1", 0))
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{unanswered.getsockname()[1]}/api")
        finding = found(host, "prefect")
    assert (finding.good, finding.needed) == (False, True)
    assert "/api" in finding.seen


def test_an_open_address_without_a_password(host: HostSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_UP_ADDRESS", "0.0.0.0")  # noqa: S104  # refused, which is the point
    finding = found(host, "address")
    assert (finding.good, finding.needed) == (False, True)


@pytest.mark.parametrize("what", ["cache", "results"])
def test_a_folder_that_cannot_be_written(host: HostSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    finding = found(host, what)
    assert (finding.good, finding.needed) == (False, True)
    assert "not writable" in finding.seen


def test_the_exit_code_is_2_only_for_what_is_needed(host: HostSettings, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flows.cli", "doctor", "--cache", str(tmp_path / "cache"), "--repo"]
    fine = subprocess.run([*command, str(ROOT)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (fine.returncode, "MISSING" in fine.stdout) == (0, False), fine.stdout + fine.stderr
    empty = subprocess.run([*command, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert empty.returncode == 2, empty.stdout + empty.stderr
    assert "MISSING sources" in empty.stdout


def test_files_that_a_validation_would_refuse(host: HostSettings, tmp_path: Path) -> None:
    (tmp_path / "paceline.toml").write_text("levls = [2]\n")
    (tmp_path / "targets.toml").write_text("[[target]]\nname = 'x'\n")
    settings = found(host, "settings")
    assert (settings.good, settings.needed) == (False, True)
    assert "levls" in settings.seen
    targets = found(host.model_copy(update={"targets": tmp_path / "targets.toml"}), "targets")
    assert (targets.good, targets.needed) == (False, True)
    assert "targets.toml: target 1" in targets.seen
