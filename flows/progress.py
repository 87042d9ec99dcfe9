"""What a person sees while a run goes on: what runs, how many are left, how long it will take.

The terminal is drawn between measurements only: nothing of ours runs beside one.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING

from storage.records import Record

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

logger = logging.getLogger("paceline")
_SHOWN = 160  # characters of a failure's message; the log has it whole


class Reporter:
    """Writes to the log alone: what a served flow uses. Terminals add to it."""

    def __init__(self) -> None:
        self.done, self.total, self.left_s = 0, 0, 0.0
        self.lock = Lock()  # both legs of a pair report, each from a thread of its own
        self._expected_s: dict[str, float] = {}  # of the measurements that run

    def note(self, text: str) -> None:
        """Say something worth a line."""
        logger.info(text)

    def remaining(self, done: int, total: int, left_s: float) -> None:
        """How far the run is: measurements done and planned, seconds left."""
        self.done, self.total, self.left_s = done, total, left_s

    def started(self, label: str, attempt: int, expected_s: float) -> None:
        """A measurement starts. `attempt` counts from 1."""
        self._expected_s[label] = expected_s
        again = "" if attempt == 1 else f", attempt {attempt}"
        logger.info("%s starts%s (about %s)", label, again, duration(expected_s))

    def finished(self, label: str, record: Record, wall_s: float) -> None:
        """A measurement ended, well or not."""
        if record.status in ("ok", "invalid"):
            with self.lock:
                self.done, self.left_s = self.done + 1, max(0.0, self.left_s - self._expected_s.pop(label, 0.0))
        self.note(f"{self.position()} {label}: {describe(record, wall_s)}")

    def position(self) -> str:
        """[ 3/24], as wide for the first as for the last."""
        width = len(str(self.total))
        return f"[{self.done:>{width}}/{self.total}]"

    def close(self) -> None:
        """Give the terminal back."""


def _say(line: str) -> None:
    """Nobody reading any more ends no run: all of it is in the run's log too."""
    with suppress(BrokenPipeError):
        print(line, file=sys.stderr, flush=True)


class PlainTerminal(Reporter):
    """Lines on standard error, for pipes and logs."""

    def note(self, text: str) -> None:
        super().note(text)
        _say(text)

    def started(self, label: str, attempt: int, expected_s: float) -> None:
        super().started(label, attempt, expected_s)
        again = "" if attempt == 1 else f" (attempt {attempt})"
        _say(f"{self.position()} {label}{again} ... about {duration(self.left_s)} left")


class LiveTerminal(Reporter):
    """One line that moves, below the lines that stay."""

    def __init__(self, console: "Console") -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        super().__init__()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
        self._bar: Progress = Progress(*columns, console=console, auto_refresh=False, transient=True)
        self._task: TaskID = self._bar.add_task("", total=None, left="")
        self._bar.start()

    def note(self, text: str) -> None:
        super().note(text)
        self._bar.console.print(text, markup=False, highlight=False)
        self._draw(text)

    def started(self, label: str, attempt: int, expected_s: float) -> None:
        super().started(label, attempt, expected_s)
        self._draw(label if attempt == 1 else f"{label} (attempt {attempt})")

    def close(self) -> None:
        self._bar.stop()

    def _draw(self, text: str) -> None:
        left = f"about {duration(self.left_s)} left" if self.total else ""
        description = text.partition("\n")[0][:60]
        self._bar.update(self._task, description=description, completed=self.done, total=self.total or None, left=left)
        self._bar.refresh()


_reporter: "ContextVar[Reporter | None]" = ContextVar("reporter", default=None)


def report() -> Reporter:
    """The reporter of this run; the log alone where nobody watches."""
    return _reporter.get() or Reporter()


@contextmanager
def on_terminal() -> Iterator[Reporter]:
    """Report to standard error: a line that moves on a terminal, plain lines elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    reporter: Reporter = LiveTerminal(console) if console.is_terminal else PlainTerminal()
    with reporting_to(reporter):
        yield reporter


@contextmanager
def reporting_to(reporter: Reporter) -> Iterator[None]:
    """Let what runs inside report there."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)
        reporter.close()


def describe(record: Record, wall_s: float = 0.0) -> str:
    """How a measurement ended, in one line. wall_s: of its process, where that is known."""
    if record.status in ("ok", "invalid") and (rounds := record.kept_rounds()):
        mean_s = sum(r.wall_s for r in rounds) / len(rounds)
        note = f" - invalid: {'; '.join(record.invalid_because)}" if record.invalid_because else ""
        in_all = f", {wall_s:.1f} s in all" if wall_s else ""
        return f"{mean_s:.3f} s a round{in_all}{note}"
    failure = record.failure
    if failure is None:
        return f"{record.status.upper()}: no reason recorded"
    first = failure.message.strip().partition("\n")[0]
    shown = first if len(first) <= _SHOWN else first[: _SHOWN - 3] + "..."
    log = f" (log: {failure.log})" if failure.log else ""
    return f"{record.status.upper()}: {failure.type}: {shown}{log}"


def duration(seconds: float) -> str:
    """1:05 or 2:03:04; below a minute 45 s."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
