"""Telemetry of the machine this runs on, held against other sources; and what makes a series."""

import os
import platform
import subprocess
import sys
import threading
from typing import Any

import pytest

from flows.measurements import nvml, telemetry


def test_facts_of_this_machine() -> None:
    facts = telemetry.machine_facts({"compiler": "g++ 12", "flags": "-O3"})
    assert facts["cores"] == os.cpu_count()
    assert facts["usable_cores"] == len(os.sched_getaffinity(0))
    assert facts["kernel"] == platform.release()
    assert facts["memory_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert facts["quota"] is None or 0 < facts["quota"] <= 4096
    assert facts["cpu_model"]
    assert (facts["compiler"], facts["flags"]) == ("g++ 12", "-O3")


def test_the_affinity_mask_of_a_process_is_seen() -> None:
    one = next(iter(os.sched_getaffinity(0)))
    code = f"""
import os
os.sched_setaffinity(0, [{one}])
from flows.measurements import telemetry
print(telemetry.machine_facts({{}})["usable_cores"])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "1"


def test_a_look_counts_this_process() -> None:
    before = telemetry.look()
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        during = telemetry.look()
    finally:
        over.set()
        thread.join()
        child.communicate(b"\n")
    assert during["own_threads"] == before["own_threads"] + 1
    assert during["own_children"] == before["own_children"] + 1
    assert during["threads"] >= 3
    assert during["processes"] >= 2
    assert 0 < during["available_memory_bytes"] < telemetry.machine_facts({})["memory_bytes"]
    assert all(isinstance(value, float) for value in during.values())


def facts(**overrides: Any) -> dict[str, Any]:
    return telemetry.machine_facts({"compiler": "g++ 12", "flags": "-O3"}) | overrides


@pytest.mark.parametrize(
    "change",
    [
        {"cpu_model": "another"},
        {"cores": 999},
        {"usable_cores": 999},
        {"quota": 0.5},
        {"memory_gib": 1},
        {"compiler": "g++ 13"},
        {"flags": "-O2"},
        {"gpus": ["A GPU"]},
        {"driver": "580"},
    ],
)
def test_a_change_of_machine_compiler_or_driver_is_another_series(change: dict[str, Any]) -> None:
    assert telemetry.fingerprint(facts(**change)) != telemetry.fingerprint(facts())


def test_a_new_kernel_a_few_bytes_of_memory_or_a_builds_folder_are_not() -> None:
    same = facts(
        flags="-ffile-prefix-map=/cache/builds/.1234/sources=. -O3",
        kernel="9.9",
        memory_bytes=1,
        governor="powersave",
        huge_pages="never",
    )
    assert telemetry.fingerprint(same) == telemetry.fingerprint(facts())


def test_package_versions() -> None:
    versions = telemetry.package_versions(["numpy", "no-such-package-here"])
    assert set(versions) == {"python", "numpy"}
    assert versions["python"] == platform.python_version()


@pytest.mark.parametrize("line", ["max 100000", "150000 100000"])
def test_cgroup_quota_of_version_2(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text("0::/outer/inner\n")
    (tmp_path / "cg" / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "cg" / "outer" / "cpu.max").write_text(f"{line}\n")
    (tmp_path / "cg" / "outer" / "inner" / "cpu.max").write_text("max 100000\n")
    monkeypatch.setattr(telemetry, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(telemetry, "_CGROUP", tmp_path / "cg")
    assert telemetry.cgroup_quota() == (None if line.startswith("max") else 1.5)


def test_no_gpu_figures_for_the_cpu_and_no_silence_for_cuda() -> None:
    assert nvml.open_gpus("cpu") is None
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there is a GPU here")
    with pytest.raises(nvml.TelemetryError, match=r"devices cuda:0: (GPU figures need the package nvidia-ml-py|NVML:)"):
        nvml.open_gpus("cuda:0")


def test_time_that_the_host_took_is_a_share_of_all_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry.psutil, "cpu_count", lambda: 2)
    figures = telemetry.StolenTime(7.5, 110.0).since(telemetry.StolenTime(5.5, 100.0))
    assert figures == {"stolen_cpu_s": 2.0, "stolen_cpu_fraction": 0.1}
    assert telemetry.stolen_faults(figures) == ["host: 10.0% of the processors' time went to other guests, must be 3% at most"]


@pytest.mark.parametrize("figures", [{}, {"stolen_cpu_s": 1.0, "stolen_cpu_fraction": 0.03}])
def test_little_or_uncounted_theft_is_no_fault(figures: dict[str, float]) -> None:
    assert telemetry.stolen_faults(figures) == []


def test_where_theft_is_not_counted_or_the_time_too_short_nothing_is_said() -> None:
    assert telemetry.StolenTime(5.6, 100.4).since(telemetry.StolenTime(5.5, 100.0)) == {}, "ten ticks of the kernel's clock"
    assert telemetry.StolenTime(None, 2.0).since(telemetry.StolenTime(None, 1.0)) == {}
    assert telemetry.StolenTime.now().at_s > 0
