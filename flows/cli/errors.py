"""How an error looks on the command line (one message, no traceback, exit code 2), and how a signal does (what is kept)."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

ERROR = 2
_CODES = {"SIGINT": 130, "SIGTERM": 143}  # as shells have it: 128 + the signal


@contextmanager
def told() -> Iterator[None]:
    """Turn the errors that have a message for people into that message; everything else is a bug and keeps its traceback."""
    from flows.build import BuildError
    from flows.plan import PlanError
    from flows.resume import RunTakenError
    from flows.server import ServerError
    from flows.settings import SettingsError
    from flows.source import SourceError
    from flows.verdicts.targets import TargetError
    from storage.errors import StoreError
    from storage.records import RecordError

    known = (
        BuildError,
        PlanError,
        RunTakenError,
        ServerError,
        SettingsError,
        SourceError,
        TargetError,
        StoreError,
        RecordError,
        OSError,
    )
    try:
        yield
    except known as error:
        fail(str(error))


@contextmanager
def stoppable(said: Callable[[], str]) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM end what runs in the body, and then the command, with what `said` returns by then."""
    from flows.signals import Terminated, sigterm_raises

    with sigterm_raises():
        try:
            yield
        except KeyboardInterrupt:
            stopped("SIGINT", said())
        except Terminated:
            stopped("SIGTERM", said())


def stopped(signal_name: str, message: str) -> NoReturn:
    """Print what is left of it and end with the exit code that shells give to the signal."""
    print(f"{signal_name}: stopped; {message}", file=sys.stderr)
    raise SystemExit(_CODES[signal_name])


def fail(message: str) -> NoReturn:
    """Print the message and end with exit code 2."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(ERROR)
