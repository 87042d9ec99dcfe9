"""Pages of many series: whose a figure is, what is folded, and where to find what is not drawn."""

from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from dashboards import overview, series_names
from dashboards.charts import trend_frame


def verdicts(series: int, failing: int) -> pd.DataFrame:
    """A verdict of each of `series` series; that of number `failing` is FAIL."""
    rows = [
        {"series": f"machine {number}", "level": 8, "metric": "speedup_vs_serial", "ratio": 4.7, "low": 4.6, "high": 4.8}
        | {"target": 4.5, "direction": ">=", "status": "FAIL" if number == failing else "PASS"}
        for number in range(series)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("series", "folded"), [(1, 0), (4, 0), (5, 1), (40, 36)])
def test_all_but_a_few_series_are_folded_the_worst_first(series: int, folded: int) -> None:
    groups = overview.tiles(verdicts(series, failing=series - 1))
    assert len(groups) == series
    assert [group["folded"] for group in groups] == [False] * (series - folded) + [True] * folded
    assert groups[0]["series"] == f"machine {series - 1}"
    assert groups[0]["counts"] == [(1, "FAIL")]


def test_a_bound_does_not_break_from_its_sign() -> None:
    assert overview.tiles(verdicts(1, failing=9))[0]["tiles"][0]["how"] == "4.600 to 4.800, target ≥\u00a04.5"


def test_what_a_page_does_not_draw_is_linked(history_maker: ModuleType) -> None:
    frame = history_maker.history(3, series=6)
    frame["run_id"] = frame["run_id"] + frame["series"].str[-2:]
    run, linked = frame["run_id"].max(), ["20260103T020000Z-00000204"]
    grid = overview.other_series_grid(frame, run, linked, {"machine 04": "Fifth"})
    assert grid is not None
    assert grid.folded
    assert [row[0] for row in grid.rows] == ["Fifth", "machine 00", "machine 01", "machine 02", "machine 03"]
    assert grid.rows[0][1] == {"text": linked[0], "href": f"points/{linked[0]}.html"}
    assert grid.rows[1][1] == "20260103T020000Z-00000200"
    one = frame[frame["series"] == "machine 05"]
    assert overview.other_series_grid(one, run, linked, {}) is None


def test_the_trend_says_whose_its_figures_are(history_maker: ModuleType) -> None:
    frame = history_maker.history(3, series=2, shape=history_maker.Shape(levels=(8,)))
    frame["run_id"] = frame["run_id"] + frame["series"].str[-2:]
    frame["change"] = [None] * 5 + ["+6.0 % between aaaa and bbbb"]
    words = trend_frame.finding(frame)
    assert "Newest run: machine 01. Latest 8 at once: speed-up: 4." in words
    assert "Change of 8 at once: speed-up on machine 01 at " in words
    alone = trend_frame.finding(frame[frame["series"] == "machine 00"])
    assert "machine" not in alone


def test_like_devices_are_counted(three_nights: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = {"machine": {"gpus": ["GPU A"] * 8 + ["GPU B"]}, "hostname": "host"}
    record = {"environment": machine, "checkpoint": "/models/small", "series": {"tp": 9}, "workload": "report"}
    monkeypatch.setattr(series_names.queries, "record", lambda *_: record)
    assert series_names._label(three_nights.snapshot, "any") == "8 x GPU A, GPU B, small, tp 9, report"
