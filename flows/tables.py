"""The two tables of a run on a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from flows.summary import (
    LEVEL_HEADINGS,
    TARGET_HEADINGS,
    beside_lines,
    bought,
    level_rows,
    lone_request,
    target_lines,
    targets_rows,
)

_COLOURS = {"PASS": "green", "FAIL": "red", "INCONCLUSIVE": "yellow", "ERROR": "bold red"}
_LEFT = ("target", "leg", "metric", "mode", "verdict", "commit", "subject", "found", "why")
_PLAIN_WIDTH = 130  # where nothing says how wide the output is


def print_summary(summary: Mapping[str, Any]) -> None:
    """Targets with verdicts, then levels by mode, then what else a reader must know. To standard output."""
    console = _console()
    console.print(_table("Targets", TARGET_HEADINGS, [(*row[:-1], _coloured(row[-1])) for row in targets_rows(summary)]))
    console.print(lone_request(summary), markup=False)
    console.print(_table("Levels", LEVEL_HEADINGS, level_rows(summary)))
    console.print(bought(summary), markup=False, soft_wrap=True)
    for target in summary["targets"]:
        if target["status"] != "PASS" or target["flags"]:
            for line in target_lines(target):
                console.print(line, markup=False, soft_wrap=True)
    for note in (
        *beside_lines(summary),
        *summary["notes"],
        *(f"{failure['measurement']}: {failure['what']}" for failure in summary["failures"]),
    ):
        console.print(note, markup=False, soft_wrap=True)


def print_comparison(
    rows: Sequence[Sequence[str]], headings: Sequence[str], lines: Sequence[str], title: str = "Head against base"
) -> None:
    """One table, its last column coloured where it is a verdict, then what else a reader must know. To standard output."""
    console = _console()
    console.print(_table(title, headings, [(*row[:-1], _coloured(row[-1])) for row in rows]))
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in _LEFT else "right")
    for row in rows:
        table.add_row(*row)
    return table


def _coloured(verdict: str) -> str:
    colour = _COLOURS.get(verdict)
    return f"[{colour}]{verdict}[/{colour}]" if colour else verdict
