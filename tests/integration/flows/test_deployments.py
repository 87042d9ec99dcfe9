"""prefect.yaml names a flow that is there and parameters that it takes; the form refuses what it does not know."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from flow_support import ROOT

from flows.parameters import ValidationParameters

pytestmark = pytest.mark.prefect


def deployments() -> list[dict[str, Any]]:
    content = yaml.safe_load(Path(ROOT / "prefect.yaml").read_text(encoding="utf-8"))
    return list(content["deployments"])


@pytest.mark.parametrize("deployment", deployments(), ids=lambda deployment: str(deployment["name"]))
def test_entrypoint_loads_and_takes_its_parameters(deployment: dict[str, Any]) -> None:
    from prefect.flows import load_flow_from_entrypoint

    flow = load_flow_from_entrypoint(deployment["entrypoint"])
    assert flow.name == "validate"
    parameters = flow.validate_parameters(deployment["parameters"])["parameters"]
    assert isinstance(parameters, ValidationParameters)


def test_the_form_has_every_field_with_its_description() -> None:
    from flows.validation import validate

    schema = validate.parameters.model_dump()
    fields = schema["definitions"]["ValidationParameters"]
    assert set(fields["properties"]) == set(ValidationParameters.model_fields)
    assert all(field.get("description") for field in fields["properties"].values())
    assert fields["additionalProperties"] is False


def test_an_unknown_field_is_refused_before_anything_runs() -> None:
    from prefect.exceptions import ParameterTypeError

    from flows.validation import validate

    with pytest.raises(ParameterTypeError, match=r"command"):
        validate.validate_parameters({"parameters": {"command": "rm"}})
