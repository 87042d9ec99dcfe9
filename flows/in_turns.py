"""The parent's side of a pair that measures in turns: a seat for each leg, and both legs under way at once.

Both processes are loaded, and one of them works at a time (flows/measurements/turns.py).
"""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

from flows.attempt import Run, Seat, attempt
from flows.plan import Measurement
from storage.records import Record

_T = TypeVar("_T")
Waiter = Callable[[], _T]  # waits for a leg, and returns what became of it


def in_turns(
    legs: tuple[Measurement, Measurement], runs: tuple[Run, Run], begin: Callable[[Measurement, Run, Seat], Waiter[_T]]
) -> tuple[_T, _T]:
    """Begin both legs, the first with the turn, and wait for both. `begin` must not block.

    Whatever is raised meanwhile, KeyboardInterrupt too, ends both processes and is raised again.
    """
    stop = threading.Event()
    limits = [run.expectations.deadline_s(leg.spec) for leg, run in zip(legs, runs, strict=True)]
    seats = [Seat(end, place, limits[1 - place], stop) for place, end in enumerate(socket.socketpair())]
    waiters: list[Waiter[_T]] = []
    try:
        for leg, run, seat in zip(legs, runs, seats, strict=True):
            waiters.append(begin(leg, run, seat))  # one by one: what was begun is waited for
        first, second = (wait() for wait in waiters)
        return first, second
    except BaseException:
        stop.set()
        for wait in waiters:
            with suppress(Exception):
                wait()
        raise
    finally:
        for seat in seats:
            seat.release()


def attempt_in_turns(legs: tuple[Measurement, Measurement], runs: tuple[Run, Run]) -> tuple[Record, Record]:
    """One attempt at each leg, in threads of this process. Raises as `in_turns` does."""
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="leg") as pool:

        def begin(leg: Measurement, run: Run, seat: Seat) -> Waiter[Record]:
            return pool.submit(copy_context().run, attempt, leg, run, seat).result

        return in_turns(legs, runs, begin)
