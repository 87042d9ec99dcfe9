"""What a person sees while a run goes on."""

import io
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from flows.parameters import ValidationParameters
from flows.plan import measurement_of
from flows.progress import LiveTerminal, PlainTerminal, describe, duration, on_terminal, report
from storage.records import Failure, Record, RequestSample, RoundSample, Source, Status

ROOT = Path(__file__).parents[3]


def record(status: Status = "ok", failure: Failure | None = None, invalid: tuple[str, ...] = ()) -> Record:
    now = datetime.now(UTC)
    request = RequestSample(
        index=0,
        prompt_tokens=1,
        output_tokens=1,
        e2el_s=0.5,
        ttft_s=None,
        queue_s=None,
        finish_reason="length",
        tokens_sha256="x",
    )
    rounds = [RoundSample(index=n, warmup=n == 0, wall_s=0.5 + n, requests=[request]) for n in range(3)]
    return Record(
        record_id="id",
        run_id="r",
        measurement="m",
        status=status,
        started_at=now,
        finished_at=now,
        spec=measurement_of(ValidationParameters(), 1, 2, "batch", 0).spec,
        source=Source(commit="unknown", dirty=False, tree="t"),
        environment=None,
        rounds=rounds,
        failure=failure,
        invalid_because=list(invalid),
    )


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (65, "1:05"), (3723, "1:02:03")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_good_measurement_shows_its_kept_rounds() -> None:
    assert describe(record(), 4.0) == "2.000 s a round, 4.0 s in all"
    assert describe(record("invalid", invalid=("slots not filled",)), 4.0).endswith("invalid: slots not filled")


def test_a_bad_one_shows_why_in_one_line_and_where_its_log_is() -> None:
    failure = Failure(type="ProcessEnded", message="ended by SIGKILL after 1.0 s\nlast line", log="logs/m.log")
    assert describe(record("killed", failure), 1.0) == "KILLED: ProcessEnded: ended by SIGKILL after 1.0 s (log: logs/m.log)"


def test_plain_lines_say_what_runs_how_many_are_left_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = PlainTerminal()
    terminal.remaining(2, 24, 95.0)
    terminal.started("serial x4 pair 1/3", 1, 5.0)
    terminal.finished("serial x4 pair 1/3", record(), 4.0)
    terminal.started("batch x4 pair 1/3", 2, 5.0)
    assert capsys.readouterr().err.splitlines() == [
        "[ 2/24] serial x4 pair 1/3 ... about 1:35 left",
        "[ 3/24] serial x4 pair 1/3: 2.000 s a round, 4.0 s in all",
        "[ 3/24] batch x4 pair 1/3 (attempt 2) ... about 1:30 left",
    ]


@pytest.fixture
def screen() -> Iterator[tuple[LiveTerminal, io.StringIO]]:
    out = io.StringIO()
    terminal = LiveTerminal(Console(file=out, force_terminal=True, width=100))
    yield terminal, out
    terminal.close()


def test_a_terminal_shows_them_on_a_line_that_moves(screen: tuple[LiveTerminal, io.StringIO]) -> None:
    terminal, out = screen
    terminal.remaining(2, 24, 95.0)
    terminal.started("serial x4 pair 1/3", 1, 5.0)
    shown = out.getvalue()
    assert "serial x4 pair 1/3" in shown
    assert "2/24" in shown
    assert "about 1:35 left" in shown


def test_nobody_watching_means_the_log_alone(capsys: pytest.CaptureFixture[str]) -> None:
    report().note("said")
    with on_terminal() as terminal:
        assert report() is terminal
    assert report() is not terminal
    assert capsys.readouterr().err == ""


def test_a_reader_that_went_away_ends_nothing() -> None:
    """As `2>&1 | head` leaves it."""
    program = "import sys; from flows.progress import PlainTerminal; t = PlainTerminal(); sys.stdin.read()\n"
    program += "for _ in range(3): t.note('a line')\nprint('to the end')"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stderr.close()
        process.stdin.close()
        assert process.stdout.read() == "to the end\n"
