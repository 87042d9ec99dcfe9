"""What a run measured beside its pairs, as a table: parity, the reference, occupancy, idling, build order, steady state."""

from pathlib import Path

import pandas as pd

from dashboards import frames
from dashboards.pages import Cell, Grid
from storage import queries
from storage.figures import SHOWN


def beside_grid(snapshot: Path, run_id: str) -> Grid:
    """One row a measurement, attempts apart, with its figures or the reason why it has none that count."""
    figures = queries.other_figures(snapshot, run_id)
    rows: list[list[Cell]] = []
    for _, group in figures.groupby(["kind", "measurement", "attempt", "record_id"], sort=False):
        first = group.iloc[0]
        told = _figures(str(first["kind"]), group)
        reason = "" if frames.absent(first["reason"]) else str(first["reason"])
        rows.append([str(first["measurement"]), str(int(first["attempt"])), str(first["status"]), told, reason])
    columns = ["measurement", "attempt", "status", "figures", "why"]
    caption = "Measured beside the pairs: figures with the unit at the end of their name"
    return Grid("beside", caption, columns, rows, frozenset({1}), "Nothing was measured beside the pairs.", "Beside the pairs")


def _figures(kind: str, group: pd.DataFrame) -> str:
    values = {str(name): float(value) for name, value in zip(group["name"], group["value"], strict=True) if isinstance(name, str)}
    return ", ".join(f"{name} {values[name]:.6g}" for name in SHOWN.get(kind, tuple(sorted(values))) if name in values)
