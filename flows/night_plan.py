"""The plan file of the nightly: what a night measures, with a budget in minutes for each entry.

    [[measure]]
    name = "small"                     # left out: made from what it measures
    workload = ["report", "latency"]   # a list stands for each of its values
    checkpoint = "synthetic:small@0"
    tp = [2, 4]
    devices = "cpu"
    minutes = 30                       # for each of the four
    bisect = true                      # a loss in the trend queues a search for its commit
    looks = [5, 10, 20]                # any other field of a validation, but results, run and budget_minutes

Relative checkpoint folders start where the file lies.
"""

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from flows.parameters import KINDS, ValidationParameters

LISTS = ("workload", "checkpoint", "tp", "devices")
MINUTES = 90.0
LOOKS = (5, 10, 20)
_NOT_HERE = ("results", "run", "budget_minutes")
_KNOWN = sorted({"name", "minutes", "bisect", *ValidationParameters.model_fields} - set(_NOT_HERE))


class NightPlanError(ValueError):
    """A plan file that cannot be used. Names the file, the entry, the field, the value and what would be right."""


@dataclass(frozen=True)
class NightEntry:
    """One validation of the night. `parameters.results` is not set yet."""

    name: str
    parameters: ValidationParameters
    bisect: bool = False  # queue a bisection for each loss that the trend shows


def read_night(path: Path | None) -> list[NightEntry]:
    """The night's entries, in order; without a file the default validation at planned looks. Raises NightPlanError."""
    if path is None:
        return list(_expand(Path("nightly"), 1, {"minutes": MINUTES, "looks": list(LOOKS)}))
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NightPlanError(f"{path}: not readable as TOML: {error}") from error
    unknown = sorted(set(content) - {"measure"})
    if unknown:
        raise NightPlanError(f"{path}: {', '.join(unknown)}: unknown; a plan has entries [[measure]] and nothing else")
    tables = content.get("measure", [])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise NightPlanError(f"{path}: no entry [[measure]]: at least one is needed")
    entries = [entry for number, table in enumerate(tables, 1) for entry in _expand(path, number, table)]
    names = [entry.name for entry in entries]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise NightPlanError(f"{path}: {', '.join(twice)}: more than one entry of that name; give each its own `name`")
    return entries


def _expand(path: Path, number: int, table: Mapping[str, Any]) -> Iterator[NightEntry]:
    where = f"{path}: measure {number}" + (f" ({table['name']})" if "name" in table else "")
    for field in table:
        if field not in _KNOWN:
            hint = "; minutes is the budget here" if field == "budget_minutes" else ""
            raise NightPlanError(f"{where}: {field}: unknown{hint}; known are {', '.join(_KNOWN)}")
    choices = [_choices(table, field, where) for field in LISTS]
    for values in itertools.product(*choices):
        given = {field: value for field, value in zip(LISTS, values, strict=True) if value is not None}
        rest = {field: value for field, value in table.items() if field not in (*LISTS, "name", "minutes", "bisect")}
        rest["budget_minutes"] = table.get("minutes", MINUTES)
        rest.setdefault("kinds", KINDS)
        parameters = _validated(rest | given, where, path.parent)
        yield NightEntry(_name(table, parameters), parameters, _flag(table, "bisect", where))


def _flag(table: Mapping[str, Any], field: str, where: str) -> bool:
    value = table.get(field, False)
    if not isinstance(value, bool):
        raise NightPlanError(f"{where}: {field} {value!r}: must be true or false")
    return value


def _choices(table: Mapping[str, Any], field: str, where: str) -> list[Any]:
    value = table.get(field)
    if value == []:
        raise NightPlanError(f"{where}: {field}: an empty list measures nothing: name at least one value, or leave it out")
    return value if isinstance(value, list) else [value]


def _validated(values: dict[str, Any], where: str, base: Path) -> ValidationParameters:
    checkpoint = values.get("checkpoint")
    if isinstance(checkpoint, str) and not checkpoint.startswith("synthetic:"):
        folder = (base / checkpoint).absolute()
        if not (folder / "config.json").is_file():
            raise NightPlanError(f"{where}: checkpoint {folder}: no config.json there: not a checkpoint's folder")
        values = values | {"checkpoint": str(folder)}
    try:
        return ValidationParameters.model_validate(values)
    except ValidationError as error:
        raise NightPlanError("\n".join(f"{where}: {_fault(fault)}" for fault in error.errors())) from error


def _fault(fault: Mapping[str, Any]) -> str:
    message = str(fault["msg"]).removeprefix("Value error, ")
    if not fault["loc"]:
        return message
    field = "minutes" if fault["loc"][0] == "budget_minutes" else ".".join(map(str, fault["loc"]))
    return message if message.startswith(field) else f"{field} {fault['input']!r}: {message}"


def _name(table: Mapping[str, Any], parameters: ValidationParameters) -> str:
    """The given name, with what a list chose beside it; without one, what is measured."""
    varied = [str(getattr(parameters, field)) for field in LISTS if isinstance(table.get(field), list)]
    if "name" in table:
        return " ".join([str(table["name"]), *varied])
    checkpoint = parameters.checkpoint if parameters.checkpoint.startswith("synthetic:") else Path(parameters.checkpoint).name
    return f"{parameters.workload} tp{parameters.tp} {checkpoint} {parameters.devices}"
