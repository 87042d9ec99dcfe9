"""The plan: pairs in random order, levels shuffled, seeded, and the same however long it is."""

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from flows.measurements.request import parse_extra
from flows.parameters import ValidationParameters
from flows.plan import PlanError, make_plan, missing, read_plan, write_plan

LEVELS = st.sets(st.integers(1, 32), min_size=1, max_size=5).map(lambda found: tuple(sorted(found)))


@settings(max_examples=40, deadline=None)
@given(LEVELS, st.integers(1, 6), st.integers(0, 1000))
def test_every_level_has_each_pair_once_with_both_legs(levels: tuple[int, ...], pairs: int, seed: int) -> None:
    parameters = ValidationParameters(levels=levels, pairs=pairs, seed=seed, kinds=())
    plan = make_plan(parameters, "tree")
    for number, block in enumerate(plan.blocks, start=1):
        assert sorted(pair.level for pair in block.pairs) == list(parameters.measured_levels)
        for pair in block.pairs:
            assert {m.spec.mode for m in pair.measurements} == {"serial", "batch"}
            assert {(m.spec.pair, m.spec.block, m.spec.level) for m in pair.measurements} == {(number, number, pair.level)}
    names = [m.name for m in plan.measurements()]
    assert len(set(names)) == len(names) == 2 * pairs * len(parameters.measured_levels)
    assert [m.spec.order for m in plan.measurements()] == list(range(len(names)))


def test_names_and_labels() -> None:
    found = {m.name: m for m in make_plan(ValidationParameters(pairs=5), "tree").measurements()}
    four = found["report/throughput-x4-serial/pair03"]
    assert (four.label, four.file_stem) == ("serial x4 pair 3/5", "report.throughput-x4-serial.pair03")
    assert found["report/latency-x1-batch/pair01"].spec.kind == "latency"


def test_more_pairs_add_blocks_and_change_none() -> None:
    short = make_plan(ValidationParameters(pairs=3), "tree")
    long = make_plan(ValidationParameters(looks=(5, 10, 20)), "tree")
    assert [[p.level for p in b.pairs] for b in short.blocks] == [[p.level for p in b.pairs] for b in long.blocks[:3]]
    assert [m.spec for p in short.pairs() for m in p.measurements] == [
        m.spec for b in long.blocks[:3] for p in b.pairs for m in p.measurements
    ]
    assert [len(long.stage_blocks(stage)) for stage in range(3)] == [5, 5, 10]


def test_orders_are_balanced_and_follow_the_seed() -> None:
    plan = make_plan(ValidationParameters(pairs=100), "tree")
    serial_first = [p.measurements[0].spec.mode == "serial" for b in plan.blocks for p in b.pairs]
    assert 0.4 < sum(serial_first) / len(serial_first) < 0.6
    assert len({tuple(p.level for p in b.pairs) for b in plan.blocks}) == 24, "all orders of four levels occur"
    other = make_plan(ValidationParameters(pairs=100, seed=1), "tree")
    assert [m.name for m in other.measurements()] != [m.name for m in plan.measurements()]


def test_identity_is_what_is_measured() -> None:
    base = make_plan(ValidationParameters(), "tree").identity
    assert make_plan(ValidationParameters(results="elsewhere", run="r1", budget_minutes=9), "tree").identity == base
    assert make_plan(ValidationParameters(), "other tree").identity != base
    assert make_plan(ValidationParameters(runs=4), "tree").identity != base


def test_plan_survives_its_file(tmp_path: Path) -> None:
    plan = make_plan(ValidationParameters(looks=(2, 4)), "tree")
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan


def test_unreadable_plans_are_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"plan\.json: cannot be read"):
        read_plan(tmp_path / "plan.json")
    (tmp_path / "plan.json").write_text('{"plan_version": 2}')
    with pytest.raises(PlanError, match=r"plan\.json: field plan_version"):
        read_plan(tmp_path / "plan.json")


def test_a_pair_with_one_leg_missing_is_measured_again_as_a_pair() -> None:
    block = make_plan(ValidationParameters(levels=(2,)), "tree").blocks[0]
    first, second = block.pairs
    done = {m.name for m in first.measurements} | {second.measurements[0].name}
    assert missing(block.pairs, done) == (second,)
    assert missing(block.pairs, done | {second.measurements[1].name}) == ()


def test_the_canary_is_one_leg_twice_in_every_block_and_moves_nothing_else() -> None:
    plain = make_plan(ValidationParameters(looks=(2, 4), kinds=()), "tree")
    watched = make_plan(ValidationParameters(looks=(2, 4), canary=True, kinds=()), "tree")
    assert watched.identity != plain.identity
    for block, without in zip(watched.blocks, plain.blocks, strict=True):
        canaries = [pair for pair in block.pairs if pair.canary]
        assert sorted((p.level, p.measurements[0].spec.mode) for p in canaries) == [(1, "serial"), (8, "batch")]
        for pair in canaries:
            first, second = (m.spec for m in pair.measurements)
            assert {first.extra["arm"], second.extra["arm"]} == {"a", "b"}
            assert first.kind == "canary"
            assert first.model_copy(update={"order": 0, "extra": {}}) == second.model_copy(update={"order": 0, "extra": {}})
        assert [p.level for p in block.pairs if not p.canary] == [p.level for p in without.pairs]
    names = [m.name for m in watched.measurements()]
    assert len(set(names)) == len(names)
    assert [m.spec.order for m in watched.measurements()] == list(range(len(names)))
    assert watched.stage_total(0, ()) == 24
    assert watched.stage_total(1, {1}) == 24 + 2 * 2 * 3, "later looks: the open level and the canary"


def test_checks_come_before_the_pairs_and_other_kinds_after_them() -> None:
    plan = make_plan(ValidationParameters(pairs=2, kinds="all", rate_per_s=5), "tree")
    names = [m.name for m in plan.measurements()]
    assert names[:2] == ["report/parity", "report/reference"]
    assert names[-6:] == [
        "report/occupancy-x8",
        "report/idle-serial",
        "report/idle-batch",
        "report/build-order-serial-first",
        "report/build-order-batch-first",
        "report/steady-state",
    ]
    assert len(set(names)) == len(names) == 2 + 16 + 6
    specs = {m.name: m.spec for m in plan.measurements()}
    assert all(specs[name].pair == 0 for name in (*names[:2], *names[-6:]))
    parity = specs["report/parity"]
    assert (parity.kind, parity.level, parity.new_tokens, parity.extra["levels"]) == ("parity", 8, 8, [1, 2, 4, 8])
    assert specs["report/build-order-batch-first"].extra == {"sequence": ["batch", "serial", "batch", "serial"]}
    steady = specs["report/steady-state"]
    assert steady.extra["rate_per_s"] == 5
    assert all(one["prompt_tokens"] + one["new_tokens"] <= steady.context for one in steady.extra["lengths"])


def test_parity_alone_is_planned_unless_asked_otherwise() -> None:
    assert [m.spec.kind for m in make_plan(ValidationParameters(), "tree").checks] == ["parity"]
    none = make_plan(ValidationParameters(kinds="none"), "tree")
    assert (none.checks, none.others) == ((), ())
    assert none.identity != make_plan(ValidationParameters(), "tree").identity


def test_every_program_takes_the_options_that_are_planned() -> None:
    for measurement in make_plan(ValidationParameters(kinds="all"), "tree").measurements():
        program = importlib.import_module(f"flows.measurements.{measurement.spec.kind}")
        parse_extra(program.KIND.extra, measurement.spec.extra)


@pytest.mark.parametrize(
    ("kinds", "says"), [("parity,parity", "each kind once"), ("speed", "Input should be 'parity', 'reference', 'occupancy'")]
)
def test_kinds_that_are_none(kinds: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ValidationParameters(kinds=kinds)
