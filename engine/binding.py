"""The one door to the compiled module: loads it, checks that it is the one this Python side needs, maps its exceptions."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from engine.errors import BindingError, CheckpointError, ConfigError, EngineClosed, EngineError, OutOfMemory, RequestRefused

API_VERSION = 1
REBUILD = "rebuild it from the project's root: make native (or: python -m pip install --no-build-isolation -e .)"
_NEEDED = {
    "": ("build_info", "isa_paths", "ModelConfig", "EngineOptions", "MatrixPart", "Engine", "Request", "NativeError"),
    "Engine": (
        "set_matrix",
        "set_vector",
        "set_embedding",
        "finish_loading",
        "submit",
        "submit_all",
        "stats",
        "facts",
        "reset_peaks",
        "memory",
        "step_bytes",
        "close",
    ),
    "Request": ("wait", "wait_tokens", "tokens", "token_times_ns", "logits", "cancel"),
}
_ERRORS: dict[str, type[EngineError]] = {
    "ConfigError": ConfigError,
    "WeightError": CheckpointError,
    "OutOfMemoryError": OutOfMemory,
    "RequestRefused": RequestRefused,
    "EngineClosed": EngineClosed,
}


@cache
def native() -> Any:
    """The compiled module, loaded at the first call. Raises BindingError with the command that rebuilds it."""
    try:
        from engine import _native
    except ImportError as error:
        raise BindingError(f"engine._native: cannot be imported ({error}); {REBUILD}") from error
    check_module(_native)
    return _native


def check_module(module: ModuleType) -> None:
    """Whether `module` is of this API version and complete, the batch scheduler included. Raises BindingError."""
    where = getattr(module, "__file__", None) or module.__name__
    found = getattr(module, "API_VERSION", None)
    if found != API_VERSION:
        raise BindingError(f"{where}: API_VERSION: found {found!r}, expected {API_VERSION}; {REBUILD}")
    for owner, names in _NEEDED.items():
        holder = getattr(module, owner) if owner else module
        missing = [f"{owner}.{name}" if owner else name for name in names if not hasattr(holder, name)]
        if missing:
            raise BindingError(f"{where}: built without {', '.join(missing)}; {REBUILD}")


def build_info() -> dict[str, Any]:
    """How the module was built: compiler, flags, build_type, isa_paths, backends. Raises BindingError."""
    return dict(native().build_info())


@contextmanager
def translated(what: str = "") -> Iterator[None]:
    """Turn the module's exceptions into the engine's own, `what` put before the message."""
    module = native()
    try:
        yield
    except module.NativeError as error:
        known = next((_ERRORS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _ERRORS), EngineError)
        raise known(f"{what}: {error}" if what else str(error)) from error
