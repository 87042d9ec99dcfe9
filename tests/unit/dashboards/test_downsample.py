from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from dashboards.downsample import thin


def test_a_short_history_stays_whole(history_maker: ModuleType) -> None:
    frame = history_maker.history(100)
    thinned = thin(frame)
    assert thinned.frame is frame
    assert thinned.dropped == 0
    assert thinned.remark() == ""


@pytest.fixture(scope="module")
def long(history_maker: ModuleType) -> pd.DataFrame:
    """3,000 commits at one level: three broken nights, an outlier each way, one change of verdict that lasts, a change point."""
    frame = history_maker.history(3000, shape=history_maker.Shape(levels=(4,)))
    frame["verdict"] = ["FAIL" if position < 700 else "PASS" for position in frame["commit_position"]]
    frame.loc[[100, 1000, 2000], ["ratio", "low", "high"]] = np.nan
    frame.loc[500, "ratio"], frame.loc[501, "ratio"] = 9.0, 0.5
    frame["change"] = [None] * len(frame)
    frame.loc[1800, "change"] = "+6 %"
    return frame


def test_what_a_reader_looks_for_is_kept(long: pd.DataFrame) -> None:
    thinned = thin(long, points=400)
    kept = set(thinned.frame.index)
    assert {0, 100, 1000, 2000, 500, 501, 1800} <= kept
    assert {698, 699} <= kept, "both sides of the change of verdict"
    assert set(range(2940, 3000)) <= kept, "the newest sixty"
    assert len(thinned.frame) <= 420
    assert thinned.dropped == 3000 - len(thinned.frame)
    assert f"{thinned.dropped} older points are left out" in thinned.remark()


def test_the_extremes_of_each_stretch_are_kept(long: pd.DataFrame) -> None:
    kept = thin(long, points=400).frame
    for start in range(0, 2900, 100):
        part = long.iloc[start : start + 100]["ratio"].dropna()
        assert kept["ratio"].isin([part.max(), part.min()]).any()


def test_values_and_order_are_untouched(long: pd.DataFrame) -> None:
    kept = thin(long, points=400).frame
    pd.testing.assert_frame_equal(kept, long.loc[kept.index])
    assert kept.index.is_monotonic_increasing


def test_forty_series_share_the_budget(history_maker: ModuleType) -> None:
    frame = history_maker.history(300, series=40, shape=history_maker.Shape(levels=(2, 8)))
    thinned = thin(frame, points=6000)
    assert thinned.frame["series"].nunique() == 40
    assert len(thinned.frame) < 9000
