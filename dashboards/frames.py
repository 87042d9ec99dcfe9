"""Frames made ready to draw: the columns a chart needs are there, numbers are numbers, and what cannot be drawn is null."""

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

SHORT = 7  # characters of a commit's name on an axis
WIDE = 4  # an interval that reaches further than this factor to both sides is told as such and drawn no further


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
        out[name] = pd.Series([None if absent(value) else str(value) for value in frame[name]], dtype=object)
    for name in numbers:
        values = pd.to_numeric(frame[name], errors="coerce").astype(float).to_numpy()
        out[name] = np.where(np.isfinite(values), values, np.nan)
    return out


def inline(frame: pd.DataFrame) -> alt.InlineData:
    """The rows inside the chart, as CSV with the kind of each column: null for what is absent, five significant digits.

    A third of the size of JSON rows, and Altair neither copies nor checks it row by row.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(frame.columns)
    writer.writerows(zip(*([_value(value) for value in frame[name]] for name in frame.columns), strict=True))
    return alt.InlineData(values=text.getvalue(), format=alt.CsvDataFormat(type="csv", parse=_kinds(frame)))


def _kinds(frame: pd.DataFrame) -> dict[str, str]:
    def kind(column: pd.Series) -> str:
        return "boolean" if column.dtype == bool else "number" if pd.api.types.is_numeric_dtype(column) else "string"

    return {str(name): kind(frame[name]) for name in frame.columns}


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as dictionaries."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def optional(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The frame with each named column, empty where the source has none."""
    nothing = pd.Series([None] * len(frame), index=frame.index, dtype=object)
    return frame.assign(**{name: nothing for name in names if name not in frame.columns})


def verdict_names(values: pd.Series) -> pd.Series:
    """Verdicts in the words of the charts: a row that has none stands for a level without a target."""
    return values.map(lambda value: "NO TARGET" if absent(value) or value == "" else str(value).upper())


def short_commit(commit: str | None) -> str:
    """First characters of a commit's name, as people write it."""
    return "unknown" if not commit else commit if commit == "unknown" else commit[:SHORT]


def level_label(level: float) -> str:
    """'1 alone', '8 at once'."""
    return "1 alone" if int(level) == 1 else f"{int(level)} at once"


def metric_label(metric: str | None) -> str:
    """The ratio's name for readers; other metrics keep theirs."""
    return {"single_latency_ratio": "latency ratio", "speedup_vs_serial": "speed-up"}.get(metric or "", metric or "")


def ratio_names(frame: pd.DataFrame) -> list[str]:
    """'8 at once: speed-up' for each row's level and metric."""
    pairs = zip(frame["level"], frame["metric"], strict=True)
    return [f"{level_label(level)}: {metric_label(metric)}" for level, metric in pairs]


def count(number: int, noun: str) -> str:
    """'1 commit', '2 commits'."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def figure(value: float | None, digits: int = 3) -> str:
    """'1.002', '0.0123', '—' for what is absent: `digits` after the point near 1, fewer for large values."""
    if value is None or not math.isfinite(value):
        return "—"
    size = abs(value)
    places = digits if size < 10 else max(digits - 1, 0) if size < 100 else max(digits - 2, 0)
    return f"{value:.{places}f}" if size >= 0.01 or size == 0 else f"{value:.{digits}g}"


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """'0.991 to 1.013', 'beyond 4x either way', empty without an interval."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    if high > WIDE**2 * low >= 0:
        return f"beyond {WIDE}x either way"
    return f"{figure(low, digits)} to {figure(high, digits)}"


def drawable(ratio: pd.Series, low: pd.Series, high: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Ends of intervals as they are drawn: no further than WIDE times from the ratio, so that no axis is stretched by one."""
    return low.clip(lower=ratio / WIDE), high.clip(upper=ratio * WIDE)


def listing(parts: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1] if parts else ""


def _value(value: object) -> str:
    if absent(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | float | np.number):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else f"{number:.5g}"
    return str(value)


def absent(value: object) -> bool:
    """None, NaN, infinite, NaT or NA: what a chart and a table leave out."""
    if isinstance(value, float | np.floating):
        return not math.isfinite(value)
    return value is None or value is pd.NaT or value is pd.NA
