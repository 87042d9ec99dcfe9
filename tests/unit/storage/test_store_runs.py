"""Runs, plans, builds and verdicts; and the history made of them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flows.verdicts.judge import PairSample, judge
from flows.verdicts.targets import default_targets
from storage import queries
from storage.errors import StoreError
from storage.ingest import ingest, store_run, store_verdicts

RUN = "20260301T020000Z-aaaaaa"


def judged(root: Any, run_id: str) -> list[dict[str, Any]]:
    """The default targets on what the store holds, as the flow judges them."""
    frame = queries.target_ratios(root, run_id)
    verdicts = []
    for target in default_targets():
        rows = frame[(frame["metric"] == target.metric) & (frame["level"] == target.level)].itertuples()
        samples = [PairSample(row.pair, row.serial, row.batch, row.valid, row.reason, row.broken) for row in rows]
        verdicts.append(judge(target, samples).to_dict())
    return verdicts


def test_verdicts_round_trip_and_replace(kit: Any, results: Any) -> None:
    ingest(results.store, results.write(kit.make.make_run({1: 1.0, 2: 1.8, 4: 3.2, 8: 4.0}, pairs=3)))
    verdicts = judged(results.root, RUN)
    store_verdicts(results.store, RUN, verdicts[:2])
    store_verdicts(results.store, RUN, verdicts)
    frame = queries.verdicts(results.root, RUN).set_index(["metric", "level"])
    assert len(frame) == 4
    for verdict in verdicts:
        row = frame.loc[(verdict["target"]["metric"], verdict["target"]["level"])]
        assert (row["status"], row["reason"], row["pairs"]) == (verdict["status"], verdict["reason"], verdict["pairs"])
        assert (row["ratio"], row["low"], row["high"]) == (verdict["ratio"], verdict["low"], verdict["high"])
        assert (row["target"], row["direction"], row["workload"]) == (
            verdict["target"]["bound"],
            verdict["target"]["direction"],
            "report",
        )
    latest = queries.latest_verdicts(results.root)
    assert set(latest["status"]) == {"PASS", "FAIL"}


def test_a_verdict_without_a_workload_needs_an_only_one(results: Any) -> None:
    with pytest.raises(StoreError, match="'workload' is missing"):
        store_verdicts(
            results.store, RUN, [{"target": {"name": "x", "metric": "m", "level": 1, "bound": 1.0}, "status": "ERROR"}]
        )


def test_history_joins_verdicts_and_ratios(kit: Any, results: Any) -> None:
    ingest(results.store, results.write(kit.make.make_run({2: 1.8, 16: 6.0}, pairs=3)))
    store_verdicts(results.store, RUN, [v for v in judged(results.root, RUN) if v["target"]["level"] == 2])
    frame = queries.ratio_history(results.root).set_index("level")
    assert list(frame.columns[:12]) == [
        *(
            "run_id",
            "commit",
            "commit_position",
            "committed_at",
            "series",
            "workload",
            "metric",
            "ratio",
            "low",
            "high",
            "verdict",
        ),
        "target",
    ]
    assert frame.loc[2, "verdict"] == "PASS"
    assert frame.loc[2, "low"] < frame.loc[2, "ratio"] < frame.loc[2, "high"]
    assert frame.loc[2, "ratio"] == pytest.approx(judged(results.root, RUN)[1]["ratio"])
    assert frame.loc[16, "verdict"] is None or frame.loc[16].isna()["verdict"]
    assert frame.loc[16, "ratio"] == pytest.approx(6.0, rel=0.05)
    assert frame.loc[2, "placement"] == "not described by git yet"


def test_a_run_grows_and_is_written_down(results: Any) -> None:
    started = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
    store_run(results.store, RUN, commit="a" * 40, workload="report", plan={"stages": [1], "blocks": []}, started_at=started)
    store_run(results.store, RUN, finished_at=started + timedelta(minutes=6), exit_code=1)
    (row,) = queries.runs(results.root).itertuples()
    assert (row.commit, row.exit_code, row.workloads) == ("a" * 40, 1, ["report"])
    assert (row.finished_at - row.started_at).total_seconds() == 360
    assert json.loads((results.root / RUN / "run.json").read_text())["exit_code"] == 1
    assert json.loads((results.root / RUN / "plan.json").read_text()) == {"stages": [1], "blocks": []}


def test_what_was_planned_and_never_measured_is_named(kit: Any, results: Any) -> None:
    from flows.parameters import ValidationParameters
    from flows.plan import make_plan

    plan = make_plan(
        ValidationParameters(levels=(2,), looks=(2, 4), checkpoint="synthetic:tiny@0", kinds=("parity", "idle")), "tree"
    )
    names = [m.name for m in plan.measurements()]
    first_look = [m.name for block in plan.stage_blocks(0) for pair in block.pairs for m in pair.measurements]
    store_run(results.store, RUN, plan=plan.model_dump(mode="json"))
    done = next(m for pair in plan.pairs() for m in pair.measurements if m.spec.level == 2)
    ingest(results.store, results.write(kit.make.make_record(spec=done.spec, measurement=done.name)))
    frame = queries.exclusions(results.root, RUN)
    missing = set(frame[frame["reason"] == "planned, never measured"]["measurement"])
    beside = {"report/parity", "report/idle-serial", "report/idle-batch"}
    assert missing == set(first_look) - {done.name} | beside
    assert len(names) == 2 * len(first_look) + len(beside)


def night(kit: Any, number: int, serial_s: float, batch_s: float) -> list[Any]:
    """A night of three pairs at level 4 with the given walls."""
    run_id = f"2026030{number}T020000Z-aaaaaa"
    started = datetime(2026, 3, number, 2, 0, tzinfo=UTC)
    made = []
    for pair in range(3):
        for mode, wall in (("serial", serial_s), ("batch", batch_s)):
            spec = {"level": 4, "mode": mode, "pair": pair, "block": pair}
            stretched = wall * (1 + pair / 1000)
            made.append(kit.make.make_record(run_id=run_id, wall_s=stretched, spec=spec, started_at=started, finished_at=started))
    return made


@pytest.mark.parametrize(
    ("second", "mover", "hollow"),
    [((2.7, 0.9), "neither", False), ((2.7, 0.8), "batch", False), ((3.1, 0.9), "serial", True), ((3.1, 0.8), "both", False)],
)
def test_which_leg_moved(kit: Any, results: Any, second: tuple[float, float], mover: str, hollow: bool) -> None:
    ingest(results.store, results.write([*night(kit, 1, 2.7, 0.9), *night(kit, 2, *second)]))
    (row,) = queries.which_leg_moved(results.root).itertuples()
    assert (row.mover, row.hollow) == (mover, hollow)
    assert row.ratio_change == pytest.approx(second[0] / second[1] / 3 - 1)
    assert row.serial_change == pytest.approx(2.7 / second[0] - 1)
    assert (row.previous_run_id, row.run_id) == ("20260301T020000Z-aaaaaa", "20260302T020000Z-aaaaaa")


def test_noise_floor_with_and_without_a_canary(kit: Any, results: Any) -> None:
    canaries = [
        kit.make.make_record(
            wall_s=wall,
            record_id=f"{arm}{pair}".ljust(32, "0"),
            measurement=f"canary/{arm}{pair}",
            spec={"kind": "canary", "mode": "batch", "pair": pair, "extra": {"arm": arm}},
        )
        for pair in range(2)
        for arm, wall in (("a", 1.0), ("b", 1.01))
    ]
    report = ingest(results.store, results.write([*night(kit, 1, 2.7, 0.9), *kit.make.make_pair(2, 1.8), *canaries]))
    assert report.rejected == []
    frame = queries.noise_floor(results.root).set_index("run_id")
    quiet = frame.loc["20260301T020000Z-aaaaaa"].set_index("level")
    assert quiet.loc[4, "pairs"] == 3
    assert quiet.loc[4, "serial_cv"] == pytest.approx(0.001, rel=0.01)
    assert quiet.loc[4, "canary_pairs"] == 0
    assert quiet.loc[2, "canary_ratio"] == pytest.approx(1 / 1.01)
    assert quiet.loc[2, "canary_pairs"] == 2


def test_occupancy_costs_machines_and_latencies(kit: Any, results: Any) -> None:
    run = kit.make.make_run({8: 5.0}, pairs=2, cv=0.0)
    ingest(results.store, results.write(run))
    full = queries.occupancy(results.root, RUN)
    assert list(full[full["mode"] == "batch"]["mean_rows"]) == [8.0, 8.0]
    assert list(full["full_share"]) == [1.0] * 4
    (cost,) = queries.night_costs(results.root).itertuples()
    spent = sum((r.finished_at - r.started_at).total_seconds() for r in run) / 60
    assert cost.measuring_minutes == pytest.approx(spent)
    assert cost.serial_minutes + cost.batch_minutes == pytest.approx(spent)
    assert (cost.measurements, cost.lost_minutes) == (4, 0)
    (machine,) = queries.machines(results.root).itertuples()
    assert (machine.cpu_model, machine.cores, machine.hostnames, machine.measurements) == ("Example CPU", 2, ["bench"], 4)
    latencies = queries.request_latency_percentiles(results.root, RUN).set_index("mode")
    assert latencies.loc["serial", "p50_s"] == pytest.approx(4.5 * 0.672)
    assert latencies.loc["serial", "max_s"] == pytest.approx(8 * 0.672)
    tokens = queries.token_latencies(results.root, RUN)
    assert set(tokens["metric"]) == {"ttft_s", "tpot_s", "itl_s"}
    assert len(queries.request_samples(results.root, RUN)) == 4 * 5 * 8
    assert len(queries.round_walls(results.root, RUN)) == 4 * 6


def test_waiting_for_the_partners_turn_costs_no_minute_of_its_own(kit: Any, results: Any) -> None:
    values = {"turns_waited_s": 2.0}
    run = [kit.make.make_record(wall_s=1.0, spec={"mode": mode, "level": 8}, values=values) for mode in ("serial", "batch")]
    ingest(results.store, results.write(run))
    (cost,) = queries.night_costs(results.root).itertuples()
    spent = sum((r.finished_at - r.started_at).total_seconds() - 2 for r in run) / 60
    assert cost.measuring_minutes == pytest.approx(spent)


def probe(kit: Any, number: int, started: datetime, bandwidth: float, **changes: Any) -> Any:
    """What the machine probe writes."""
    return kit.make.make_record(
        run_id="probes",
        record_id=f"{number}" * 32,
        measurement=f"report/machine{number}",
        spec={"kind": "machine", "mode": "serial", "level": 1},
        values={"read_bandwidth_bytes_per_s": bandwidth, "read_bandwidth_worst_bytes_per_s": bandwidth / 2},
        rounds=[],
        started_at=started,
        finished_at=started,
        **changes,
    )


def test_bandwidth_is_that_of_the_nearest_probe_of_the_same_machine(kit: Any, results: Any) -> None:
    first, second = (kit.make.STARTED + timedelta(days=days) for days in (0, 7))
    step = {"decode_step_s": 0.025, "decode_step_bytes": 2.5e8}
    measured = [
        kit.make.make_record(run_id=run, values=step, spec={"level": 8, "mode": "batch"}, started_at=at, finished_at=at)
        for run, at in (("before", first - timedelta(days=1)), ("between", first + timedelta(days=6)), ("after", second))
    ]
    elsewhere = kit.make.make_environment().model_copy(update={"fingerprint": "another"})
    probes = [
        probe(kit, 1, first, 2.0e10),
        probe(kit, 2, second - timedelta(hours=1), 4.0e10),
        probe(kit, 3, second, 9.0e10, environment=elsewhere),
    ]
    assert ingest(results.store, results.write(measured)).rejected == []
    (unknown, *_) = queries.bandwidth_fraction(results.root).itertuples()
    assert (unknown.step_bytes, unknown.step_s) == (2.5e8, 0.025)
    assert unknown.bandwidth_fraction != unknown.bandwidth_fraction, "no probe yet: unknown, not 0"
    assert ingest(results.store, results.write(probes)).rejected == []
    found = queries.bandwidth_fraction(results.root).set_index("run_id")["bandwidth_fraction"].to_dict()
    assert found == {"before": pytest.approx(0.5), "between": pytest.approx(0.5), "after": pytest.approx(0.25)}
    sql = "SELECT run_id, value FROM leg_metrics WHERE metric = 'bandwidth_fraction' ORDER BY 1"
    assert results.query(sql) == [("after", 0.25), ("before", 0.5), ("between", 0.5)]


def test_one_record_with_all_that_is_known(kit: Any, results: Any) -> None:
    record = kit.make.make_record(values={"x_s": 1.0})
    ingest(results.store, results.write(record))
    found = queries.record(results.root, record.record_id[:8])
    assert json.loads(found["spec"]) == record.spec.model_dump(mode="json")
    assert found["environment"]["hostname"] == "bench"
    assert [r["wall_s"] for r in found["rounds"]] == [r.wall_s for r in record.rounds]
    assert found["values"] == [{"name": "x_s", "value": 1.0}]
    with pytest.raises(StoreError, match="no record begins"):
        queries.record(results.root, "zzzz")


def test_a_run_that_never_said_when_it_began_has_the_stamp_of_its_name(results: Any) -> None:
    """Killed before its first record, and known to a rebuild by its plan alone."""
    store_run(results.store, RUN, plan={"stages": [1], "blocks": []})
    assert list(queries.runs(results.root)["started_at"].astype(str)) == ["2026-03-01 02:00:00"]
