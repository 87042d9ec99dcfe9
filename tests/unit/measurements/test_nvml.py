"""What is made of NVML's answers. The library is a stand-in with the names and units of nvidia-ml-py, for hosts without a GPU."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from flows.measurements.nvml import Gpus, TelemetryError, open_gpus


class NotSupportedError(Exception):
    """NVML's answer where a GPU does not give a figure."""


def library(**overrides: Any) -> Any:
    def unsupported(handle: int) -> int:
        raise NotSupportedError

    answers = {
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "NVML_TEMPERATURE_GPU": 0,
        "NVMLError_NotSupported": NotSupportedError,
        "nvmlDeviceGetName": lambda h: f"GPU model {h}",
        "nvmlDeviceGetMemoryInfo": lambda h: SimpleNamespace(total=80 * 2**30, used=2**30),
        "nvmlDeviceGetEnforcedPowerLimit": lambda h: 700_000,
        "nvmlSystemGetDriverVersion": lambda: b"580.1",
        "nvmlDeviceGetClockInfo": lambda h, kind: {1: 1860, 2: 7000}[kind],
        "nvmlDeviceGetPowerUsage": lambda h: 250_500,
        "nvmlDeviceGetTemperature": lambda h, sensor: 61,
        "nvmlDeviceGetUtilizationRates": unsupported,
        "nvmlDeviceGetTotalEnergyConsumption": lambda h: 5_000_000,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda h: 0x01,
    }
    return SimpleNamespace(**(answers | overrides))


def test_facts_and_figures_have_their_units() -> None:
    gpus = Gpus(library(), {0: 0, 3: 3})
    assert gpus.facts() == {
        "gpus": ["GPU model 0", "GPU model 3"],
        "gpu_memory_bytes": [80 * 2**30] * 2,
        "gpu_power_limit_w": [700.0, 700.0],
        "driver": "580.1",
    }
    look = gpus.look()
    assert (look["gpu0_sm_clock_mhz"], look["gpu3_memory_clock_mhz"], look["gpu0_power_w"]) == (1860.0, 7000.0, 250.5)
    assert "gpu0_utilisation" not in look, "a figure that is not given is absent, not 0"


@pytest.mark.parametrize(
    ("bits", "says"),
    [
        (0x00, []),
        (0x01, []),
        (0x02, []),
        (0x04, ["gpu0 power cap"]),
        (0x60, ["gpu0 software thermal slowdown", "gpu0 hardware thermal slowdown"]),
    ],
)
def test_idle_and_chosen_clocks_are_no_throttling(bits: int, says: list[str]) -> None:
    assert Gpus(library(nvmlDeviceGetCurrentClocksThrottleReasons=lambda h: bits), {0: 0}).throttled() == says


def test_a_round_under_watch() -> None:
    energy, clocks = iter([1_000, 1_750]), iter([1860, 1200] + [1860] * 1000)
    answers = library(
        nvmlDeviceGetTotalEnergyConsumption=lambda h: next(energy),
        nvmlDeviceGetClockInfo=lambda h, kind: next(clocks) if kind == 1 else 7000,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda h: 0x08,
    )
    with Gpus(answers, {0: 0}).watch() as watch:
        time.sleep(0.45)
    assert watch.energy_j == 0.75
    assert watch.throttled == ["gpu0 hardware slowdown"]
    assert watch.lowest == {"gpu0_sm_clock_mhz": 1200.0, "gpu0_memory_clock_mhz": 7000.0}
    assert watch.highest["gpu0_power_w"] == 250.5
    assert not watch.lowest.keys() & watch.highest.keys()


def test_energy_that_is_not_reported_is_absent() -> None:
    def unsupported(handle: int) -> int:
        raise NotSupportedError

    with Gpus(library(nvmlDeviceGetTotalEnergyConsumption=unsupported), {0: 0}).watch() as watch:
        pass
    assert watch.energy_j is None


def test_a_library_that_fails_in_the_round_is_heard() -> None:
    def lost(handle: int) -> int:
        raise RuntimeError("GPU is lost")

    with (
        pytest.raises(TelemetryError, match="NVML failed during the round: GPU is lost"),
        Gpus(library(nvmlDeviceGetCurrentClocksThrottleReasons=lost), {0: 0}).watch(),
    ):
        time.sleep(0.25)


def test_the_cpu_needs_no_nvml() -> None:
    assert open_gpus("cpu") is None
