"""The one parameter model: workloads, bounds, and faults that name the field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from flows.parameters import WORKLOADS, ValidationParameters


def fault_of(**values: object) -> dict[str, object]:
    with pytest.raises(ValidationError) as caught:
        ValidationParameters.model_validate(values)
    return dict(caught.value.errors()[0])


def test_defaults_are_the_report() -> None:
    parameters = ValidationParameters()
    assert (parameters.prompt_tokens, parameters.new_tokens, parameters.warmup, parameters.runs) == (16, 32, 1, 5)
    assert (parameters.tp, parameters.levels, parameters.checkpoint) == (4, (2, 4, 8), "synthetic:small@0")


@pytest.mark.parametrize(("name", "values"), WORKLOADS.items())
def test_workload_fills_what_is_left_out(name: str, values: dict[str, int]) -> None:
    parameters = ValidationParameters.model_validate({"workload": name})
    assert {field: getattr(parameters, field) for field in values} == values


def test_given_field_wins_over_workload_even_where_it_equals_a_default() -> None:
    parameters = ValidationParameters.model_validate({"workload": "latency", "new_tokens": 32, "runs": 2})
    assert (parameters.prompt_tokens, parameters.new_tokens, parameters.warmup, parameters.runs) == (32, 32, 3, 2)


def test_every_field_is_described_and_has_a_default() -> None:
    for name, field in ValidationParameters.model_fields.items():
        assert field.description, name
        assert not field.is_required(), name


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"tp": 0}, "tp"),
        ({"levels": []}, "levels"),
        ({"levels": "2,x"}, "levels"),
        ({"levels": "0"}, "levels"),
        ({"workload": "batch"}, "workload"),
        ({"budget_minutes": float("nan")}, "budget_minutes"),
        ({"run": "../elsewhere"}, "run"),
        ({"command": "rm"}, "command"),
    ],
)
def test_bad_value_names_its_field(values: dict[str, object], field: str) -> None:
    assert fault_of(**values)["loc"][0] == field  # type: ignore[index]


def test_faults_between_fields_say_the_numbers() -> None:
    assert "16 + 32 = 48" in str(fault_of(context=40)["msg"])
    assert "must ascend" in str(fault_of(looks="10,5")["msg"])
    assert "each level once" in str(fault_of(levels="2,2")["msg"])


def test_levels_from_text_are_sorted_and_one_is_always_measured() -> None:
    parameters = ValidationParameters.model_validate({"levels": " 16, 2,4 "})
    assert parameters.levels == (2, 4, 16)
    assert parameters.measured_levels == (1, 2, 4, 16)


@given(st.integers(1, 64), st.one_of(st.none(), st.integers(1, 64)))
def test_slots_are_the_level_at_least_eight_unless_given(level: int, slots: int | None) -> None:
    assert ValidationParameters(slots=slots).slots_at(level) == (slots or max(level, 8))


def test_stages_follow_pairs_looks_and_quick() -> None:
    assert ValidationParameters().stages == (3, 12)
    assert ValidationParameters(pairs=7).stages == (7,)
    assert ValidationParameters(pairs=7, looks=(5, 10)).stages == (7,), "a fixed number goes before looks"
    assert ValidationParameters(looks=(5, 10, 20)).stages == (5, 10, 20)
    assert ValidationParameters(quick=True, pairs=7).stages == (1,)


def test_the_canary_takes_time_that_a_short_run_has_not() -> None:
    assert not ValidationParameters().with_canary
    assert ValidationParameters(budget_minutes=90).with_canary
    assert not ValidationParameters(budget_minutes=90, quick=True).with_canary
    assert not ValidationParameters(budget_minutes=90, canary=False).with_canary
    assert ValidationParameters(quick=True, canary=True).with_canary


def test_legs_take_turns_where_both_engines_fit() -> None:
    assert ValidationParameters().in_turns
    assert not ValidationParameters(devices="cuda:0").in_turns
    assert ValidationParameters(devices="cuda:0", interleave="rounds").in_turns
    assert not ValidationParameters(interleave="legs").in_turns


@pytest.mark.parametrize("devices", ["cpu", "cuda", "cuda:0", "cuda:0,1"])
def test_devices_there_may_be(devices: str) -> None:
    assert ValidationParameters(devices=devices).devices == devices


@pytest.mark.parametrize("devices", ["tpu", "cuda:x", "cuda:", "CPU", "cpu:0", "cuda:0,"])
def test_devices_of_another_kind_are_refused(devices: str) -> None:
    with pytest.raises(ValidationError, match=f"devices '{devices}': must be cpu, cuda, cuda:0 or cuda:0,1"):
        ValidationParameters(devices=devices)
