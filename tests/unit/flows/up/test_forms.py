"""What a served run may be asked for."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from engine.checkpoint.shapes import SHAPES
from flows import checkpoints
from flows.forms import NightParameters, ServedValidation
from flows.parameters import ValidationParameters
from flows.up_settings import load_up


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configured folder with one checkpoint, and one beside it that is not offered."""
    for name in ("offered/mine", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "model.safetensors").write_bytes(b"")
    (tmp_path / "offered" / "pickled").mkdir()
    (tmp_path / "offered" / "pickled" / "config.json").write_text("{}")
    (tmp_path / "offered" / "pickled" / "model.bin").write_bytes(b"")
    (tmp_path / "offered" / "link").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("PACELINE_UP_CHECKPOINTS", str(tmp_path / "offered"))
    return tmp_path


def test_every_shape_of_the_engine_is_offered() -> None:
    assert set(checkpoints.SYNTHETIC) == set(SHAPES)


def test_the_form_has_every_field_described_and_bounded(models: Path) -> None:
    schema = ServedValidation.model_json_schema()
    fields = schema["properties"]
    assert set(fields) == set(ValidationParameters.model_fields) - {"results"}
    assert schema["additionalProperties"] is False
    assert all(field["description"] and field["title"] for field in fields.values())
    assert all("anyOf" not in field for field in fields.values()), "an empty field, no choice of types"
    for name, field in fields.items():
        assert not {"default"} & set(field) or field["default"] is not None, name
        if field["type"] in ("integer", "number"):
            assert field.keys() & {"minimum", "exclusiveMinimum"}, name
            assert "maximum" in field, name
    offered = fields["checkpoint"]["enum"]
    assert "synthetic:small@0" in offered
    assert offered[-1] == str(models / "offered" / "mine"), "neither the pickled one nor the one elsewhere"
    assert fields["checkpoint"]["default"] in offered


def test_an_empty_form_is_the_default_validation() -> None:
    assert ServedValidation().resolved(load_up()).model_dump(exclude={"results"}) == ValidationParameters().model_dump(
        exclude={"results"}
    )


def test_the_results_folder_is_the_services(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PACELINE_UP_RESULTS", str(tmp_path))
    assert ServedValidation().resolved(load_up()).results == str(tmp_path)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"results": "/tmp/x"}, "results: not free in a served run"),
        ({"checkpoint": "{models}/elsewhere"}, "not offered here"),
        ({"checkpoint": "{models}/offered/../elsewhere"}, "not offered here"),
        ({"checkpoint": "{models}/offered/link"}, "not offered here"),
        ({"checkpoint": "{models}/offered/pickled"}, "not offered here"),
        ({"checkpoint": "offered/mine"}, "not offered here"),
        ({"checkpoint": "/etc"}, "not offered here"),
        ({"checkpoint": "synthetic:../../x"}, "not offered here"),
        ({"devices": "cpu; rm -rf /"}, "must be cpu"),
        ({"run": "../../etc"}, "String should match pattern"),
        ({"command": "rm"}, "Extra inputs are not permitted"),
        ({"tp": 65}, "less than or equal to 64"),
    ],
)
def test_what_reaches_beyond_the_service_is_refused(models: Path, given: dict[str, Any], words: str) -> None:
    filled = {name: value.format(models=models) if isinstance(value, str) else value for name, value in given.items()}
    with pytest.raises(ValidationError, match=words):
        ServedValidation.model_validate(filled)


def test_a_configured_checkpoint_is_taken(models: Path) -> None:
    assert ServedValidation(checkpoint=str(models / "offered" / "mine")).checkpoint.endswith("mine")


def test_the_night_knows_its_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[[measure]]\nname = "a"\n[[measure]]\nname = "b"\n')
    monkeypatch.setenv("PACELINE_UP_PLAN", str(plan))
    assert NightParameters.model_json_schema()["properties"]["only"]["items"]["enum"] == ["a", "b"]
    assert NightParameters(only=("b",)).only == ("b",)
    with pytest.raises(ValidationError, match="no entry is called c; the plan has a, b"):
        NightParameters(only=("c",))
