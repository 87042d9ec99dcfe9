"""A long history made short enough to send, honestly: what a reader would look for is always kept, and what went is counted."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

KEYS = ["series", "level", "metric"]


@dataclass(frozen=True)
class Thinned:
    """The rows kept, in their order, and how many were left out."""

    frame: pd.DataFrame
    dropped: int

    def remark(self) -> str:
        """One sentence on what is missing, empty where nothing is."""
        if not self.dropped:
            return ""
        kept = "the newest nights, every change point, change of verdict and failure, and the extremes of each stretch are kept"
        return f"{self.dropped} older points are left out; {kept}."


def thin(history: pd.DataFrame, points: int = 6000, newest: int = 60) -> Thinned:
    """At most about `points` rows over all lines (a line: series, level, metric), each line's `newest` first of all.

    Kept whatever the budget: first and newest points, changes of verdict (both sides), rows without a ratio, without a place,
    or with a change point. The rest of the budget goes to the smallest and largest of equal stretches.
    """
    if len(history) <= points:
        return Thinned(history, 0)
    ordered = history.reset_index(drop=True)
    lines = list(ordered.groupby(KEYS, sort=False, dropna=False).indices.values())
    budget = max(points // max(len(lines), 1), 20)
    keep = np.zeros(len(ordered), dtype=bool)
    for rows in lines:
        line = ordered.iloc[rows].sort_values(["commit_position", "run_id"], kind="stable", na_position="last")
        keep[line.index[_kept(line, budget, min(newest, budget // 2))]] = True
    return Thinned(history[keep], int((~keep).sum()))


def _kept(line: pd.DataFrame, budget: int, newest: int) -> np.ndarray:
    """Which rows of one ordered line stay, as a mask."""
    count = len(line)
    keep = line["ratio"].isna().to_numpy() | line["commit_position"].isna().to_numpy()
    if "change" in line.columns:
        keep |= line["change"].notna().to_numpy()
    keep[[0]] = True
    keep[max(count - newest, 0) :] = True
    verdict = line["verdict"].fillna("").to_numpy()
    turns = np.flatnonzero(verdict[1:] != verdict[:-1])
    if len(turns) <= budget:  # a series that turns every night has no turns worth naming
        keep[turns] = keep[turns + 1] = True
    stretches = max((budget - int(keep.sum())) // 2, 4)
    ratios = line["ratio"].to_numpy(dtype=float)
    for part in np.array_split(np.flatnonzero(~keep), stretches):
        if len(part):
            keep[[part[np.nanargmin(ratios[part])], part[np.nanargmax(ratios[part])]]] = True
    return keep
