"""How an error looks on the command line: one message, no traceback, exit code 2."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

ERROR = 2


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


def fail(message: str) -> NoReturn:
    """Print the message and end with exit code 2."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(ERROR)
