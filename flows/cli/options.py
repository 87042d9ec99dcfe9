"""Options of the command line made from the models' own fields: description, bounds and default stand in one place."""

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

Command = Callable[..., None]


class Mode(StrEnum):
    """How the engine serves."""

    serial = "serial"
    batch = "batch"


def with_fields(*models: type[BaseModel], leave_out: Iterable[str] = ()) -> Callable[[Command], Command]:
    """Give a command one option a field; the function gets what was given on the command line, by field name.

    Options left out are absent, so that PACELINE_* variables, paceline.toml and defaults apply.
    """
    fields = {name: field for model in models for name, field in model.model_fields.items() if name not in leave_out}

    def decorate(function: Command) -> Command:
        own = [p for name, p in inspect.signature(function).parameters.items() if name != "given"]
        signature = inspect.Signature([*own, *(_parameter(name, field) for name, field in fields.items())])

        def command(**values: Any) -> None:
            given = {name: values.pop(name) for name in fields}
            function({name: value for name, value in given.items() if value is not None}, **values)

        command.__signature__ = signature  # type: ignore[attr-defined]  # what typer reads
        command.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        return command

    return decorate


def option_name(field: str) -> str:
    """--new-tokens for new_tokens."""
    return f"--{field.replace('_', '-')}"


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    kind = _command_line_type(field.annotation)
    declaration = f"{option_name(name)}/--no-{name.replace('_', '-')}" if kind is bool else option_name(name)
    choices = _choices(field.annotation)
    option = typer.Option(
        declaration,
        help=field.description,
        show_default=_shown(field),
        metavar="|".join(choices) if choices else None,
    )
    annotation = Annotated[typing.Optional[kind], option]  # type: ignore[valid-type]  # noqa: UP045
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _command_line_type(annotation: Any) -> type:
    """int, float and bool as they are; lists, choices and paths as text, which the model reads."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        present = [argument for argument in typing.get_args(annotation) if argument is not type(None)]
        return _command_line_type(present[0])
    return annotation if annotation in (int, float, bool) else str


def _choices(annotation: Any) -> tuple[str, ...]:
    return typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else ()


def _shown(field: FieldInfo) -> str | bool:
    """The default as a person would write it; no text where the description says what happens."""
    default = field.default if field.default_factory is None else None
    if default is None or default == ():
        return False
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default)


def split(given: Mapping[str, Any], model: type[BaseModel]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What belongs to the model, and the rest."""
    inside = {name: value for name, value in given.items() if name in model.model_fields}
    return inside, {name: value for name, value in given.items() if name not in inside}
