"""The options of a session and of one request, checked when they are made and frozen from then on."""

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from engine.errors import ConfigError

Mode = Literal["serial", "batch"]
MODES: tuple[str, ...] = get_args(Mode)
MOST_RANKS = 64
_DEVICES = re.compile(r"cpu|cuda(:\d+(,\d+)*)?")  # lists have no engine yet, see device


@dataclass(frozen=True)
class SessionOptions:
    """How a model is served.

    Raises ConfigError, naming field, value and what is allowed, when a value is outside its range.
    """

    mode: Mode
    tp: int = 1  # ranks that share each layer
    slots: int = 8  # requests that can run at once; serial mode runs one whatever stands here
    context: int = 512  # positions a slot can hold: prompt + new tokens
    threads: int = 0  # over all ranks; 0: what affinity mask and cgroup quota allow
    devices: str = "cpu"  # "cpu", "cuda" or "cuda:0,1,..."
    isa: str = "auto"  # CPU kernel path; "auto": the widest that this CPU runs
    prefill_rows: int = 256  # rows of one prefill step
    queue_limit: int = 4096  # waiting requests beyond which submit refuses

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"option mode: found {self.mode!r}; allowed: {', '.join(MODES)}")
        for name, low, high in _RANGES:
            _check_int(f"option {name}", getattr(self, name), low, high)
        if not isinstance(self.devices, str) or not _DEVICES.fullmatch(self.devices):
            raise ConfigError(
                f"option devices: found {self.devices!r}; allowed: cpu, cuda, or cuda:0,1,... with one number a rank"
            )
        if not isinstance(self.isa, str) or not self.isa:
            raise ConfigError(
                f"option isa: found {self.isa!r}; allowed: auto, or the name of a kernel path that build_info() lists"
            )

    @property
    def device(self) -> str:
        """The one device, as the native engine names it: `cuda` means `cuda:0`. Raises ConfigError where several are named."""
        if "," in self.devices:
            numbers = self.devices.partition(":")[2].split(",")
            what = "several ranks on one GPU" if len(set(numbers)) < len(numbers) else "several GPUs"
            raise ConfigError(
                f"option devices: found {self.devices!r}: tensor parallelism over {what} has not landed yet; "
                f"allowed: cpu, or one device, as in cuda:{numbers[0]}"
            )
        return "cuda:0" if self.devices == "cuda" else self.devices

    @property
    def running_limit(self) -> int:
        """Requests that run at once: `slots` in batch mode, one in serial mode."""
        return 1 if self.mode == "serial" else self.slots


@dataclass(frozen=True)
class Sampling:
    """Seeded sampling of one request; its tokens are the same alone and in any batch. Temperature 0 is greedy.

    Raises ConfigError for a value outside its range.
    """

    temperature: float = 1.0
    top_k: int = 0  # 0: no limit
    top_p: float = 1.0  # share of probability kept, in (0, 1]
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= 100.0:
            raise ConfigError(f"sampling temperature: found {self.temperature!r}; allowed: 0 (greedy) to 100")
        if not 0.0 < self.top_p <= 1.0:
            raise ConfigError(f"sampling top_p: found {self.top_p!r}; allowed: above 0, at most 1")
        _check_int("sampling top_k", self.top_k, 0, 1 << 30)
        _check_int("sampling seed", self.seed, 0, (1 << 63) - 1)


_RANGES = (
    ("tp", 1, MOST_RANKS),
    ("slots", 1, 1024),
    ("context", 2, 1 << 20),
    ("threads", 0, 4096),
    ("prefill_rows", 1, 8192),
    ("queue_limit", 1, 1_000_000),
)


def _check_int(what: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{what}: found {value!r}; allowed: a whole number from {low} to {high}")
