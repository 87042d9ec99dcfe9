"""prefect.yaml names flows that are there and parameters that they take, and agrees with what `paceline up` serves."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from flow_support import ROOT

from flows.up_settings import load_up

pytestmark = pytest.mark.prefect


def in_the_file() -> list[dict[str, Any]]:
    content = yaml.safe_load(Path(ROOT / "prefect.yaml").read_text(encoding="utf-8"))
    return list(content["deployments"])


@pytest.mark.parametrize("deployment", in_the_file(), ids=lambda deployment: str(deployment["name"]))
def test_entrypoint_loads_and_takes_its_parameters(deployment: dict[str, Any]) -> None:
    from prefect.flows import load_flow_from_entrypoint

    flow = load_flow_from_entrypoint(deployment["entrypoint"])
    assert flow.name == deployment["name"]
    parameters = flow.validate_parameters(deployment["parameters"])["parameters"]
    assert type(parameters).model_config.get("extra") == "forbid"


def test_the_file_and_the_service_serve_the_same() -> None:
    from flows.deployments import deployments

    served = asyncio.run(deployments(load_up()))
    assert {(d.name, d.entrypoint) for d in served} == {(d["name"], d["entrypoint"]) for d in in_the_file()}
    assert [d.name for d in served if d.schedules] == [d["name"] for d in in_the_file() if d.get("schedules")]


def test_an_unknown_field_is_refused_before_anything_runs() -> None:
    from prefect.exceptions import ParameterTypeError

    from flows.served import validate

    with pytest.raises(ParameterTypeError, match=r"command"):
        validate.validate_parameters({"parameters": {"command": "rm"}})
