"""Histories of ratios as `storage.queries.ratio_history` returns them, of any length, from a seed."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

TARGETS: dict[int, tuple[str, str | None, float | None]] = {
    1: ("single_latency_ratio", "<=", 1.05),
    2: ("speedup_vs_serial", ">=", 1.7),
    4: ("speedup_vs_serial", ">=", 3.0),
    8: ("speedup_vs_serial", ">=", 4.5),
    16: ("speedup_vs_serial", None, None),
}
MEANS = {1: 1.003, 2: 1.86, 4: 3.25, 8: 4.6, 16: 7.0}


@dataclass(frozen=True)
class Shape:
    """What a history has beside points: a gap in the middle, every n-th night broken, the last commit without a place."""

    gap: int = 0  # commits not measured in the middle
    broken_every: int = 0
    stray: bool = False
    levels: tuple[int, ...] = (1, 2, 4, 8)


def history(nights: int, series: int = 1, seed: int = 0, shape: Shape | None = None) -> pd.DataFrame:
    """`nights` commits with a run each, in each of `series` series; the ratios step up by 6 % after 60 % of the nights."""
    shape = shape or Shape()
    noise = np.random.default_rng(seed)
    rows = [
        _row(night, nights, f"machine {number:02d}", level, noise, shape)
        for number in range(series)
        for night in range(nights)
        for level in shape.levels
    ]
    return pd.DataFrame(rows)


def _row(night: int, nights: int, series: str, level: int, noise: np.random.Generator, shape: Shape) -> dict[str, Any]:
    metric, direction, target = TARGETS[level]
    commit = hashlib.sha1(f"night {night}".encode(), usedforsecurity=False).hexdigest()
    position = float(night + 1 + (shape.gap if night >= nights / 2 else 0))
    stray = shape.stray and night == nights - 1
    day = pd.Timestamp("2026-01-01T02:00:00") + pd.Timedelta(days=night)
    row: dict[str, Any] = {
        "run_id": f"{day:%Y%m%dT%H%M%SZ}-{night:06x}",
        "commit": commit,
        "commit_position": np.nan if stray else position,
        "committed_at": day,
        "series": series,
        "workload": "report",
        "level": level,
        "metric": metric,
        "placement": "uncommitted changes" if stray else "placed",
        "target": target,
        "direction": direction,
        "pairs": 5,
    }
    if shape.broken_every and night % shape.broken_every == shape.broken_every - 1:
        return row | {"ratio": np.nan, "low": np.nan, "high": np.nan, "verdict": "ERROR"}
    step = 1.06 if level > 1 and night >= 0.6 * nights else 1.0
    ratio = MEANS[level] * step * float(np.exp(noise.normal(0, 0.012)))
    low, high = ratio * 0.985, ratio * 1.015
    return row | {"ratio": ratio, "low": low, "high": high, "verdict": _verdict(direction, target, low, high)}


def _verdict(direction: str | None, target: float | None, low: float, high: float) -> str | None:
    if target is None:
        return None
    good, bad = (high <= target, low > target) if direction == "<=" else (low >= target, high < target)
    return "PASS" if good else "FAIL" if bad else "INCONCLUSIVE"
