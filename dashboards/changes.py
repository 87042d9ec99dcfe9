"""Change points of the trend as the store was told of them: words, the points they stand at, and the table."""

from typing import Any

import pandas as pd

from dashboards import frames
from dashboards.pages import Cell, Grid, commit_cell

LINE = ["series", "workload", "metric", "level"]


def marked(history: pd.DataFrame, told: pd.DataFrame) -> pd.DataFrame:
    """The history (`queries.ratio_history`) with change (words), step (new level / old level) and change_from (place of the last
    measured commit before it) at the newest run of each commit from which a ratio is another one; null elsewhere.

    told: `queries.change_points`. A change told of twice is marked once.
    """
    nothing = pd.Series([None] * len(history), index=history.index, dtype=object)
    out = history.assign(change=nothing, step=float("nan"), change_from=float("nan"))
    places = history.dropna(subset=["commit_position"]).drop_duplicates("commit").set_index("commit")["commit_position"]
    for row in frames.rows(_once(told)):
        at = (history[LINE] == pd.Series({name: row[name] for name in LINE})).all(axis=1) & (history["commit"] == row["bad"])
        if at.any():
            newest = history.loc[at, "run_id"].idxmax()
            out.loc[newest, "change"] = f"{in_words(row)} between {_short(row['good'])} and {_short(row['bad'])}"
            out.loc[newest, "step"] = float(row["step"])
            out.loc[newest, "change_from"] = float(places.get(row["good"], row["good_position"]))
    return out


def in_words(row: dict[str, Any]) -> str:
    """'+6.0 % (+4.8 % to +7.2 %)'."""
    return f"{percent(row['step'])} ({percent(row['low'])} to {percent(row['high'])})"


def percent(step: float) -> str:
    """'+6.0 %' for a step of 1.06."""
    return f"{100 * (step - 1):+.1f} %"


def grid(told: pd.DataFrame, names: dict[str, str], commit_url: str | None) -> Grid:
    """Every change that was told of, newest first, with the commits between which it lies."""
    rows: list[list[Cell]] = [
        [
            f"{frames.level_label(row['level'])}: {frames.metric_label(row['metric'])}",
            in_words(row),
            commit_cell(row["good"], commit_url),
            commit_cell(row["bad"], commit_url),
            str(int(row["bad_position"] - row["good_position"])),
            names.get(str(row["series"]), str(row["series"])),
        ]
        for row in frames.rows(_once(told).sort_values(["bad_position", "level"], ascending=[False, True], kind="stable"))
    ]
    columns = ["ratio of", "change", "last before", "first after", "commits", "series"]
    caption = "Ratios that are other ones than before: by how much, and the range of commits that can have done it"
    return Grid("changes", caption, columns, rows, frozenset({4}), "No change was found.", "Changes")


def _once(told: pd.DataFrame) -> pd.DataFrame:
    return told.drop_duplicates([*LINE, "bad"], keep="last") if len(told) else told


def _short(commit: Any) -> str:
    return frames.short_commit(str(commit))
