"""The legs of one series, of a few and of many: told apart, told in a few sentences, and nothing left out."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import vl_convert

from dashboards import overview, theme
from dashboards.charts import leg_moves
from dashboards.charts.leg_throughput import leg_throughput

LEVELS = (1, 2, 8)


def legs(commits: int, series: int = 1, levels: tuple[int, ...] = LEVELS, growth: float = 0.0) -> pd.DataFrame:
    """`commits` commits in each of `series` series; the batch leg of series n grows by n times `growth` over all of them."""
    rows: list[dict[str, Any]] = []
    for number in range(series):
        for commit in range(commits):
            for level in levels:
                grown = 1 + growth * number * commit / max(commits - 1, 1)
                for mode, value in (("serial", 1.5), ("batch", 1.2 * level * grown)):
                    row = {"run_id": f"{commit:04d}-{number:02d}", "commit": f"{commit:040x}", "commit_position": commit + 1.0}
                    row |= {"series": f"machine {number:02d}, small", "level": level, "mode": mode, "value": value}
                    rows.append(row | {"low": 0.99 * value, "high": 1.01 * value})
    return pd.DataFrame(rows)


def svg_of(chart: Any) -> str:
    return vl_convert.vegalite_to_svg(json.dumps(chart.to_dict(), allow_nan=False))


def sentences(chart: Any) -> int:
    return str(chart.description).count(". ") + 1


def test_one_series_has_a_panel_a_level_and_no_name() -> None:
    chart = leg_throughput(legs(5))
    text = svg_of(chart)
    assert [text.count(f">{name}</text>") for name in ("1 alone", "2 at once", "8 at once")] == [1, 1, 1]
    assert "machine" not in str(chart.description)
    assert "Largest step at the newest commit: " in chart.description


@pytest.mark.parametrize("series", [2, 3, 4])
def test_a_few_series_have_panels_under_their_names(series: int) -> None:
    chart = leg_throughput(legs(5, series, growth=0.02))
    text = svg_of(chart)
    for number in range(series):
        assert text.count(f">machine {number:02d}, small</text>") == 1
    assert text.count(">8 at once</text>") == series
    assert text.count(">serial</text>") == text.count(">batch</text>") == 1, "one legend"
    assert not [param for param in chart.to_dict()["params"] if "bind" in param]


def test_of_many_series_one_is_drawn_and_the_list_has_all() -> None:
    chart = leg_throughput(legs(3, 40, growth=0.01))
    listed = next(param for param in _params(chart.to_dict()) if param["name"] == "whose")
    assert listed["bind"]["options"] == [f"machine {number:02d}, small" for number in range(40)]
    assert listed["value"] == "machine 39, small", "measured last"
    text = svg_of(chart)
    assert text.count(">machine 39, small</text>") == 1
    assert "machine 38" not in text
    assert [text.count(f">{name}</text>") for name in ("1 alone", "2 at once", "8 at once")] == [1, 1, 1]
    assert "not measured in this series" not in text


def test_a_level_that_the_chosen_series_lacks_says_so() -> None:
    other = legs(3, 6)
    last = legs(3, 1, levels=(1, 4)).assign(series="machine 06, small", run_id="0009")
    text = svg_of(leg_throughput(pd.concat([other, last])))
    assert ">4 at once</text>" in text
    assert text.count(">not measured in this series</text>") == 2, "2 and 8 at once"


@pytest.mark.parametrize("series", [1, 2, 4, 5, 40])
def test_the_finding_is_short_and_begins_with_the_largest_move(series: int) -> None:
    chart = leg_throughput(legs(6, series, levels=(1, 2, 4, 8, 16), growth=0.01))
    words = str(chart.description)
    assert sentences(chart) <= 5
    if series == 1:
        assert words.endswith(
            "The other 2 levels moved by at most 0.0%. Largest step at the newest commit: 1 alone, batch +0.0%."
        )
        return
    most = f"machine {series - 1:02d}, small: most at 1 alone, latency: serial +0.0%, batch +{series - 1}.0% since"
    assert f"{most} the first of 6 commits." in words
    spoken = words.count("most at ")
    assert spoken == min(series, 3 if series <= 4 else 2)
    assert spoken == series or f"{series - spoken} series moved by at most" in words or "The other series moved by" in words


def test_one_commit_says_what_the_newest_series_came_to() -> None:
    assert leg_moves.finding(legs(1)).startswith("One commit so far. 1 alone, latency: serial 1.500, batch 1.200 s.")
    many = leg_throughput(legs(1, 40))
    assert "machine 39, small, 8 at once, throughput: serial 1.500, batch 9.600 requests/s." in many.description
    assert "And 117 more levels of all series." in many.description
    assert "<svg" in svg_of(many)


def test_a_series_with_one_commit_is_counted() -> None:
    fresh = legs(1).assign(series="fresh", run_id="0009")
    assert "1 series with one commit so far." in leg_moves.finding(pd.concat([legs(4, 2), fresh]))


def test_a_move_is_from_the_first_commit_and_a_step_from_the_one_before() -> None:
    frame = legs(4, levels=(8,))
    frame.loc[frame["mode"] == "batch", "value"] = [8.0, 9.0, 10.0, 12.0]
    again = frame.tail(1).assign(run_id="0003-99", value=11.0)
    moved = leg_moves.moves(leg_moves.prepare(pd.concat([frame, again]))).set_index("mode")
    assert moved.loc["batch", "change"] == pytest.approx(11 / 8 - 1), "a commit counts with its newest run"
    assert moved.loc["batch", "step"] == pytest.approx(0.1)
    assert moved.loc["serial", ["commits", "change", "step"]].tolist() == [4, 0, 0]


def test_three_thousand_commits_and_missing_metadata_draw() -> None:
    assert "since the first of 3000 commits" in leg_throughput(legs(3000, 2, levels=(8,), growth=0.1)).description
    bare = legs(3).assign(series=None, commit=None, commit_position=np.nan, low=np.nan, high=np.nan)
    assert "unknown*" in svg_of(leg_throughput(bare))


def test_the_table_has_every_leg_of_every_series() -> None:
    grid = overview.leg_grid(legs(3, 40, growth=0.01))
    assert len(grid.rows) == 40 * len(LEVELS)
    row = grid.rows[-1]
    assert row == ["machine 39, small", "8 at once: requests/s", "1.500", "13.34", "+0.0%", "+16.3%", "+0.0%", "+39.0%", "3"]
    assert len(grid.columns) == len(row)
    assert overview.leg_grid(legs(1)).rows[0] == ["1 alone: latency, s", "1.500", "1.200", "—", "—", "—", "—", "1"]
    assert overview.leg_grid(legs(1).iloc[:0]).rows == []


def test_colours_stay_those_of_the_modes() -> None:
    for series in (1, 3, 9):
        text = json.dumps(leg_throughput(legs(3, series)).to_dict())
        assert theme.LIGHT.serial in text
        assert theme.LIGHT.batch in text
        assert not any(colour in text for colour in theme.LIGHT.series)


def _params(node: Any) -> list[dict[str, Any]]:
    """Parameters wherever Altair hung them."""
    if isinstance(node, dict):
        return list(node.get("params", [])) + [found for value in node.values() for found in _params(value)]
    return [found for item in node for found in _params(item)] if isinstance(node, list) else []
