"""The forms of the Prefect UI: what a served run may be asked for. One model each, so that an unknown field is refused by name.

They are the command line's own fields, less what would let a stranger reach beyond the service: no results folder, no command, no
path but that of a checkpoint the settings offer.
"""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from flows import checkpoints
from flows.night_plan import read_night
from flows.parameters import WORKLOADS, ValidationParameters
from flows.up_settings import UpSettings, load_up

DEVICES = r"^(cpu|cuda(:\d+(,\d+)*)?)$"


_TITLES = {"tp": "Tensor-parallel ranks", "runs": "Rounds", "warmup": "Warm-up rounds", "run": "Take up run"}
_TEXTS = {
    "tp": "Shares that the model is split into; each has its own threads (or GPU) and reads its own part of the weights.",
    "checkpoint": "Synthetic shape, made once and kept, or one of the configured checkpoint folders.",
    "run": "Left out: a new run, or the interrupted one of the same plan. An earlier run's name: measure only what it lacks.",
}


def _validation_form(schema: dict[str, Any]) -> None:
    """The form's own view: drop-down of checkpoints, no results folder, and empty fields where something else fills them."""
    fields = schema["properties"]
    fields.pop("results")
    for field in fields.values():
        present = [choice for choice in field.pop("anyOf", []) if choice.get("type") != "null"]
        if present:  # "or nothing" is an empty field, no choice of types
            field.update(present[0])
            field.pop("default")
    for name in WORKLOADS["report"]:
        fields[name].pop("default")
    for name, title in _TITLES.items():
        fields[name]["title"] = title
    for name, text in _TEXTS.items():
        fields[name]["description"] = text
    fields["checkpoint"] |= {"enum": checkpoints.choices(load_up().checkpoints)}
    fields["devices"] |= {"pattern": DEVICES}


class ServedValidation(ValidationParameters):
    """Every field has a default: submitting the form as it is measures now."""

    model_config = ConfigDict(title="What to measure", json_schema_extra=_validation_form)

    @model_validator(mode="before")
    @classmethod
    def _no_results(cls, data: Any) -> Any:
        if isinstance(data, dict) and "results" in data:
            raise ValueError("results: not free in a served run: it is set where paceline up was started")
        return data

    @model_validator(mode="after")
    def _within_bounds(self) -> Self:
        import re

        folders = load_up().checkpoints
        if not checkpoints.allowed(self.checkpoint, folders):
            offered = ", ".join(map(str, folders)) or "none; PACELINE_UP_CHECKPOINTS names some"
            raise ValueError(
                f"checkpoint {self.checkpoint}: not offered here: choose a synthetic one ({', '.join(checkpoints.SYNTHETIC)}) "
                f"or one in the configured folders ({offered})"
            )
        if not re.fullmatch(DEVICES, self.devices):
            raise ValueError(f"devices {self.devices}: must be cpu, cuda or cuda:0,1 and so on")
        return self

    def resolved(self, settings: UpSettings) -> ValidationParameters:
        """The flow's own parameters, with the service's results folder."""
        values = self.model_dump() | {"results": str(settings.results.absolute())}
        return ValidationParameters.model_validate(values)


def _night_form(schema: dict[str, Any]) -> None:
    names = [entry.name for entry in read_night(load_up().plan)]
    schema["properties"]["only"]["items"] = {"type": "string", "enum": names}


class NightParameters(BaseModel):
    """A night by hand: all of the plan file, or a part."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="The night", json_schema_extra=_night_form)

    force: bool = Field(
        default=False,
        description="Measure all of it even where this commit has been decided already; otherwise only the canary then runs.",
    )
    only: tuple[str, ...] = Field(
        default=(), max_length=100, description="Entries of the plan file to measure, by name. Left out: all of them."
    )

    @model_validator(mode="after")
    def _entries_exist(self) -> Self:
        names = [entry.name for entry in read_night(load_up().plan)]
        unknown = [name for name in self.only if name not in names]
        if unknown:
            raise ValueError(f"only: no entry is called {', '.join(unknown)}; the plan has {', '.join(names)}")
        return self


class SiteParameters(BaseModel):
    """Nothing to choose but how much is drawn anew."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="The site")

    rebuild: bool = Field(
        default=False,
        description="Read the store anew from all raw records first, and judge every run again: minutes, not seconds.",
    )
