"""Settings of `paceline up`, resolved as the others are: command line, PACELINE_UP_* variables, the table [up], defaults."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import SettingsConfigDict

from flows.server import local_url
from flows.settings import CONFIG_FILE, UP_PREFIX, UP_TABLE, FromTable, HostSettings, SettingsError, local_time_zone, read_config

LOOPBACK = ("127.0.0.1", "::1", "localhost")
PLAN_FILE = Path("nightly.toml")
_CRON = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))  # minute, hour, day, month, weekday: least and most


class UpSettings(FromTable):
    """What the service serves, where and when. Never a flow's parameter."""

    model_config = SettingsConfigDict(
        env_prefix=UP_PREFIX, extra="forbid", frozen=True, enable_decoding=False, env_ignore_empty=True
    )

    address: str = Field(
        default="127.0.0.1",
        min_length=1,
        max_length=255,
        description="Address the Prefect server listens on. Another one than loopback needs PREFECT_SERVER_API_AUTH_STRING.",
    )
    port: int = Field(default=4200, ge=1, le=65535, description="Port of the Prefect server and its UI.")
    pages_port: int = Field(
        default=4201, ge=0, le=65535, description="Port on loopback where the site and the runs' pages are read; 0: none."
    )
    schedule: str = Field(
        default="0 2 * * *", description="When the nightly runs, as cron has it: minute hour day month weekday."
    )
    timezone: str = Field(
        default_factory=local_time_zone, description="Time zone of the schedule, such as Europe/Berlin. Left out: this machine's."
    )
    plan: Path | None = Field(
        default_factory=lambda: PLAN_FILE if PLAN_FILE.is_file() else None,
        description="Plan file: what a night measures. Left out: nightly.toml of the current folder, else one entry.",
    )
    results: Path = Field(default=Path("results"), description="Results folder of all runs that are served.")
    checkpoints: tuple[Path, ...] = Field(
        default=(),
        description=f"Folders whose checkpoints can be chosen in the form, separated by {os.pathsep!r}; "
        "synthetic ones always can.",
    )
    notify: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9-]+/[a-z0-9-]+$",
        description="Prefect notification block that hears of changed verdicts, such as slack-webhook/team.",
    )
    commit_url: str | None = Field(
        default=None, pattern=r"\{commit\}", description="Address of a commit for the site's links, with {commit} in it."
    )

    @classmethod
    def table(cls) -> dict[str, Any]:
        """The [up] table of paceline.toml."""
        table = read_config().get(UP_TABLE, {})
        if not isinstance(table, dict):
            raise SettingsError(f"{CONFIG_FILE}: {UP_TABLE}: found {table!r}: must be a table, [up]")
        return table

    @field_validator("checkpoints", mode="before")
    @classmethod
    def _split_paths(cls, value: Any) -> Any:
        return tuple(part for part in value.split(os.pathsep) if part) if isinstance(value, str) else value

    @field_validator("checkpoints")
    @classmethod
    def _folders_exist(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        for folder in value:
            if not folder.is_dir():
                raise ValueError(f"{folder}: not a folder")
        return tuple(folder.resolve() for folder in value)

    @field_validator("schedule")
    @classmethod
    def _is_cron(cls, value: str) -> str:
        parts = value.split()
        if len(parts) != len(_CRON) or not all(_fits(part, *bounds) for part, bounds in zip(parts, _CRON, strict=True)):
            raise ValueError("must be five cron fields, such as '0 2 * * *' for two o'clock each night")
        return value

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in available_timezones():
            raise ValueError("no such time zone; one is called like Europe/Berlin or UTC")
        return value

    @property
    def public(self) -> bool:
        """Whether other machines can reach the server."""
        return self.address not in LOOPBACK

    @property
    def api_url(self) -> str:
        """Where this machine reaches the server."""
        return local_url(self.address, self.port)

    @property
    def pages_url(self) -> str | None:
        """Where the pages are read; None where they are not served."""
        return f"http://127.0.0.1:{self.pages_port}" if self.pages_port else None


def load_up(overrides: Mapping[str, Any] | None = None) -> UpSettings:
    """Resolve the service's settings. Raises SettingsError, a line a fault."""
    given = dict(overrides or {})
    try:
        return UpSettings(**given)
    except ValidationError as error:
        raise SettingsError("\n".join(_fault(fault, given) for fault in error.errors())) from error


def variables(settings: UpSettings, host: HostSettings) -> dict[str, str]:
    """Environment that gives a process started elsewhere these very settings."""
    up = {f"{UP_PREFIX}{name.upper()}": _text(value) for name, value in settings.model_dump().items()}
    own = {f"PACELINE_{name.upper()}": _text(value) for name, value in host.model_dump().items()}
    return {name: value for name, value in (up | own).items() if value}


def _fits(part: str, least: int, most: int) -> bool:
    """Whether a cron field is well formed: * or numbers (or names of days and months), ranges, lists, steps."""
    for item in part.split(","):
        span, _, step = item.partition("/")
        if not re.fullmatch(r"\*|\d+(-\d+)?|[A-Za-z]{3}(-[A-Za-z]{3})?", span) or (step and not re.fullmatch(r"[1-9]\d*", step)):
            return False
        if item.endswith("/") or not all(least <= int(number) <= most for number in re.findall(r"\d+", span)):
            return False
    return True


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return os.pathsep.join(map(str, value))
    return str(value.absolute() if isinstance(value, Path) else value)


def _fault(fault: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    field = str(fault["loc"][0]) if fault["loc"] else ""
    variable = UP_PREFIX + field.upper()
    if field in given:
        source = f"--{field.replace('_', '-')}"
    else:
        source = variable if field not in UpSettings.table() else f"{CONFIG_FILE}: {UP_TABLE}.{field}"
    if fault["type"] == "extra_forbidden":
        return f"{source}: unknown; known are {', '.join(sorted(UpSettings.model_fields))}"
    return f"{source} {fault['input']}: {str(fault['msg']).removeprefix('Value error, ')}"
