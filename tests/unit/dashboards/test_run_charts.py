"""Charts of one run and of the legs, drawn from a real store and from nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dashboards import charts, export, pages, run_frames, theme
from dashboards.charts.latency_distribution import latency_distribution
from dashboards.charts.leg_throughput import leg_throughput
from dashboards.charts.level_scaling import level_scaling
from dashboards.charts.memory_limits import memory_limits
from dashboards.charts.night_canary import night_canary
from dashboards.charts.night_pairs import night_pairs
from dashboards.charts.night_telemetry import night_telemetry
from dashboards.charts.request_latency import request_latency
from dashboards.run_view import UnknownRunError
from storage import queries


def svg(chart: Any, folder: Path) -> str:
    return pages.svg(chart, folder / "chart.svg").read_text(encoding="utf-8")


def test_legs_have_a_line_each_and_say_how_they_moved(three_nights: Any, tmp_path: Path) -> None:
    chart = charts.legs(three_nights.root)
    text = svg(chart, tmp_path)
    assert "requests/s" in text
    assert "latency, s" in text
    assert "Example CPU, synthetic:small, tp 4, report (75fa40)" in text, "16 at once has other slots: a series of its own"
    assert "since the first of 3 commits." in str(chart.description)


def test_a_leg_is_the_mean_of_its_valid_pairs(three_nights: Any) -> None:
    frame = run_frames.legs(three_nights.snapshot)
    here = frame[(frame["run_id"] == three_nights.last) & (frame["level"] == 8)].set_index("mode")
    assert here.loc["serial", "low"] <= here.loc["serial", "value"] <= here.loc["serial", "high"]
    assert here.loc["batch", "value"] / here.loc["serial", "value"] == pytest.approx(3.94, rel=0.05)


def test_scaling_has_the_ideal_and_both_legs(three_nights: Any, tmp_path: Path) -> None:
    frame = run_frames.scaling(three_nights.snapshot, three_nights.last)
    assert set(frame["line"]) == {"speed-up", "ideal", "batch leg", "serial leg"}
    text = svg(level_scaling(frame), tmp_path)
    assert "requests at once (level)" in text
    chart = level_scaling(frame)
    assert "of the ideal" in str(chart.description)


def test_the_perfect_kernel_comes_from_bytes() -> None:
    steps = pd.DataFrame({"mode": ["serial", "batch", "batch"], "level": [1, 2, 8], "step_bytes": [100.0, 102.0, 110.0]})
    assert run_frames._perfect(steps) == [{"level": 2.0, "speedup": 200 / 102}, {"level": 8.0, "speedup": 800 / 110}]


def test_latency_has_all_four_metrics(three_nights: Any, tmp_path: Path) -> None:
    text = svg(charts.latency(three_nights.root), tmp_path)
    for name in ("(TTFT)", "(TPOT)", "(ITL)", "(E2EL)"):
        assert name in text


def test_a_metric_without_a_boundary_is_named_not_drawn(three_nights: Any, tmp_path: Path) -> None:
    frame = run_frames.latency(three_nights.snapshot, three_nights.last)
    frame.loc[frame["metric"] == "ttft_s", ["p50_s", "p90_s", "p99_s", "max_s"]] = np.nan
    chart = request_latency(frame)
    assert "Not measured: time to first token (TTFT)." in str(chart.description)
    assert "(TTFT)</text>" not in svg(chart, tmp_path)


def test_pairs_that_do_not_count_are_shown_with_their_reason(three_nights: Any, tmp_path: Path) -> None:
    chart = charts.pairs(three_nights.root)
    assert "14 of 15 pairs count." in str(chart.description)
    assert "4 at once: speed-up, pair 1: serial leg was not measured." in str(chart.description)
    assert "does not count" in svg(chart, tmp_path)


def test_telemetry_has_a_panel_a_quantity(three_nights: Any, tmp_path: Path) -> None:
    chart = charts.telemetry(three_nights.root)
    assert "processor clock, MHz: 2600 to 2600." in str(chart.description)
    assert "memory free, GiB" in svg(chart, tmp_path)


def test_limits_say_when_nothing_was_reported(three_nights: Any) -> None:
    assert "reports the machine's bandwidth" in str(charts.limits(three_nights.root).description)


def test_limits_draw_shares(tmp_path: Path) -> None:
    frame = pd.DataFrame({"level": [1, 8, 8], "mode": ["serial", "serial", "batch"], "bandwidth_fraction": [0.8, 0.79, np.nan]})
    chart = memory_limits(frame)
    assert str(chart.description) == "1 alone, serial: 80%. 8 at once, serial: 79%."
    assert "of the read bandwidth" in svg(chart, tmp_path)


def test_a_distribution_runs_from_the_fastest_request_to_the_slowest(three_nights: Any) -> None:
    frame = run_frames.distribution(three_nights.snapshot, three_nights.last)
    samples = queries.request_samples(three_nights.snapshot, three_nights.last)
    for (level, mode), line in frame[frame["metric"] == "e2el_s"].groupby(["level", "mode"]):
        values = samples[(samples["level"] == level) & (samples["mode"] == mode)]["e2el_s"]
        shares = line.set_index("share")["value_s"]
        assert (shares[0.0], shares[1.0]) == pytest.approx((values.min(), values.max()))
        assert shares[0.5] == pytest.approx(values.median())
    assert set(frame["metric"]) == {"ttft_s", "tpot_s", "itl_s", "e2el_s"}
    assert "At 16 at once. time to first token (TTFT), serial:" in str(latency_distribution(frame).description)


def test_the_canary_is_the_second_arm_over_the_first(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"mode": ["batch"] * 3, "level": [2] * 3, "pair": [0, 1, 2], "a": [4.0, 4.0, np.nan], "b": [4.1, 3.9, 4.0]}
    )
    chart = night_canary(frame)
    assert str(chart.description) == "2 at once, batch: 0.975 to 1.025 over 2 pairs. 1 pair without both arms."
    assert "second / first" in svg(chart, tmp_path)


EMPTY = {
    leg_throughput: ["run_id", "commit", "series", "mode", "commit_position", "level", "value", "low", "high"],
    level_scaling: ["line", "level", "speedup", "low", "high"],
    request_latency: ["metric", "level", "mode", "p50_s", "p90_s", "p99_s", "max_s"],
    latency_distribution: ["metric", "level", "mode", "share", "value_s"],
    night_canary: ["mode", "level", "pair", "a", "b"],
    memory_limits: ["level", "mode", "bandwidth_fraction"],
    night_pairs: ["level", "metric", "pair", "ratio", "serial", "batch", "valid", "reason"],
    night_telemetry: ["at", "quantity", "value", "measurement"],
}


@pytest.mark.parametrize("chart", EMPTY, ids=lambda chart: chart.__name__)
def test_nothing_is_drawn_as_nothing_and_says_so(chart: Any) -> None:
    drawn = chart(pd.DataFrame(columns=EMPTY[chart]))
    assert str(drawn.description).startswith("No ")


@pytest.mark.parametrize("name", export.NAMES)
def test_every_chart_uses_colours_of_the_palette_only(three_nights: Any, name: str) -> None:
    chart = (
        export.HISTORY_CHARTS[name](three_nights.root)
        if name in export.HISTORY_CHARTS
        else export.RUN_CHARTS[name](three_nights.root, None)
    )
    spec = chart.to_dict()
    spec.pop("datasets", None)
    found = {text for text in _texts(spec) if text.startswith("#")}
    assert found
    assert found <= set(theme.LIGHT.colours())


def _texts(node: Any) -> list[str]:
    if isinstance(node, dict):
        return [text for value in node.values() for text in _texts(value)]
    if isinstance(node, list):
        return [text for value in node for text in _texts(value)]
    return [node] if isinstance(node, str) else []


@pytest.mark.parametrize(
    ("ending", "start"), [(".png", b"\x89PNG"), (".svg", b"<svg"), (".json", b"{"), (".html", b"<!doctype html>")]
)
def test_export_writes_what_the_ending_says(three_nights: Any, tmp_path: Path, ending: str, start: bytes) -> None:
    out = export.export("targets", three_nights.snapshot, tmp_path / f"folder/chart{ending}")
    assert out.read_bytes().startswith(start)


def test_export_in_dark(three_nights: Any, tmp_path: Path) -> None:
    text = export.export("targets", three_nights.snapshot, tmp_path / "t.svg", dark=True).read_text(encoding="utf-8")
    assert theme.DARK.failed in text
    assert theme.LIGHT.failed not in text


@pytest.mark.parametrize(
    ("name", "out", "run", "words"),
    [
        ("nope", "a.png", None, "chart 'nope': there is none; choose one of"),
        ("trend", "a.gif", None, r"ending '\.gif': write one of \.png, \.svg"),
        ("trend", "a.png", "r1", "chart 'trend' shows all runs"),
    ],
)
def test_export_names_what_is_wrong(three_nights: Any, tmp_path: Path, name: str, out: str, run: str | None, words: str) -> None:
    with pytest.raises(export.ExportError, match=words):
        export.export(name, three_nights.snapshot, tmp_path / out, run)
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_not_there_is_named(three_nights: Any, tmp_path: Path) -> None:
    with pytest.raises(UnknownRunError, match=f"no run 'x'; the latest there: {three_nights.last}"):
        export.export("latency", three_nights.snapshot, tmp_path / "l.svg", "x")
