"""Where settings come from: the command line over PACELINE_* variables over paceline.toml over defaults.

The only module that reads the environment. It also sets Prefect's environment, which must be complete before Prefect is imported.
"""

import base64
import os
import tomllib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from flows.parameters import ValidationParameters

CONFIG_FILE = Path("paceline.toml")
PREFIX = "PACELINE_"
UP_PREFIX = "PACELINE_UP_"  # what `paceline up` alone reads: flows/up_settings.py
HOST_TABLE = "host"
UP_TABLE = "up"

# Nothing leaves the machine, and nothing asks for attention. A value of the user's own is never replaced.
_QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "90",
}
# For the server that lives and dies with one run: no schedules to keep, no logs or events that anyone will look up, and as little
# as possible that polls beside a measurement (about 1 % of a core is left).
_OWN_SERVER = {
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_FOREMAN_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_CANCELLATION_CLEANUP_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_REPOSSESSOR_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_CLEANUP_RECONCILER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "false",
    "PREFECT_UI_ENABLED": "false",
}


_host: "ContextVar[HostSettings | None]" = ContextVar("host", default=None)


class SettingsError(ValueError):
    """A setting that cannot be used. One line a fault, each naming where the value came from."""


class FromTable(BaseSettings):
    """Reads init values (command line), then PACELINE_* variables, then one table of paceline.toml."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, enable_decoding=False, env_ignore_empty=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The order of precedence, first wins."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=cls.table())

    @classmethod
    @abstractmethod
    def table(cls) -> dict[str, Any]:
        """The values of paceline.toml that belong to this model."""


class _Parameters(FromTable, ValidationParameters):  # type: ignore[misc]  # both configurations agree: forbid, frozen
    @classmethod
    def table(cls) -> dict[str, Any]:
        return {name: value for name, value in read_config().items() if name not in (HOST_TABLE, UP_TABLE)}


class HostSettings(FromTable):
    """What belongs to the machine and is never a flow's parameter: folders of code, caches, the compiler."""

    cache: Path = Field(
        default_factory=lambda: Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paceline",
        description="Builds and Prefect's own database. Left out: paceline below $XDG_CACHE_HOME or ~/.cache.",
    )
    repo: Path | None = Field(default=None, description="Source tree with native/ and engine/. Left out: the current folder.")
    commit: str | None = Field(
        default=None,
        min_length=1,
        max_length=400,
        description="Commit, branch or tag to measure, in place of the tree as it stands.",
    )
    build: Path | None = Field(default=None, description="Existing build folder to measure, in place of building one.")
    targets: Path | None = Field(
        default_factory=lambda: Path("targets.toml") if Path("targets.toml").is_file() else None,
        description="Targets file. Left out: targets.toml of the current folder, else the four built in.",
    )
    compiler: str = Field(
        default_factory=lambda: os.environ.get("CXX") or "c++", description="C++ compiler. Left out: $CXX, else c++."
    )
    flags: str = Field(
        default_factory=lambda: os.environ.get("CXXFLAGS", ""), description="More flags for the compiler. Left out: $CXXFLAGS."
    )
    cuda: str = Field(
        default="",
        pattern=r"^[0-9a-z;-]*$",
        description="GPU architectures to build the CUDA backend for, in CMake's words (90a-real;75-virtual). Left out: none.",
    )
    build_minutes: float = Field(default=30.0, gt=0, description="Longest time for a build, and for a commit's own tests.")
    own_tests: str | None = Field(
        default=None,
        min_length=1,
        max_length=400,
        pattern="^[^-]",
        description="Tests of each measured commit to run before it is measured, as its pytest takes them, such as tests/unit. "
        "Left out: none.",
    )
    builds_gb: float = Field(
        default=2.0,
        gt=0,
        allow_inf_nan=False,
        description="Most that kept builds may take, in GB; beyond it those used longest ago go. Builds in use stay.",
    )
    wait_minutes: float = Field(
        default=0.0,
        ge=0,
        le=24 * 60,
        description="Longest wait for a quiet machine; 0: measure and say so. Left out, paceline up waits 30.",
    )

    @model_validator(mode="after")
    def _one_engine(self) -> Self:
        if self.commit is not None and self.build is not None:
            raise ValueError(f"commit {self.commit}: a build is named too ({self.build}); name one of the two")
        return self

    @classmethod
    def table(cls) -> dict[str, Any]:
        """The [host] table of paceline.toml."""
        host = read_config().get(HOST_TABLE, {})
        if not isinstance(host, dict):
            raise SettingsError(f"{CONFIG_FILE}: {HOST_TABLE}: found {host!r}: must be a table, [host]")
        return host


def read_config() -> dict[str, Any]:
    """paceline.toml of the current folder; empty where there is none. Raises SettingsError for a file that is not TOML."""
    try:
        return tomllib.loads(CONFIG_FILE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"{CONFIG_FILE}: not readable as TOML: {error}") from error


def load_parameters(overrides: Mapping[str, Any]) -> ValidationParameters:
    """Resolve the validation's parameters. `overrides` are the command line's, without those left out. Raises SettingsError."""
    _refuse_unknown_variables()
    try:
        resolved = _Parameters(**overrides)
    except ValidationError as error:
        raise SettingsError(explain(error, overrides)) from error
    return ValidationParameters.model_validate(resolved.model_dump())


def _refuse_unknown_variables() -> None:
    known = {PREFIX + name.upper() for name in (*ValidationParameters.model_fields, *HostSettings.model_fields)}
    given = [name for name in os.environ if name.startswith(PREFIX) and not name.startswith(UP_PREFIX)]
    unknown = sorted(name for name in given if name not in known)
    if unknown:
        raise SettingsError(f"{', '.join(unknown)}: unknown; known are {', '.join(sorted(known))}")


def load_host(overrides: Mapping[str, Any] | None = None) -> HostSettings:
    """Resolve the machine's settings. Raises SettingsError."""
    try:
        return HostSettings(**(overrides or {}))
    except ValidationError as error:
        raise SettingsError(explain(error, overrides or {})) from error


@contextmanager
def use_host(host: HostSettings) -> Iterator[None]:
    """Let flows that run inside take these settings, which the command line resolved."""
    token = _host.set(host)
    try:
        yield
    finally:
        _host.reset(token)


def current_host() -> HostSettings:
    """The settings of the command line that runs us, else those of the environment and paceline.toml."""
    return _host.get() or load_host()


def explain(error: ValidationError, overrides: Mapping[str, Any]) -> str:
    """One line a fault: source of the value, the value, what would be right."""
    faults = error.errors()
    # Pydantic counts only the items that passed: a list whose items are refused would be called too short as well.
    refused = {fault["loc"][0] for fault in faults if len(fault["loc"]) > 1}
    told = [fault for fault in faults if fault["type"] != "too_short" or fault["loc"][0] not in refused]
    return "\n".join(_explain_one(fault, overrides) for fault in told)


def _explain_one(fault: Mapping[str, Any], overrides: Mapping[str, Any]) -> str:
    where: Sequence[Any] = fault["loc"]
    message = str(fault["msg"]).removeprefix("Value error, ")
    if not where:
        return message
    field = str(where[0])
    if field in overrides:
        source = f"--{field.replace('_', '-')}"
    elif PREFIX + field.upper() in os.environ:
        source = PREFIX + field.upper()
    else:
        source = f"{CONFIG_FILE}: {field}"
    if fault["type"] == "extra_forbidden":
        return f"{source}: unknown; known are {', '.join(sorted(ValidationParameters.model_fields))} and the table [{HOST_TABLE}]"
    if message.startswith(field):
        return message
    return f"{source} {_given(fault['input'])}: {message}"


def _given(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def prefect_api_url() -> str | None:
    """The Prefect server the user wants joined; None where the run brings its own."""
    return os.environ.get("PREFECT_API_URL") or None


def prepare_prefect(cache: Path, log_level: str = "INFO") -> None:
    """Set Prefect's environment, before its first import, without replacing what the user set.

    Where no server is to be joined, Prefect's home is ours, so that the user's profiles and database stay untouched.
    """
    wanted = dict(_QUIET)
    if prefect_api_url() is None:
        wanted |= _OWN_SERVER | {"PREFECT_HOME": str(cache / "prefect"), "PREFECT_LOGGING_LEVEL": log_level}
        wanted |= {"PREFECT_SERVER_LOGGING_LEVEL": "WARNING"}
        if any(os.environ.get(name) for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")):
            wanted |= {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    for name, value in wanted.items():
        os.environ.setdefault(name, value)


def server_auth() -> str | None:
    """Prefect's own setting that asks everyone for a user and a password: user:password."""
    return os.environ.get("PREFECT_SERVER_API_AUTH_STRING") or None


def api_authorization() -> str | None:
    """The header by which Prefect's client would name itself to a server that is joined; None where the user set nothing."""
    if key := os.environ.get("PREFECT_API_KEY"):
        return f"Bearer {key}"
    given = os.environ.get("PREFECT_API_AUTH_STRING")
    return f"Basic {base64.b64encode(given.encode()).decode()}" if given else None


def local_time_zone() -> str:
    """Name of this machine's time zone, as the IANA database has it; UTC where none is set."""
    named = os.environ.get("TZ", "").removeprefix(":")
    target = os.path.realpath("/etc/localtime")
    return named or (target.partition("/zoneinfo/")[2] if "/zoneinfo/" in target else "") or "UTC"


def set_defaults(values: Mapping[str, str]) -> None:
    """Set variables for Prefect, not imported yet, and for what this process starts; the user's own stay."""
    for name, value in values.items():
        os.environ.setdefault(name, value)


def hand_down(values: Mapping[str, str]) -> None:
    """Set variables for what this process starts: settings that were resolved here hold there too."""
    os.environ.update(values)


def quiet_prefect() -> dict[str, str]:
    """Variables that keep any Prefect process from telling or asking anyone anything."""
    return dict(_QUIET)


def join_prefect(api_url: str) -> None:
    """Point Prefect, not imported yet, at a server."""
    os.environ["PREFECT_API_URL"] = api_url


def harness_environment() -> dict[str, str]:
    """Environment of a measuring program: the harness that the parent runs, and packages from where the parent has them."""
    harness, given = str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH")
    return child_environment({"PYTHONPATH": f"{harness}{os.pathsep}{given}" if given else harness})


def outside_git_hooks() -> dict[str, str]:
    """Environment for git commands on a repository named by its folder: in a hook, git's own variables would name another."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment of a process that this one starts."""
    return {**os.environ, **(extra or {})}
