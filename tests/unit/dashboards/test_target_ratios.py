import json
from types import ModuleType

import numpy as np
import pandas as pd
import vl_convert

from dashboards.charts.target_ratios import target_ratios


def drawn(frame: pd.DataFrame) -> tuple[str, str]:
    """(svg, description)."""
    spec = target_ratios(frame).to_dict()
    return vl_convert.vegalite_to_svg(json.dumps(spec, allow_nan=False)), spec["description"]


def test_every_level_with_its_target_and_verdict(history_maker: ModuleType) -> None:
    svg, words = drawn(history_maker.history(1, shape=history_maker.Shape(levels=(1, 2, 4, 8, 16))))
    for text in ("≤ 1.05", "≥ 1.7", "≥ 3", "≥ 4.5", "16 at once"):
        assert text in svg
        assert text in words
    assert "1 NO TARGET" in words
    assert "batch / serial ratio" in svg


def test_no_level_says_so(no_history: pd.DataFrame) -> None:
    svg, words = drawn(no_history)
    assert "No level was measured in this run" in svg
    assert words == "No level was measured in this run."


def test_an_error_is_drawn_at_its_target_and_named(history_maker: ModuleType) -> None:
    frame = history_maker.history(1)
    frame.loc[frame["level"] == 8, ["ratio", "low", "high", "verdict"]] = [np.nan, np.nan, np.nan, "ERROR"]
    svg, words = drawn(frame)
    assert "no ratio ≥ 4.5" in svg
    assert "1 ERROR" in words


def test_a_point_is_called_a_point(history_maker: ModuleType) -> None:
    svg, _ = drawn(history_maker.history(1).assign(low=np.nan, high=np.nan))
    assert svg.count("(point)") >= 4


def test_a_ratio_of_zero_is_no_ratio(history_maker: ModuleType) -> None:
    frame = history_maker.history(1)
    frame.loc[frame["level"] == 2, ["ratio", "low", "high", "verdict"]] = [0.0, 0.0, 0.0, "ERROR"]
    svg, words = drawn(frame)
    assert "2 at once: speed-up: no ratio" in words
    assert "NaN" not in svg
