"""Frames made ready to draw: the columns a chart needs are there, numbers are numbers, and what cannot be drawn is null."""

import math
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

SHORT = 7  # characters of a commit's name on an axis


class FrameError(ValueError):
    """A frame without a column its chart needs. The message names chart, column and the columns found."""


def ready(frame: pd.DataFrame, chart: str, text: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    """The named columns only, copied: text as str (None where absent), numbers as float (NaN for absent and infinite).

    Raises FrameError when a column is missing.
    """
    missing = [name for name in (*text, *numbers) if name not in frame.columns]
    if missing:
        raise FrameError(f"chart {chart}: column {missing[0]!r} is missing; found {list(frame.columns)}")
    out = pd.DataFrame(index=range(len(frame)))
    for name in text:
        out[name] = pd.Series([None if _absent(value) else str(value) for value in frame[name]], dtype=object)
    for name in numbers:
        values = pd.to_numeric(frame[name], errors="coerce").astype(float).to_numpy()
        out[name] = np.where(np.isfinite(values), values, np.nan)
    return out


def inline(frame: pd.DataFrame) -> alt.InlineData:
    """The rows as strict JSON values inside the chart: null for what is absent, five significant digits."""
    columns = {str(name): [_value(value) for value in frame[name]] for name in frame.columns}
    return alt.InlineData(values=[dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])


def optional(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The frame with each named column, empty where the source has none."""
    absent = {name: pd.Series([None] * len(frame), index=frame.index, dtype=object) for name in names if name not in frame.columns}
    return frame.assign(**absent) if absent else frame


def verdict_names(values: pd.Series) -> pd.Series:
    """Verdicts in the words of the charts: a row that has none stands for a level without a target."""
    return values.map(lambda value: "NO TARGET" if _absent(value) or value == "" else str(value).upper())


def short_commit(commit: str | None) -> str:
    """First characters of a commit's name, as people write it."""
    return "unknown" if not commit else commit if commit == "unknown" else commit[:SHORT]


def level_label(level: float) -> str:
    """'1 alone', '8 at once'."""
    return "1 alone" if int(level) == 1 else f"{int(level)} at once"


def metric_label(metric: str | None) -> str:
    """The ratio's name for readers; other metrics keep theirs."""
    return {"single_latency_ratio": "latency ratio", "speedup_vs_serial": "speed-up"}.get(metric or "", metric or "")


def figure(value: float | None, digits: int = 3) -> str:
    """'1.002', '0.0123', '—' for what is absent: `digits` after the point near 1, fewer for large values."""
    if value is None or not math.isfinite(value):
        return "—"
    size = abs(value)
    places = digits if size < 10 else max(digits - 1, 0) if size < 100 else max(digits - 2, 0)
    return f"{value:.{places}f}" if size >= 0.01 or size == 0 else f"{value:.{digits}g}"


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """'0.991 to 1.013', empty without an interval."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"{figure(low, digits)} to {figure(high, digits)}"


def listing(parts: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1] if parts else ""


def _value(value: object) -> str | float | int | bool | None:
    if _absent(value):
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | float | np.number):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < 1e15 else float(f"{number:.5g}")
    return str(value)


def _absent(value: object) -> bool:
    return value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float | np.floating) and not math.isfinite(value))
