"""Before measuring: is the machine fit, and quiet? What is missing is waited for, then refused; noise is waited for, then told.

Everything is read from the kernel in a moment; nothing is left running beside a measurement.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from flows.checkpoints import GIB, memory_needed
from flows.parameters import ValidationParameters

BUSY = 0.2  # share of the cores that others may use
DISK_NEEDED = 1 * GIB
POLL_S = 10.0
_LOOK_S = 0.5  # over which the load is read
_GPU_USED = 0.1  # share of a GPU's memory that others may hold


class NotReadyError(RuntimeError):
    """The machine cannot measure that now. Says what is missing, how much there is and what frees it."""


@dataclass(frozen=True)
class Finding:
    """One thing that stands in the way. `fatal`: nothing can be measured; else what is measured would be noisy."""

    text: str
    fatal: bool


@dataclass(frozen=True)
class Wait:
    """How long to wait, and whom to tell."""

    minutes: float
    tell: Callable[[str], None]
    poll_s: float = POLL_S


def ready(parameters: ValidationParameters, folders: Sequence[Path], wait: Wait) -> list[str]:
    """Return once the machine is fit and quiet; else, at the end of the wait, with what disturbs. Raises NotReadyError."""
    deadline = time.monotonic() + 60 * wait.minutes
    told: list[str] = []
    while findings := look(parameters, folders):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        texts = [finding.text.partition(":")[0] for finding in findings]
        if texts != told:
            wait.tell(f"waiting up to {left_s / 60:.0f} min: " + "; ".join(finding.text for finding in findings))
            told = texts
        time.sleep(min(wait.poll_s, left_s))
    fatal = [finding.text for finding in findings if finding.fatal]
    if fatal:
        waited = f" after {wait.minutes:g} minutes of waiting" if wait.minutes else ""
        raise NotReadyError(f"not ready to measure{waited}: {'; '.join(fatal)}")
    return [f"The machine was not quiet: {finding.text}." for finding in findings]


def look(parameters: ValidationParameters, folders: Sequence[Path]) -> list[Finding]:
    """Everything that stands in the way now."""
    found = [_memory(parameters.checkpoint), *(_disk(folder) for folder in folders), _gpu(parameters.devices), _load()]
    found.append(_governor(Path("/sys/devices/system/cpu")) if parameters.devices == "cpu" else None)
    return [finding for finding in found if finding is not None]


def _memory(checkpoint: str) -> Finding | None:
    available, needed = psutil.virtual_memory().available, memory_needed(checkpoint)
    if available >= needed:
        return None
    return Finding(
        f"memory: {checkpoint} needs {needed / GIB:.1f} GiB and {available / GIB:.1f} GiB are available: end what uses it, "
        "or choose a smaller checkpoint",
        True,
    )


def _disk(folder: Path) -> Finding | None:
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free >= DISK_NEEDED:
        return None
    return Finding(f"disk: {folder}: {free / GIB:.1f} GiB free, {DISK_NEEDED / GIB:.0f} needed: make room there", True)


def _load() -> Finding | None:
    """What the cores did in the last moment: the load average would still show our own build."""
    busy = psutil.cpu_percent(_LOOK_S) / 100
    if busy <= BUSY:
        return None
    top = _busiest()
    named = f" (most by {top})" if top else ""
    return Finding(f"load: other processes use {busy:.0%} of the cores{named}, {BUSY:.0%} are borne", False)


def _busiest() -> str:
    """Name and id of the process that has used most of the processor lately, for people."""
    before = {process.pid: sum(process.cpu_times()[:2]) for process in psutil.process_iter() if _readable(process)}
    time.sleep(_LOOK_S)
    used: dict[int, float] = {}
    for process in psutil.process_iter():
        if process.pid in before and _readable(process):
            used[process.pid] = sum(process.cpu_times()[:2]) - before[process.pid]
    pid = max(used, key=lambda key: used[key], default=0)
    try:
        return f"{psutil.Process(pid).name()}, process {pid}" if used.get(pid, 0) > 0 else ""
    except psutil.Error:
        return ""


def _readable(process: psutil.Process) -> bool:
    try:
        process.cpu_times()
    except psutil.Error:
        return False
    return True


def _governor(cpus: Path) -> Finding | None:
    """Cores whose clock follows the load: measurable, but a run's first rounds are slower than its last."""
    names = {path.read_text(encoding="utf-8").strip() for path in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    slow = sorted(names - {"performance"})
    if not slow:
        return None
    return Finding(f"governor: the cores run under {', '.join(slow)}: sudo cpupower frequency-set -g performance", False)


def _gpu(devices: str) -> Finding | None:
    """Memory that others hold on the devices asked for."""
    if devices == "cpu":
        return None
    from flows.measurements.nvml import TelemetryError, open_gpus

    try:
        gpus = open_gpus(devices)
    except TelemetryError as error:
        return Finding(f"gpu: {error}", True)
    if gpus is None:
        return None
    try:
        totals, seen = gpus.facts()["gpu_memory_bytes"], gpus.look()
    finally:
        gpus.close()
    used = {name.partition("_")[0]: value for name, value in seen.items() if name.endswith("_memory_used_bytes")}
    held = {gpu: value / total for (gpu, value), total in zip(used.items(), totals, strict=False) if value > _GPU_USED * total}
    if not held:
        return None
    text = ", ".join(f"{gpu} {share:.0%}" for gpu, share in held.items())
    return Finding(f"gpu: other processes hold its memory ({text}): nvidia-smi names them", True)
