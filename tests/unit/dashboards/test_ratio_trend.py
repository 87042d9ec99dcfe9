"""The trend draws whatever the store holds, and says what it is."""

import csv
import io
import json
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import vl_convert

from dashboards.charts import trend_frame
from dashboards.charts.ratio_trend import ratio_trend


def rows_of(chart: Any) -> list[dict[str, str]]:
    """The chart's rows as text; absent is the empty text."""
    return list(csv.DictReader(io.StringIO(max(chart.to_dict()["datasets"].values(), key=len))))


def svg_of(chart: Any) -> str:
    return vl_convert.vegalite_to_svg(json.dumps(chart.to_dict(), allow_nan=False))


def test_no_point_says_so(no_history: pd.DataFrame) -> None:
    chart = ratio_trend(no_history)
    assert "No run is in the store yet" in svg_of(chart)
    assert trend_frame.finding(no_history) == "No run is in the store yet."


def test_one_point_says_so(history_maker: ModuleType) -> None:
    chart = ratio_trend(history_maker.history(1))
    text = svg_of(chart)
    assert "One point so far" in chart.description
    assert text.count("target ≥") >= 3
    assert "target ≤ 1.05" in text
    assert history_maker.history(1)["commit"][0][:7] in text


def test_a_bare_point_says_that_it_has_no_interval(history_maker: ModuleType) -> None:
    chart = ratio_trend(history_maker.history(1).assign(low=np.nan, high=np.nan))
    assert {row["interval"] for row in rows_of(chart)} == {"a point, no interval"}
    assert "<svg" in svg_of(chart)


def test_a_huge_interval_is_told_and_stretches_no_axis(history_maker: ModuleType) -> None:
    frame = history_maker.history(2).assign(low=1e-9, high=1e10)
    rows = rows_of(ratio_trend(frame))
    assert {row["interval"] for row in rows} == {"beyond 4x either way"}
    assert all(float(row["low"]) >= float(row["ratio"]) / 4.001 for row in rows)
    assert all(float(row["high"]) <= float(row["ratio"]) * 4.001 for row in rows)


def test_broken_nights_stand_at_the_foot_and_break_the_line(history_maker: ModuleType) -> None:
    frame = history_maker.history(20, shape=history_maker.Shape(broken_every=5, levels=(2,)))
    chart = ratio_trend(frame)
    lost = [row for row in rows_of(chart) if row["ratio"] == ""]
    assert len(lost) == 4
    assert {row["verdict"] for row in lost} == {"ERROR"}
    assert "4 points without a ratio, marked at the foot" in chart.description
    data = trend_frame.prepare(frame)
    panel = data[data["level"] == 2]
    assert panel.groupby("segment").size().tolist() == [4, 5, 5, 5, 1]
    assert "ERROR" in svg_of(chart)


def test_all_nights_broken_still_draws(history_maker: ModuleType) -> None:
    chart = ratio_trend(history_maker.history(3, shape=history_maker.Shape(broken_every=1, levels=(2,))))
    assert "3 points without a ratio" in chart.description
    assert "<svg" in svg_of(chart)


def test_a_gap_is_shaded_named_and_not_bridged(history_maker: ModuleType) -> None:
    frame = history_maker.history(20, shape=history_maker.Shape(gap=40, levels=(2,)))
    gaps = trend_frame.gaps(trend_frame.prepare(frame))
    assert gaps["missing"].tolist() == [40]
    assert "Gap of 40 commits after position 10." in trend_frame.finding(frame)
    assert "40 not measured" in svg_of(ratio_trend(frame))
    data = trend_frame.prepare(frame)
    assert data[data["level"] == 2].groupby("segment").size().tolist() == [10, 10]


def test_order_is_the_topological_one_whatever_the_dates(history_maker: ModuleType) -> None:
    frame = history_maker.history(6)
    frame["committed_at"] = list(reversed(frame["committed_at"]))
    data = trend_frame.prepare(frame.sample(frac=1, random_state=3))
    assert data[data["level"] == 8]["x"].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_commit_without_a_place_is_marked_and_not_joined(history_maker: ModuleType) -> None:
    frame = history_maker.history(5, shape=history_maker.Shape(stray=True))
    data = trend_frame.prepare(frame)
    stray = data[~data["placed"]]
    assert (stray["x"] == 5).all()
    assert stray["name"].str.endswith("*").all()
    assert "1 commit drawn at the right and marked *: uncommitted changes." in trend_frame.finding(frame)


def test_a_commit_measured_twice_keeps_both_points_and_one_line(history_maker: ModuleType) -> None:
    once = history_maker.history(3)
    twice = pd.concat([once, once.assign(run_id=once["run_id"] + "-again")])
    data = trend_frame.prepare(twice)
    assert len(data) == 2 * len(once)
    assert data["latest"].sum() == len(once)
    assert data.loc[data["latest"], "run_id"].str.endswith("-again").all()


def test_forty_series_draw_with_a_legend_to_choose_from(history_maker: ModuleType) -> None:
    frame = history_maker.history(6, series=40, shape=history_maker.Shape(levels=(8,)))
    chart = ratio_trend(frame)
    assert len({row["series"] for row in rows_of(chart)}) == 40
    assert any(param.get("name") == "pick" and param["bind"] == "legend" for param in chart.to_dict()["params"])
    assert "machine 39" in svg_of(chart)


@pytest.mark.parametrize(("nights", "zoomable"), [(5, False), (30, True)])
def test_a_strip_to_zoom_comes_with_enough_commits(history_maker: ModuleType, nights: int, zoomable: bool) -> None:
    params = ratio_trend(history_maker.history(nights)).to_dict()["params"]
    assert any(param.get("name") == "zoom" for param in params) == zoomable


def test_missing_metadata_draws(history_maker: ModuleType) -> None:
    frame = history_maker.history(4).assign(committed_at=None, series=None, commit=None)
    chart = ratio_trend(frame)
    assert {row["name"] for row in rows_of(chart)} == {"unknown"}
    assert "<svg" in svg_of(chart)


def test_change_points_are_ruled_and_told(history_maker: ModuleType) -> None:
    frame = history_maker.history(15)
    frame["change"] = [None] * len(frame)
    frame.loc[(frame["level"] == 2) & (frame["commit_position"] == 10), "change"] = "+6.0 % between aaaa and bbbb"
    chart = ratio_trend(frame)
    assert "Change of 2 at once: speed-up at" in chart.description
    assert "+6.0 % between aaaa and bbbb" in chart.description
