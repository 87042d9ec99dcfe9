"""The ratios: which attempt counts, which pair counts, and that nothing measured gets lost between."""

import math
from typing import Any

import pytest

from storage.ingest import ingest
from storage.queries import exclusions, invalid, level_table, pair_metrics, target_ratios

RUN = "20260301T020000Z-aaaaaa"


def test_columns_are_the_contract(kit: Any, results: Any) -> None:
    ingest(results.store, results.write(kit.make.make_run({1: 1.0, 8: 5.0}, pairs=1)))
    assert list(target_ratios(results.root).columns) == [
        *("run_id", "commit", "workload", "series", "metric", "level", "pair"),
        *("serial", "batch", "ratio", "valid", "reason", "broken"),
    ]
    assert list(level_table(results.root, RUN).columns) == [
        *("level", "mode", "wall_s", "e2el_mean_s", "ttft_mean_s", "tpot_mean_s", "request_throughput", "output_throughput"),
        *("processes", "rounds", "workload"),
    ]


def test_ratios_of_a_run(kit: Any, results: Any) -> None:
    ingest(results.store, results.write(kit.make.make_run({1: 1.02, 2: 1.8, 8: 5.0}, pairs=3, cv=0.0)))
    frame = target_ratios(results.root, RUN)
    assert frame.groupby("level")["ratio"].mean().to_dict() == pytest.approx({1: 1.02, 2: 1.8, 8: 5.0})
    assert frame.groupby("level")["metric"].first().to_dict() == {
        1: "single_latency_ratio",
        2: "speedup_vs_serial",
        8: "speedup_vs_serial",
    }
    assert frame["valid"].all()
    assert not frame["broken"].any()
    assert frame["series"].nunique() == 1
    assert exclusions(results.root).empty


def test_the_predecessors_level_table(kit: Any, results: Any) -> None:
    ingest(results.store, results.write(kit.make.make_run({2: 1.8}, pairs=2, cv=0.0)))
    table = level_table(results.root, RUN).set_index("mode")
    assert list(table.index) == ["serial", "batch"]
    assert table.loc["serial", "wall_s"] == pytest.approx(1.344)
    assert table.loc["serial", "e2el_mean_s"] == pytest.approx(1.344 * 3 / 4)
    assert table.loc["serial", "request_throughput"] == pytest.approx(2 / 1.344)
    assert table.loc["batch", "wall_s"] == pytest.approx(1.344 / 1.8)
    assert table.loc["batch", "processes"] == 2
    assert table.loc["batch", "rounds"] == 10


def test_the_level_table_has_an_order_of_its_own(kit: Any, results: Any) -> None:
    for run in ("20260302T020000Z-bbbbbb", RUN):
        ingest(results.store, results.write(kit.make.make_run({8: 5.0, 1: 1.0, 2: 1.8}, pairs=2, run_id=run)))
    rows = results.query("FROM level_table SELECT run_id, level, mode")
    runs = [RUN, "20260302T020000Z-bbbbbb"]
    assert rows == [(run, level, mode) for run in runs for level in (1, 2, 8) for mode in ("serial", "batch")]


def test_the_last_attempt_that_is_ok_counts(kit: Any, results: Any) -> None:
    serial, batch = kit.make.make_pair(2, 1.8, cv=0.0)
    failed = kit.make.make_failed(spec={"mode": "batch", "level": 2})
    retried = kit.make.make_record(wall_s=1.0, spec={"mode": "batch", "level": 2, "attempt": 2})
    later_failure = kit.make.make_failed(spec={"mode": "batch", "level": 2, "attempt": 3})
    ingest(results.store, results.write([serial, failed, retried, later_failure]))
    (row,) = target_ratios(results.root).itertuples()
    assert row.valid
    assert row.ratio == pytest.approx(2 / 1.0 * 1.344 / 2)
    reasons = exclusions(results.root).set_index("attempt")["reason"].to_dict()
    assert reasons == {1: "another attempt counts", 3: "another attempt counts"}
    assert batch.spec.level == 2


def test_legs_that_took_turns_count_together_or_not_at_all(kit: Any, results: Any) -> None:
    def leg(mode: str, attempt: int, wall_s: float, *why: str) -> Any:
        fields: dict[str, Any] = {"status": "invalid", "invalid_because": list(why)} if why else {}
        spec = {"mode": mode, "level": 2, "attempt": attempt}
        return kit.make.make_record(wall_s=wall_s, spec=spec, values={"turns_waited_s": 1.0}, **fields)

    halves = [
        leg("serial", 1, 1.8),
        leg("batch", 1, 1.0, "host: busy"),
        leg("serial", 2, 9.0, "host: busy"),
        leg("batch", 2, 1.0),
    ]
    ingest(results.store, results.write(halves))
    (row,) = target_ratios(results.root).itertuples()
    assert not row.valid
    assert "serial leg invalid: host: busy" in row.reason, "the last attempt, whole"
    ingest(results.store, results.write([leg("serial", 3, 2.0), leg("batch", 3, 1.0), leg("batch", 4, 0.1, "host: busy")]))
    (row,) = target_ratios(results.root).itertuples()
    assert row.valid
    assert row.ratio == pytest.approx(2.0)


@pytest.mark.parametrize("gone", ["serial", "batch"])
def test_a_missing_leg(kit: Any, results: Any, gone: str) -> None:
    ingest(results.store, results.write([r for r in kit.make.make_pair(2, 1.8) if r.spec.mode != gone]))
    (row,) = target_ratios(results.root).itertuples()
    assert not row.valid
    assert row.broken
    assert row.reason == f"{gone} leg was not measured"
    assert math.isnan(row.ratio)
    assert math.isnan(getattr(row, gone))
    assert len(exclusions(results.root)) == 1


def test_a_failed_leg_says_why(kit: Any, results: Any) -> None:
    serial, _ = kit.make.make_pair(2, 1.8)
    failed = kit.make.make_failed(status="killed", message="out of memory", spec={"mode": "batch", "level": 2})
    ingest(results.store, results.write([serial, failed]))
    (row,) = target_ratios(results.root).itertuples()
    assert row.reason == "batch leg killed: RequestFailed: out of memory"
    assert row.broken
    assert set(exclusions(results.root)["record_id"]) == {serial.record_id, failed.record_id}


def test_unequal_token_totals_break_the_pair(kit: Any, results: Any) -> None:
    serial, batch = kit.make.make_pair(2, 1.8)
    rounds = list(batch.rounds)
    requests = list(rounds[2].requests)
    requests[0] = requests[0].model_copy(update={"output_tokens": 31})
    rounds[2] = rounds[2].model_copy(update={"requests": requests})
    ingest(results.store, results.write([serial, batch.model_copy(update={"rounds": rounds})]))
    (row,) = target_ratios(results.root).itertuples()
    assert row.reason == "output tokens differ: serial 320, batch 319"
    assert row.broken
    assert not row.valid
    assert list(invalid(results.root, RUN)["reason"]) == [row.reason]


def test_a_restless_machine_spoils_a_pair_without_breaking_it(kit: Any, results: Any) -> None:
    serial, batch = kit.make.make_pair(2, 1.8)
    restless = batch.model_copy(update={"status": "invalid", "invalid_because": ["load 7.0 from elsewhere"]})
    ingest(results.store, results.write([serial, restless]))
    (row,) = target_ratios(results.root).itertuples()
    assert (row.valid, row.broken) == (False, False)
    assert "load 7.0 from elsewhere" in row.reason


@pytest.mark.parametrize("finish", ["error", "cancelled"])
def test_requests_that_did_not_finish_break_the_pair(kit: Any, results: Any, finish: str) -> None:
    serial, batch = kit.make.make_pair(2, 1.8)
    rounds = [
        r.model_copy(update={"requests": [q.model_copy(update={"finish_reason": finish}) for q in r.requests]})
        for r in batch.rounds
    ]
    ingest(results.store, results.write([serial, batch.model_copy(update={"rounds": rounds})]))
    (row,) = target_ratios(results.root).itertuples()
    assert row.reason == "batch leg completed no request"
    assert row.broken


def test_two_machines_are_two_series_and_never_one_pair(kit: Any, results: Any) -> None:
    other = kit.make.make_environment(fingerprint="other")
    serial, batch = kit.make.make_pair(2, 1.8, pair=0)
    mixed = [serial, batch.model_copy(update={"environment": other})]
    alone = kit.make.make_pair(2, 1.8, pair=1, environment=other)
    ingest(results.store, results.write([*mixed, *alone, *kit.make.make_pair(2, 1.8, pair=2)]))
    frame = target_ratios(results.root).set_index("pair")
    assert frame.loc[0, "reason"] == "the legs ran on two machines"
    assert frame.loc[[1, 2], "valid"].all()
    assert frame.loc[1, "series"] != frame.loc[2, "series"]


def test_a_new_option_makes_a_new_series_and_leaves_the_old_one(kit: Any, results: Any) -> None:
    plain = kit.make.make_pair(2, 1.8, pair=0)
    new = kit.make.make_pair(2, 1.8, pair=1, spec={"extra": {"prefix_reuse": True}})
    repeated = kit.make.make_pair(2, 1.8, pair=2, run_id="20260302T020000Z-bbbbbb", spec={"seed": 5})
    ingest(results.store, results.write([*plain, *new, *repeated]))
    series = target_ratios(results.root).set_index("pair")["series"]
    assert series[0] == series[2]
    assert series[0] != series[1]


def test_slots_by_the_rule_are_one_series_over_levels(kit: Any, results: Any) -> None:
    pairs = [
        *kit.make.make_pair(8, 5.0, pair=0, spec={"slots": 8}),
        *kit.make.make_pair(16, 6.0, pair=1, spec={"slots": 16}),
        *kit.make.make_pair(8, 3.0, pair=2, spec={"slots": 4}),
    ]
    ingest(results.store, results.write(pairs))
    series = target_ratios(results.root).set_index("pair")["series"]
    assert series[0] == series[1]
    assert series[0] != series[2]


def test_every_record_reaches_a_valid_ratio_or_is_excluded_by_name(kit: Any, results: Any) -> None:
    """Case 22, over a run with every kind of trouble."""
    run = kit.make.make_run({1: 1.0, 2: 1.8, 4: 3.0}, pairs=3)
    broken = run[3].model_copy(update={"status": "invalid", "invalid_because": ["restless"]})
    failed = kit.make.make_failed(spec={"mode": "batch", "level": 8, "pair": 1})
    idle = kit.make.make_record(spec={"kind": "idle", "level": 1, "mode": "batch"}, values={"idle_fraction": 0.001})
    retry = kit.make.make_record(spec={"level": 1, "mode": "serial", "attempt": 2})
    ingest(results.store, results.write([*run[:3], broken, *run[4:-1], failed, idle, retry]))
    reached = {r for pair in results.query("SELECT serial_record_id, batch_record_id FROM pairs WHERE valid") for r in pair}
    named = {r for (r,) in results.query("SELECT record_id FROM exclusions")}
    everything = {r for (r,) in results.query("SELECT record_id FROM records")}
    assert reached | named == everything
    assert not reached & named
    assert results.query("SELECT count(*) FROM exclusions WHERE reason IS NULL OR reason = ''") == [(0,)]


def test_pair_metrics_serve_every_target(kit: Any, results: Any) -> None:
    ingest(results.store, results.write([*kit.make.make_pair(1, 1.02, cv=0.0), *kit.make.make_pair(4, 3.2, cv=0.0)]))
    frame = pair_metrics(results.root, RUN)
    found = {(m, level): (s, b) for m, level, s, b in frame[["metric", "level", "serial", "batch"]].itertuples(index=False)}
    ratios = target_ratios(results.root).set_index("level")
    assert found["speedup_vs_serial", 4] == pytest.approx((ratios.loc[4, "serial"], ratios.loc[4, "batch"]))
    assert found["scaling_efficiency", 4] == found["speedup_vs_serial", 4]
    assert found["single_latency_ratio", 1] == pytest.approx((ratios.loc[1, "serial"], ratios.loc[1, "batch"]))
    assert found["single_ttft_ratio", 1] == pytest.approx((0.02, 0.02))
    assert ("single_ttft_ratio", 4) not in found
    assert ("speedup_vs_serial", 1) not in found
    for metric in ("tpot_s", "tpot_p99_s", "itl_p50_s", "e2el_max_s", "ttft_mean_s", "finish_spread_s", "output_throughput"):
        assert (metric, 4) in found, metric
    assert found["finish_spread_s", 4] == pytest.approx((3 * 0.672, 0.0))
    assert list(pair_metrics(results.root, metric="tpot_p99_s")["metric"].unique()) == ["tpot_p99_s"]
