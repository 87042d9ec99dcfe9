"""What the machine is and how busy it was: facts once, a look before and after.

Everything comes from /proc, /sys and psutil; GPU figures from NVML (`nvml.py`), and only where a CUDA device is asked for.
"""

import hashlib
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

PACKAGES = ("paceline", "numpy", "pydantic", "psutil")
MOST_STOLEN = 0.03  # of all processors' time: ranks wait for the slowest, so 3 % cost a step 15 %; a calm machine loses under 1 %
_SHORTEST_WINDOW_S = 0.5  # the kernel counts stolen time in hundredths of a second
_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")
# What makes a series, of the machine's facts: a change of any starts a new one.
_SERIES = ("cpu_model", "cores", "usable_cores", "quota", "memory_gib", "compiler", "flags", "gpus", "driver")


def machine_facts(build: Mapping[str, Any], gpus: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The machine and the compiler. `build` is the build's own description; `gpus` what NVML says, for CUDA devices."""
    memory = psutil.virtual_memory().total
    facts: dict[str, Any] = {
        "cpu_model": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "quota": cgroup_quota(),
        "memory_bytes": memory,
        "memory_gib": round(memory / 2**30),  # the kernel's own share differs from boot to boot
        "memory_limit_bytes": cgroup_memory_limit(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "caches": caches(),
        "governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")) or None,
        "huge_pages": _read(Path("/sys/kernel/mm/transparent_hugepage/enabled")) or None,
        "compiler": build.get("compiler"),
        "flags": build.get("flags"),
    }
    return facts | dict(gpus or {})


def fingerprint(facts: Mapping[str, Any]) -> str:
    """16 hex digits that differ between two series: CPU or GPU model and count, driver, memory, compiler, flags."""
    chosen = {name: facts.get(name) for name in _SERIES}
    chosen["flags"] = [flag for flag in str(facts.get("flags") or "").split() if "-prefix-map=" not in flag]  # names a folder
    return hashlib.sha256(json.dumps(chosen, sort_keys=True, default=str).encode()).hexdigest()[:16]


def package_versions(names: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of Python and of what a measuring process loads. A package that is not installed is absent."""
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def look() -> dict[str, float]:
    """How busy the machine and this process are now. A figure that the machine does not give is absent."""
    me = psutil.Process()
    figures: dict[str, float] = {
        "load_1m": os.getloadavg()[0],
        "available_memory_bytes": float(psutil.virtual_memory().available),
        "processes": float(len(psutil.pids())),
        "threads": float(_all_threads()),
        "own_threads": float(me.num_threads()),
        "own_children": float(len(me.children(recursive=True))),
        "own_memory_bytes": float(me.memory_info().rss),
    }
    mhz = cpu_mhz()
    return figures if mhz is None else figures | {"cpu_mhz": mhz}


@dataclass(frozen=True)
class StolenTime:
    """CPU time that the machine's host gave to others: since the machine started, and when that was read (seconds)."""

    stolen_s: float | None
    at_s: float

    @classmethod
    def now(cls) -> "StolenTime":
        """Read it."""
        return cls(getattr(psutil.cpu_times(), "steal", None), time.monotonic())

    def since(self, before: "StolenTime") -> dict[str, float]:
        """`stolen_cpu_s`, and `stolen_cpu_fraction` of all processors' time; nothing where uncounted or the time too short."""
        seconds = self.at_s - before.at_s
        if self.stolen_s is None or before.stolen_s is None or seconds < _SHORTEST_WINDOW_S:
            return {}
        stolen = self.stolen_s - before.stolen_s
        return {"stolen_cpu_s": stolen, "stolen_cpu_fraction": stolen / (seconds * (psutil.cpu_count() or 1))}


def stolen_faults(figures: Mapping[str, float]) -> list[str]:
    """Why figures taken while the host gave the processors to others must not be used; empty where it hardly did."""
    fraction = figures.get("stolen_cpu_fraction", 0.0)
    if fraction <= MOST_STOLEN:
        return []
    return [f"host: {fraction:.1%} of the processors' time went to other guests, must be {MOST_STOLEN:.0%} at most"]


def cpu_model() -> str:
    """The first processor's name, as the kernel has it."""
    for line in _read(_PROC / "cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.processor() or platform.machine()


def cpu_mhz() -> float | None:
    """Mean clock of the processors this process may use; None where the kernel does not tell."""
    usable = os.sched_getaffinity(0)
    clocks: list[float] = []
    processor = -1
    for line in _read(_PROC / "cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "processor":
            processor = int(value)
        elif name.strip() == "cpu MHz" and processor in usable:
            clocks.append(float(value))
    return sum(clocks) / len(clocks) if clocks else None


def cgroup_quota() -> float | None:
    """Processors' worth of time this process's cgroups allow, the tightest of them; None where there is no limit."""
    limits = []
    for folder in _cgroup_folders("cpu"):
        words = _read(folder / "cpu.max").split()  # version 2: "max 100000" or "50000 100000"
        if len(words) == 2 and words[0] != "max":
            limits.append(int(words[0]) / int(words[1]))
        quota, period = _read(folder / "cpu.cfs_quota_us", "-1"), _read(folder / "cpu.cfs_period_us", "0")  # version 1
        if int(quota) > 0 and int(period) > 0:
            limits.append(int(quota) / int(period))
    return min(limits) if limits else None


def cgroup_memory_limit() -> int | None:
    """Bytes this process's cgroups allow, the tightest of them; None where there is no limit below the machine's memory."""
    limits = []
    for folder in _cgroup_folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read(folder / name, "max")
            if text != "max":
                limits.append(int(text))
    tightest = min(limits, default=psutil.virtual_memory().total)
    return tightest if tightest < psutil.virtual_memory().total else None


def caches() -> dict[str, str]:
    """Sizes of the first processor's caches, such as {"L2": "2048K"}."""
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind = _read(folder / "level"), _read(folder / "type")
        name = f"L{level}" + {"Data": "d", "Instruction": "i"}.get(kind, "")
        size = _read(folder / "size")
        if level and size:
            found[name] = size
    return found


def _cgroup_folders(controller: str) -> list[Path]:
    """The folders of this process's cgroup and of those above it, in version 2's tree or the controller's own of version 1."""
    folders: list[Path] = []
    for line in _read(_PROC / "self" / "cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        mounts = [_CGROUP, _CGROUP / "unified"] if not names else [_CGROUP / controller, _CGROUP / names]
        for mount in mounts:
            folder = mount / path.lstrip("/")
            folders.extend(f for f in (folder, *folder.parents) if f.is_relative_to(mount) and f.is_dir())
    return folders


def _all_threads() -> int:
    """Threads of the whole machine: the kernel's own count of what it schedules."""
    return int(_read(_PROC / "loadavg", "0 0 0 0/0 0").split()[3].partition("/")[2])


def _read(path: Path, default: str = "") -> str:
    """The file's text without the line end; the default where the machine does not have it."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return default
