import math

import numpy as np
import pandas as pd
import pytest

from dashboards import frames


def test_a_missing_column_is_named_with_its_chart() -> None:
    with pytest.raises(frames.FrameError, match=r"chart trend: column 'ratio' is missing; found \['level'\]"):
        frames.ready(pd.DataFrame({"level": [1]}), "trend", [], ["level", "ratio"])


def test_infinite_and_absent_numbers_become_empty() -> None:
    frame = frames.ready(pd.DataFrame({"a": [1.0, math.inf, None, math.nan], "b": [1, 2, 3, 4]}), "c", [], ["a", "b"])
    data = frames.inline(frame).to_dict()
    assert data["values"] == "a,b\n1,1\n,2\n,3\n,4\n"
    assert data["format"] == {"type": "csv", "parse": {"a": "number", "b": "number"}}


def test_rows_keep_five_digits_their_kinds_and_their_commas() -> None:
    frame = pd.DataFrame({"x": [1.23456789], "n": [np.int64(7)], "ok": [True], "t": ['a, "b"'], "when": [pd.NaT]})
    data = frames.inline(frame).to_dict()
    assert data["values"] == 'x,n,ok,t,when\n1.2346,7,true,"a, ""b""",\n'
    assert data["format"]["parse"] == {"x": "number", "n": "number", "ok": "boolean", "t": "string", "when": "string"}


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0024, "1.002"), (12.345, "12.35"), (148.26, "148.3"), (0.0, "0.000"), (0.00123, "0.00123"), (None, "—"), (math.nan, "—")],
)
def test_figures_read_well(value: float | None, text: str) -> None:
    assert frames.figure(value) == text


def test_an_interval_needs_both_ends() -> None:
    assert frames.interval(0.99, 1.01) == "0.990 to 1.010"
    assert frames.interval(None, 1.01) == frames.interval(0.99, math.inf) == ""


def test_an_interval_of_no_use_is_told_as_such() -> None:
    assert frames.interval(0.5, 7.9) == "0.500 to 7.900"
    assert frames.interval(0.5, 8.1) == frames.interval(0.0, 9.7e9) == "beyond 4x either way"


def test_words() -> None:
    assert frames.listing(["a", "b", "c"]) == "a, b and c"
    assert frames.listing(["a"]) == "a"
    assert frames.listing([]) == ""
    assert [frames.count(n, "commit") for n in (0, 1, 2)] == ["0 commits", "1 commit", "2 commits"]
    assert frames.level_label(1) == "1 alone"
    assert list(frames.verdict_names(pd.Series([None, "pass", math.nan], dtype=object))) == ["NO TARGET", "PASS", "NO TARGET"]
