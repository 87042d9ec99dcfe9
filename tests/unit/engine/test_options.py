"""Options are checked when they are made."""

import dataclasses
from typing import Any

import pytest

import engine
from engine.errors import ConfigError
from engine.options import Sampling, SessionOptions


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("mode", "parallel", "serial, batch"),
        ("tp", 0, "a whole number from 1 to 64"),
        ("tp", 2.0, "a whole number"),
        ("slots", True, "a whole number from 1 to 1024"),
        ("context", 1, "a whole number from 2"),
        ("threads", -1, "a whole number from 0"),
        ("devices", "gpu", "cpu, cuda, or cuda:0,1"),
        ("devices", "cuda:", "cpu, cuda, or cuda:0,1"),
        ("isa", "", "auto"),
        ("prefill_rows", 0, "a whole number from 1"),
        ("queue_limit", 0, "a whole number from 1"),
    ],
)
def test_a_bad_option_names_field_value_and_what_is_allowed(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigError, match=rf"option {field}: found {value!r}; allowed: {allowed}"):
        SessionOptions(**{"mode": "batch", field: value})


@pytest.mark.parametrize("devices", ["cpu", "cuda", "cuda:0", "cuda:0,1,2,3"])
def test_devices(devices: str) -> None:
    assert SessionOptions(mode="serial", devices=devices).devices == devices


def test_serial_runs_one_at_a_time_and_options_are_frozen() -> None:
    options = SessionOptions(mode="serial", slots=8)
    assert (options.running_limit, SessionOptions(mode="batch", slots=8).running_limit) == (1, 8)
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.slots = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    "values", [{"temperature": -1}, {"temperature": float("nan")}, {"top_p": 0}, {"top_k": -1}, {"seed": -1}]
)
def test_bad_sampling_is_named(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"sampling {next(iter(values))}: found"):
        Sampling(**values)


def test_the_public_names_are_there() -> None:
    assert engine.API_VERSION == 1
    assert all(hasattr(engine, name) for name in engine.__all__)
