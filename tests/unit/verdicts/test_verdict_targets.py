"""Targets are data, and a wrong one is named: file, field, value, what would be right."""

from pathlib import Path

import pytest

from flows.verdicts.targets import (
    Target,
    TargetError,
    comparison_targets,
    default_targets,
    keep_targets,
    load_targets,
    parse_targets,
)

GOOD = """
[[target]]
name = "TPOT tail"
metric = "tpot_p99_s"
level = 8
direction = "<="
bound = 0.05
unit = "s"
"""


def test_default_targets_are_the_predecessors_four() -> None:
    assert [(t.metric, t.level, t.direction, t.bound, t.unit) for t in default_targets()] == [
        ("single_latency_ratio", 1, "<=", 1.05, "x"),
        ("speedup_vs_serial", 2, ">=", 1.7, "x"),
        ("speedup_vs_serial", 4, ">=", 3.0, "x"),
        ("speedup_vs_serial", 8, ">=", 4.5, "x"),
    ]
    assert load_targets() == default_targets()


def test_a_users_own_target_takes_the_batch_leg_unless_told() -> None:
    (target,) = parse_targets(GOOD, "mine.toml")
    assert target == Target("TPOT tail", "tpot_p99_s", 8, "<=", 0.05, "s", leg="batch")
    (serial,) = parse_targets(GOOD + 'leg = "serial"\n', "mine.toml")
    assert serial.leg == "serial"
    assert serial.describe() == "tpot_p99_s@8 (serial) <= 0.05 s"


@pytest.mark.parametrize(
    ("text", "factor", "shown"),
    [
        ("baseline - 3 %", 0.97, "the baseline - 3 %"),
        ("baseline+2.5%", 1.025, "the baseline + 2.5 %"),
        ("baseline", 1.0, "the baseline"),
    ],
)
def test_relative_bounds(text: str, factor: float, shown: str) -> None:
    (target,) = parse_targets(GOOD.replace("0.05", f'"{text}"'), "mine.toml")
    assert target.relative
    assert target.bound == pytest.approx(factor)
    assert target.describe_bound() == shown
    assert target.absolute_bound(2.0) == pytest.approx(2 * factor)
    assert target.absolute_bound(None) is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"tpot_p99_s"', '"tpot"', ["'metric'", "'tpot'", "tpot_p99_s"]),
        ('"s"', '"ms"', ["'unit'", "'ms'", "'s'"]),
        ('"<="', '"<"', ["'direction'", "'<'", "'<='"]),
        ('"<="', '">="', ["'direction'", "smaller", "'<='"]),
        ("bound = 0.05", "bound = -1", ["'bound'", "-1", "above 0"]),
        ("bound = 0.05", "bound = nan", ["'bound'", "nan", "finite"]),
        ("bound = 0.05", 'bound = "better"', ["'bound'", "'better'", "baseline - 3 %"]),
        ("bound = 0.05", "", ["'bound'", "None"]),
        ("bound = 0.05", "bound = true", ["'bound'", "True"]),
        ("level = 8", "level = 0", ["'level'", "0", "1 and above"]),
        ("level = 8", "level = 2.5", ["'level'", "2.5", "whole number"]),
        ("level = 8", "", ["'level'", "missing"]),
        ('name = "TPOT tail"', 'name = " "', ["'name'", "' '"]),
        ("level = 8", 'level = 8\ncolour = "red"', ["'colour'", "unknown", "direction"]),
        ("level = 8", 'level = 8\nleg = "both"', ["'leg'", "'both'"]),
        ("level = 8", 'level = 8\nleg = "ratio"', ["'unit'", "'s'", "'x'"]),
        ("[[target]]", "[[goal]]", ["'goal'", "[[target]]"]),
        ("[[target]]", "[[target", ["TOML"]),
    ],
)
def test_errors_name_file_field_value(old: str, new: str, words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(TargetError) as caught:
        load_targets(path)
    for word in ["mine.toml", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize("metric", ["speedup_vs_serial", "single_latency_ratio"])
def test_a_ratio_of_both_legs_has_no_single_leg(metric: str) -> None:
    level, direction = (2, ">=") if metric == "speedup_vs_serial" else (1, "<=")
    with pytest.raises(TargetError, match="'leg'"):
        Target("t", metric, level, direction, 1.0, "x", leg="batch")  # type: ignore[arg-type]


def test_levels_where_a_metric_does_not_exist() -> None:
    with pytest.raises(TargetError, match="level 2 and above"):
        Target("t", "speedup_vs_serial", 1, ">=", 1.7, "x")
    with pytest.raises(TargetError, match="level 1 only"):
        Target("t", "single_latency_ratio", 2, "<=", 1.05, "x")


def test_names_must_differ() -> None:
    with pytest.raises(TargetError, match=r"target 2: field 'name'.*TPOT tail"):
        parse_targets(GOOD + GOOD, "mine.toml")


def test_an_empty_file_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="at least one"):
        parse_targets("", "mine.toml")
    with pytest.raises(TargetError, match=r"absent\.toml"):
        load_targets(tmp_path / "absent.toml")


def test_comparison_targets_allow_the_margin_and_know_the_reference() -> None:
    lone, loaded = comparison_targets((1, 8), margin=0.03)
    assert lone == Target("batch at 1", "e2el_s", 1, "<=", 1.03, "x", reference=1.0)
    assert loaded == Target("batch at 8", "request_throughput", 8, ">=", 0.97, "x", reference=1.0)
    assert [t.name for t in comparison_targets((2,), ("serial", "batch"))] == ["serial at 2", "batch at 2"]
    with pytest.raises(ValueError, match="margin"):
        comparison_targets((2,), margin=3)


def test_a_run_keeps_its_targets_until_it_is_given_others(tmp_path: Path) -> None:
    mine, copy = tmp_path / "mine.toml", tmp_path / "targets.toml"
    keep_targets(None, copy)
    assert load_targets(copy) == default_targets()
    mine.write_text(copy.read_text().replace("bound = 4.5", "bound = 5.5"))
    keep_targets(mine, copy)
    keep_targets(None, copy)  # taken up by the command that the interrupted run printed
    assert load_targets(copy) == load_targets(mine) != default_targets()
