"""What a target may be set on: each metric of the store with its unit, the leg it describes and which way is better."""

import re
from dataclasses import dataclass
from typing import Literal

Leg = Literal["ratio", "batch", "serial"]
Direction = Literal[">=", "<="]

RATIO_UNIT = "x"
_SECONDS = re.compile(r"(ttft|tpot|itl|e2el)(_(mean|p50|p90|p95|p99|max))?_s")
_LOADS = (2, None)  # a speedup needs company
_LONE = (1, 1)


@dataclass(frozen=True)
class Metric:
    """A metric's unit, its better direction, its leg by default, and the lowest and highest level where it exists."""

    name: str
    unit: str
    better: Direction
    leg: Leg
    levels: tuple[int, int | None] = (1, None)

    def exists_at(self, level: int) -> bool:
        low, high = self.levels
        return level >= low and (high is None or level <= high)


_NAMED = {
    metric.name: metric
    for metric in (
        Metric("speedup_vs_serial", RATIO_UNIT, ">=", "ratio", _LOADS),
        Metric("scaling_efficiency", "fraction", ">=", "ratio", _LOADS),
        Metric("single_latency_ratio", RATIO_UNIT, "<=", "ratio", _LONE),
        Metric("single_ttft_ratio", RATIO_UNIT, "<=", "ratio", _LONE),
        Metric("request_throughput", "req/s", ">=", "batch"),
        Metric("output_throughput", "tok/s", ">=", "batch"),
        Metric("finish_spread_s", "s", "<=", "batch"),
        Metric("joules_per_token", "J/token", "<=", "batch"),
        Metric("bandwidth_fraction", "fraction", ">=", "batch"),
    )
}


def find_metric(name: str) -> Metric | None:
    """The metric of that name, or None. Times may carry a statistic before the unit: `tpot_p99_s`."""
    if name in _NAMED:
        return _NAMED[name]
    if _SECONDS.fullmatch(name):
        return Metric(name, "s", "<=", "batch")
    return None


def known_metrics() -> str:
    """For messages: what a target may name."""
    return ", ".join([*_NAMED, "ttft_s, tpot_s, itl_s, e2el_s (or with a statistic: tpot_p99_s)"])
