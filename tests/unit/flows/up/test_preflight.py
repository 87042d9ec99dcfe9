"""The look at the machine before measuring: what is waited for, refused, told."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from flows import preflight
from flows.checkpoints import memory_needed
from flows.parameters import ValidationParameters
from flows.preflight import Finding, NotReadyError, Wait, ready

TINY = ValidationParameters(checkpoint="synthetic:tiny")


def quiet(monkeypatch: pytest.MonkeyPatch, *looks: list[Finding]) -> None:
    """The looks that follow one another; the last one stays."""
    left = list(looks)
    monkeypatch.setattr(preflight, "look", lambda *_: left.pop(0) if len(left) > 1 else left[0])


def test_a_quiet_machine_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    quiet(monkeypatch, [])
    assert ready(TINY, [tmp_path], Wait(10, pytest.fail)) == []


def test_it_waits_until_what_disturbs_is_gone_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Finding("load: others", False)
    quiet(monkeypatch, [busy], [busy], [])
    told: list[str] = []
    assert ready(TINY, [], Wait(1, told.append, poll_s=0.01)) == []
    assert told == ["waiting up to 1 min: load: others"]


def test_noise_is_told_at_the_end_of_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch, [Finding("load: others", False)])
    assert ready(TINY, [], Wait(0.001, lambda _: None, poll_s=0.01)) == ["The machine was not quiet: load: others."]


def test_what_is_missing_is_refused_at_the_end_of_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch, [Finding("disk: full", True), Finding("load: others", False)])
    with pytest.raises(NotReadyError, match=r"^not ready to measure: disk: full$"):
        ready(TINY, [], Wait(0, lambda _: None))


def test_memory_and_disk_are_held_against_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.safetensors").touch()
    assert memory_needed(str(tmp_path)) == 2**30
    monkeypatch.setattr(preflight, "DISK_NEEDED", 2**62)
    monkeypatch.setattr(preflight, "memory_needed", lambda _: 2.0**62)
    found = preflight.look(TINY, [tmp_path / "not" / "there"])
    fatal = [finding.text for finding in found if finding.fatal]
    assert [text.partition(":")[0] for text in fatal] == ["memory", "disk"]
    assert all("GiB" in text for text in fatal)


def test_the_one_who_uses_the_cores_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "BUSY", 0.3 / (psutil.cpu_count() or 1))
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinner:
        try:
            time.sleep(0.3)
            found = preflight.look(TINY, [])
        finally:
            spinner.kill()
    text = next(finding.text for finding in found if finding.text.startswith("load"))
    assert "% of the cores (most by " in text


def test_a_governor_that_follows_the_load_is_told(tmp_path: Path) -> None:
    for core, name in enumerate(("performance", "powersave")):
        (tmp_path / f"cpu{core}" / "cpufreq").mkdir(parents=True)
        (tmp_path / f"cpu{core}" / "cpufreq" / "scaling_governor").write_text(name + "\n")
    found = preflight._governor(tmp_path)
    assert found is not None
    assert "powersave: sudo cpupower frequency-set -g performance" in found.text
    assert preflight._governor(tmp_path / "cpu0") is None
