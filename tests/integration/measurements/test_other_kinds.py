"""parity, occupancy, idle, build_order and steady_state as processes, on the real engine."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(900)  # the first test may have to build the engine

Measure = Callable[..., Any]


@pytest.mark.parametrize(("tp", "mixed"), [(1, False), (2, True)])
def test_serial_and_batch_agree_bit_by_bit(measure: Measure, tp: int, mixed: bool) -> None:
    extra = {"levels": [1, 2, 3, 8, 16], "mixed_lengths": mixed}
    done = measure("parity", level=16, slots=16, tp=tp, new_tokens=8, extra=extra)
    assert done.returncode == 0, done.output
    assert done.record.values == {"parity_requests": 30.0, "parity_requests_different": 0.0, "parity_tokens": 240.0}
    assert done.record.details == {"levels": [1, 2, 3, 8, 16], "differences": []}
    assert "level 16: 16 of 16 requests equal in every bit" in done.output


def test_parity_tries_powers_of_two_up_to_the_level(measure: Measure) -> None:
    done = measure("parity", level=5, new_tokens=2)
    assert done.record.details["levels"] == [1, 2, 4, 5]
    refused = measure("parity", extra={"levels": [0]})
    assert refused.returncode == 1
    assert "field spec.extra.levels: found [0]: 0 must be from 1 to 4096" in refused.record.failure.message


def test_occupancy_of_more_requests_than_slots(measure: Measure) -> None:
    done = measure("occupancy", level=8, slots=4, tp=2)
    assert done.returncode == 0, done.output
    record = done.record
    assert record.status == "ok"
    assert record.values["peak_running"] == 4
    assert record.values["peak_waiting"] >= 4
    assert 3 < record.values["mean_rows_per_decode_step"] <= 4
    assert [row["round"] for row in record.details["rounds"]] == [1, 2]
    for row in record.details["rounds"]:
        assert sum(int(rows) * count for rows, count in row["rows_per_step"].items()) == 8 * 31
        assert row["steps"] >= sum(row["rows_per_step"].values()) + 1
    assert record.occupancy.steps == sum(row["steps"] for row in record.details["rounds"])


def test_occupancy_in_serial_mode_is_one(measure: Measure) -> None:
    record = measure("occupancy", mode="serial", level=3).record
    assert record.values["peak_running"] == record.values["mean_rows_per_decode_step"] == 1
    assert record.values["peak_waiting"] in {2, 3}
    assert record.values["decode_steps"] == 2 * 3 * 31


@pytest.mark.parametrize("mode", ["serial", "batch"])
def test_an_idle_engine_costs_next_to_nothing(measure: Measure, mode: str) -> None:
    done = measure("idle", mode=mode, tp=2, extra={"window_s": 2, "settle_s": 0.2})
    assert done.returncode == 0, done.output
    assert done.record.status == "ok"
    assert done.record.values["idle_window_s"] >= 2
    assert done.record.values["idle_cpu_fraction"] < 0.01
    assert done.record.values["idle_context_switches_per_s"] < 50


def test_engines_one_after_the_other(measure: Measure) -> None:
    sequence = ["serial", "batch", "batch:2", "serial"]
    done = measure("build_order", level=2, extra={"sequence": sequence, "pause_s": 0.05})
    assert done.returncode == 0, done.output
    record = done.record
    table = record.details["engines"]
    assert [(row["position"], row["mode"], row["slots"]) for row in table] == [
        (1, "serial", 8),
        (2, "batch", 8),
        (3, "batch", 2),
        (4, "serial", 8),
    ]
    assert [row["ratio_to_first"] for row in table[:3]] == [1.0, 1.0, 1.0]
    assert record.values["worst_position_ratio"] == pytest.approx(max(row["ratio_to_first"] for row in table))
    assert record.values["position4_wall_s"] == pytest.approx(table[3]["wall_s"])
    assert len({row["closed"]["own_threads"] for row in table}) == 1, "no engine leaves threads behind"
    rounds = [sample for sample in record.rounds if not sample.warmup]
    assert [sample.index for sample in record.rounds] == list(range(12))
    hashes = [[q.tokens_sha256 for q in sample.requests] for sample in rounds]
    assert hashes[:2] == hashes[2:4] == hashes[4:6] == hashes[6:8], "every engine gets the same prompts"


def test_a_sequence_that_names_no_engine(measure: Measure) -> None:
    done = measure("build_order", extra={"sequence": ["serial", "batch:0"]})
    assert done.returncode == 1
    assert "'batch:0' must be serial or batch" in done.record.failure.message


def test_poisson_arrivals_of_mixed_lengths(measure: Measure) -> None:
    extra = {
        "rate_per_s": 100,
        "requests": 40,
        "lengths": [{"prompt_tokens": 4, "new_tokens": 8, "weight": 3}, {"prompt_tokens": 32, "new_tokens": 2}],
        "ttft_limit_s": 1e-9,
    }
    done = measure("steady_state", extra=extra)
    assert done.returncode == 0, done.output
    record = done.record
    (sample,) = record.kept_rounds()
    shapes = {(q.prompt_tokens, q.output_tokens) for q in sample.requests}
    assert (len(sample.requests), shapes) == (40, {(4, 8), (32, 2)})
    values = record.values
    assert values["ttft_p50_s"] <= values["ttft_p90_s"] <= values["ttft_p99_s"]
    assert values["goodput_fraction"] == 0, "no first token comes within a nanosecond"
    assert sample.wall_s > 0.1, "forty arrivals at a hundred a second take their time"
    assert values["request_throughput_per_s"] == pytest.approx(40 / sample.wall_s)


def test_a_length_that_does_not_fit(measure: Measure) -> None:
    done = measure("steady_state", extra={"rate_per_s": 10, "lengths": [{"prompt_tokens": 40, "new_tokens": 40}]})
    assert done.returncode == 1
    assert "spec.extra.lengths.0: found 40 + 40 tokens: must fit spec.context 48" in done.record.failure.message
