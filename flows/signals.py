"""SIGTERM unwinds the stack as Ctrl-C does, so that what a run started ends with it and what it measured is kept."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Terminated(BaseException):
    """SIGTERM came. As with KeyboardInterrupt, no handler of errors takes it for one."""


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """Raise Terminated at SIGTERM. Prefect puts its own handler on top during a flow and then calls this one."""

    def unwind(_number: int, _frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
