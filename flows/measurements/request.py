"""What a measuring process is asked to do: request.json, typed."""

import json
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from storage.records import Source, Spec, first_fault

REQUEST_VERSION: Literal[1] = 1


class RequestError(ValueError):
    """A request that cannot be carried out. The message names the file, the field, its value and what would be right."""


class Request(BaseModel):
    """One measurement to make, with one build, in one process."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    request_version: Literal[1] = REQUEST_VERSION
    run_id: str = Field(min_length=1)
    measurement: str = Field(min_length=1)  # the plan's name for it
    spec: Spec
    build: Path  # folder with engine/ and build.json
    source: Source
    cache: Path | None = None  # where synthetic checkpoints are kept; None: the engine's own choice
    log: str | None = None  # path of this process's output, relative to the run's folder


class EngineExtra(BaseModel):
    """Options every kind takes in spec.extra: those of the session that are no part of the spec itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    isa: str = "auto"  # CPU kernel path
    prefill_rows: int = Field(default=256, ge=1)  # rows of one prefill step


ExtraT = TypeVar("ExtraT", bound=EngineExtra)


def load_request(path: Path) -> Request:
    """Read request.json. Raises RequestError."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RequestError(f"{path}: not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestError(f"{path}: found a {type(body).__name__}: must be an object with the field 'request_version'")
    try:
        request = Request.model_validate(body)
    except ValidationError as error:
        raise RequestError(f"{path}: {first_fault(error)}") from error
    needed = request.spec.prompt_tokens + request.spec.new_tokens
    if needed > request.spec.context:
        raise RequestError(
            f"{path}: field spec.context: found {request.spec.context}: must be at least prompt_tokens + new_tokens = {needed}"
        )
    return request


def dump_request(request: Request, path: Path) -> None:
    """Write request.json for a measuring process, whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(request.model_dump_json(indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def parse_extra(model: type[ExtraT], extra: dict[str, Any]) -> ExtraT:
    """The kind's own options, from spec.extra. Raises RequestError naming the field, its value and what is known."""
    try:
        return model.model_validate(extra)
    except ValidationError as error:
        known = ", ".join(model.model_fields)
        raise RequestError(f"request: spec.extra: {first_fault(error)}; known options: {known}") from error
