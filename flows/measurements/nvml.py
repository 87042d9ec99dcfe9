"""What NVML says of the GPUs: facts, clocks, power, temperature, energy, and why a GPU ran below its clocks.

Used where a CUDA device is asked for and nowhere else; there it is needed, never left out in silence. Its indices are the
machine's own: where CUDA_VISIBLE_DEVICES renumbers devices, the figures are those of the GPUs with the numbers asked for.
"""

import importlib
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

_PERIOD_S = 0.1  # between two looks during a round
# Bits of NVML's clocks-event reasons that mean "slower than it could be"; idle and a user's own clock setting do not.
_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


class TelemetryError(RuntimeError):
    """GPU figures were needed and cannot be had; says what is missing."""


def open_gpus(devices: str) -> "Gpus | None":
    """NVML's view of `cuda`, `cuda:0` or `cuda:0,1,...`; None for `cpu`. Raises TelemetryError."""
    if devices.partition(":")[0] != "cuda":
        return None
    try:
        pynvml: Any = importlib.import_module("pynvml")
    except ImportError as error:
        raise TelemetryError(f"devices {devices}: GPU figures need the package nvidia-ml-py (module pynvml): {error}") from error
    numbers = sorted({int(number) for number in (devices.partition(":")[2] or "0").split(",")})
    try:
        pynvml.nvmlInit()
        return Gpus(pynvml, {number: pynvml.nvmlDeviceGetHandleByIndex(number) for number in numbers})
    except pynvml.NVMLError as error:
        raise TelemetryError(f"devices {devices}: NVML: {error}") from error


class Gpus:
    """The GPUs of one measurement."""

    def __init__(self, library: Any, handles: dict[int, Any]) -> None:
        self._nvml = library
        self._handles = handles

    def facts(self) -> dict[str, Any]:
        """Model, memory and power limit of each GPU, in the order of their numbers, and the driver."""
        nvml, handles = self._nvml, self._handles.values()
        return {
            "gpus": [_text(nvml.nvmlDeviceGetName(h)) for h in handles],
            "gpu_memory_bytes": [nvml.nvmlDeviceGetMemoryInfo(h).total for h in handles],
            "gpu_power_limit_w": [nvml.nvmlDeviceGetEnforcedPowerLimit(h) / 1e3 for h in handles],
            "driver": _text(nvml.nvmlSystemGetDriverVersion()),
        }

    def look(self) -> dict[str, float]:
        """Clocks, power, temperature, utilisation and memory of each GPU now; a figure that a GPU does not give is absent."""
        nvml = self._nvml
        figures: dict[str, float] = {}
        for number, handle in self._handles.items():
            for name, read in self._readers().items():
                try:
                    figures[f"gpu{number}_{name}"] = float(read(handle))
                except nvml.NVMLError_NotSupported:
                    continue
        return figures

    def _readers(self) -> dict[str, Callable[[Any], float]]:
        nvml = self._nvml
        return {
            "sm_clock_mhz": lambda h: nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": lambda h: nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_MEM),
            "power_w": lambda h: nvml.nvmlDeviceGetPowerUsage(h) / 1e3,
            "temperature_c": lambda h: nvml.nvmlDeviceGetTemperature(h, nvml.NVML_TEMPERATURE_GPU),
            "utilisation": lambda h: nvml.nvmlDeviceGetUtilizationRates(h).gpu / 100,
            "memory_used_bytes": lambda h: nvml.nvmlDeviceGetMemoryInfo(h).used,
        }

    def energy_j(self) -> float | None:
        """Energy of all GPUs since their driver was loaded; None where one does not report it."""
        try:
            return float(sum(self._nvml.nvmlDeviceGetTotalEnergyConsumption(h) for h in self._handles.values())) / 1e3
        except self._nvml.NVMLError_NotSupported:
            return None

    def throttled(self) -> list[str]:
        """Why a GPU runs below its clocks now, such as "gpu0 power cap"."""
        found: list[str] = []
        for number, handle in self._handles.items():
            bits = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
            found.extend(f"gpu{number} {reason}" for bit, reason in _REASONS.items() if bits & bit)
        return found

    def watch(self) -> "Watch":
        """A context that looks at the GPUs while a round runs."""
        return Watch(self)

    def close(self) -> None:
        """Let go of NVML."""
        self._nvml.nvmlShutdown()


class Watch:
    """Looks ten times a second. Afterwards: `energy_j`, `throttled`, `lowest` of each clock, `highest` of all other figures."""

    def __init__(self, gpus: Gpus) -> None:
        self.energy_j: float | None = None
        self.throttled: list[str] = []
        self.lowest: dict[str, float] = {}
        self.highest: dict[str, float] = {}
        self._gpus = gpus
        self._before: float | None = None
        self._fault: Exception | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="paceline-nvml", daemon=True)

    def __enter__(self) -> Self:
        self._before = self._gpus.energy_j()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        after = self._gpus.energy_j()
        if self._before is not None and after is not None:
            self.energy_j = max(after - self._before, 0.0)
        if self._fault is not None and error is None:
            raise TelemetryError(f"NVML failed during the round: {self._fault}") from self._fault

    def _run(self) -> None:
        try:
            while not self._over.wait(_PERIOD_S):
                self.throttled.extend(reason for reason in self._gpus.throttled() if reason not in self.throttled)
                for name, value in self._gpus.look().items():
                    if name.endswith("_clock_mhz"):
                        self.lowest[name] = min(value, self.lowest.get(name, value))
                    else:
                        self.highest[name] = max(value, self.highest.get(name, value))
        except Exception as fault:  # raised again where the round ends
            self._fault = fault


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
