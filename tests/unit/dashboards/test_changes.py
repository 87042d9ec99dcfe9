"""Change points at their commits, and commits that could not be built, on the trend."""

from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dashboards import changes
from dashboards.charts.ratio_trend import ratio_trend

FAILURE = "a.cc:1: error: no\nmake: *** [all] 1"


def told(history: pd.DataFrame, good: int, bad: int, **other: Any) -> dict[str, Any]:
    """A change of the level of 8 between two nights."""
    line = history[history["level"] == 8].reset_index(drop=True)
    row: dict[str, Any] = {name: line.loc[bad, name] for name in ("series", "workload", "metric", "level", "run_id")}
    row |= {"good": line.loc[good, "commit"], "bad": line.loc[bad, "commit"], "good_position": good + 1, "bad_position": bad + 1}
    return row | {"step": 1.06, "low": 1.05, "high": 1.07, "p": 1e-6} | other


def failed(*positions: float) -> pd.DataFrame:
    commits = [f"{number:040x}" for number in range(len(positions))]
    when = pd.Timestamp("2026-02-01T02:00:00")
    return pd.DataFrame({"commit": commits, "position": list(positions), "asked_at": when, "failure": FAILURE})


def test_a_change_stands_at_the_first_commit_after_it(history_maker: ModuleType) -> None:
    history = history_maker.history(20)
    marked = changes.marked(history, pd.DataFrame([told(history, 11, 13), told(history, 11, 13, run_id="later")]))
    row = marked[marked["change"].notna()]
    assert len(row) == 1, "told twice, marked once"
    assert (row["level"].iloc[0], row["commit_position"].iloc[0], row["change_from"].iloc[0]) == (8, 14, 12)
    assert row["change"].iloc[0].startswith("+6.0 % (+5.0 % to +7.0 %) between ")
    assert "Change of 8 at once: speed-up at" in str(ratio_trend(marked).description)


def test_nothing_told_leaves_the_history_as_it_is(history_maker: ModuleType) -> None:
    history = history_maker.history(3)
    assert changes.marked(history, pd.DataFrame([told(history, 0, 1)]).iloc[:0])["change"].isna().all()


def test_the_table_of_changes_names_the_range(history_maker: ModuleType) -> None:
    history = history_maker.history(20)
    grid = changes.grid(pd.DataFrame([told(history, 11, 13)]), {}, "https://git.example/{commit}")
    row = grid.rows[0]
    assert row[1] == "+6.0 % (+5.0 % to +7.0 %)"
    assert [cell["href"].startswith("https://git.example/") for cell in (row[2], row[3]) if isinstance(cell, dict)] == [
        True,
        True,
    ]
    assert row[4] == "2"


def test_failed_builds_are_drawn_in_their_place_and_named(history_maker: ModuleType) -> None:
    chart = ratio_trend(history_maker.history(20), failed(25.0, np.nan))
    text = str(chart.description)
    assert "2 commits could not be built, marked ✕: 0000000 (a.cc:1: error: no)." in text
    assert "build failed" in str(chart.to_dict())


@pytest.mark.parametrize("positions", [(), (3.0,)])
def test_a_store_of_failed_builds_alone_says_so(no_history: pd.DataFrame, positions: tuple[float, ...]) -> None:
    text = str(ratio_trend(no_history, failed(*positions)).description)
    assert text.startswith("The trend begins with the first run.")
    assert ("could not be built" in text) == bool(positions)
