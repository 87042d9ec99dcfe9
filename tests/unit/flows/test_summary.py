"""The two tables, as text: figures with units, intervals beside ratios, what is absent as a dash."""

from typing import Any

from flows.summary import bought, level_rows, lone_request, markdown, target_lines, targets_rows


def target(level: int, **changes: Any) -> dict[str, Any]:
    named = {
        "name": f"{level} concurrent",
        "metric": "speedup_vs_serial",
        "level": level,
        "direction": ">=",
        "bound": 1.7,
        "bound_text": "1.7x",
        "unit": "x",
    }
    judged = {
        "describe": f"speedup_vs_serial@{level} >= 1.7x",
        "status": "PASS",
        "ratio": 1.9,
        "low": 1.85,
        "high": 1.952,
        "pairs": 5,
    }
    more = {"change": "", "hints": []}
    return {
        **named,
        **judged,
        "point": False,
        "reason": "The whole interval lies above.",
        "flags": [],
        "waived": "",
        **more,
        **changes,
    }


def summary(**changes: Any) -> dict[str, Any]:
    row = {"level": 1, "mode": "serial", "wall_s": 0.5, "e2el_mean_s": 0.25, "request_throughput": 2.0, "output_throughput": 64.0}
    return {
        "headline": "PASS: all",
        "exit_code": 0,
        "run_id": "r1",
        "source": {"commit": "a" * 40, "dirty": True, "tree": "t"},
        "parameters": {"checkpoint": "synthetic:tiny", "tp": 2, "workload": "report"},
        "targets": [target(2)],
        "ratios": [{"metric": "speedup_vs_serial", "level": 2, "ratio": 1.9, "pairs": 5}],
        "levels": [row, row | {"mode": "batch", "e2el_mean_s": None}],
        "lone_request_s": {"serial": 0.25, "batch": 0.26},
        "notes": [],
        "failures": [],
        "wall_s": 215.0,
        **changes,
    }


def test_a_ratio_stands_with_its_interval() -> None:
    assert targets_rows(summary()) == [("2 concurrent", ">= 1.7x", "1.900x", "1.850 to 1.952", "5", "PASS")]


def test_an_interval_of_no_use_is_told_as_such() -> None:
    found = summary(targets=[target(2, low=8.5e-10, high=9.7e9, status="INCONCLUSIVE", pairs=2)])
    assert targets_rows(found)[0][3] == "beyond 4x either way"
    assert "2 concurrent beyond 4x either way (2 pairs)" in bought(found)


def test_one_pair_says_that_it_is_a_point() -> None:
    found = targets_rows(summary(targets=[target(2, low=None, high=None, point=True, status="INCONCLUSIVE", pairs=1)]))
    assert found[0][3:] == ("no interval", "1", "INCONCLUSIVE")


def test_an_error_has_dashes_and_no_figure() -> None:
    found = targets_rows(summary(targets=[target(2, ratio=None, low=None, high=None, status="ERROR", pairs=0)]))
    assert found[0][2:] == ("-", "-", "0", "ERROR")


def test_a_level_without_a_target_is_shown_without_a_verdict() -> None:
    extra = {"metric": "speedup_vs_serial", "level": 16, "ratio": 9.5, "pairs": 3}
    rows = targets_rows(summary(ratios=[*summary()["ratios"], extra]))
    assert rows[1] == ("16 concurrent", "-", "9.500x", "-", "3", "no target")


def test_levels_have_units_and_dashes() -> None:
    assert level_rows(summary()) == [
        ("1", "serial", "0.500 s", "0.250 s", "2.000 req/s", "64.0 tok/s"),
        ("1", "batch", "0.500 s", "-", "2.000 req/s", "64.0 tok/s"),
    ]


def test_the_lone_request_stands_beside_the_ratios() -> None:
    assert lone_request(summary()) == "A lone request takes: serial 0.250 s, batch 0.260 s."
    assert lone_request(summary(lone_request_s={})) == "No lone request was measured."


def test_markdown_holds_both_tables_and_every_note() -> None:
    failure = {"measurement": "m/pair01", "attempt": 1, "status": "killed", "what": "KILLED: gone"}
    text = markdown(summary(notes=["Cut by the budget."], failures=[failure]))
    assert text.startswith("# PASS: all\n")
    assert f"Commit {'a' * 10} with uncommitted changes" in text
    assert "| 2 concurrent | >= 1.7x | 1.900x | 1.850 to 1.952 | 5 | PASS |" in text
    assert "| 1 | serial | 0.500 s | 0.250 s | 2.000 req/s | 64.0 tok/s |" in text
    assert "- Cut by the budget." in text
    assert "- m/pair01, attempt 1: KILLED: gone" in text


def test_what_the_time_bought_is_said() -> None:
    assert bought(summary()) == "Intervals, 215 s in all, the build among them: 2 concurrent ±2.7 % (5 pairs)."
    assert bought(summary(targets=[target(2, low=None, high=None)])) == "No target has an interval: that takes two pairs."


def test_a_fail_stands_with_flags_legs_waiver_and_hints() -> None:
    found = target_lines(target(2, status="FAIL", flags=["A flag."], change="Legs.", waived="until then", hints=["slots"]))
    assert found == [
        "2 concurrent: The whole interval lies above. A flag.",
        "  waived until then",
        "  Legs.",
        "  hint: slots",
    ]
