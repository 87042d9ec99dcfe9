"""What the turns come to: tables of speeds and ratios. Pure, but for printing."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from workload import NEW

OURS = "paceline"
Turn = Mapping[str, Any]  # subject -> its answer, with "read_bytes_per_s": [before, after]; failed subjects are left out


def speed(answer: Mapping[str, Any], width: int) -> float:
    """Generated tokens a second over whole requests: of the median round of one process."""
    return width * NEW / median(answer["walls"][str(width)])


def ratios(turns: Sequence[Turn], width: int) -> list[float]:
    """Ours over the better peer of the same turn, for each turn that has both."""
    found = []
    for turn in turns:
        peers = [speed(answer, width) for name, answer in turn.items() if name != OURS]
        if peers and OURS in turn:
            found.append(speed(turn[OURS], width) / max(peers))
    return found


def same_tokens(turn: Turn) -> dict[str, int]:
    """Peer -> how many of the first request's tokens are ours, counted to the first that is not."""
    if OURS not in turn:
        return {}
    ours = turn[OURS]["first"]
    counts = {}
    for name, answer in turn.items():
        if name != OURS:
            pairs = zip(ours, answer["first"], strict=True)
            counts[name] = next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), NEW)
    return counts


def show(console: Console, title: str, turns: Sequence[Turn], widths: Sequence[int]) -> None:
    """Two tables, and what the subjects say of themselves."""
    names = list(dict.fromkeys(name for turn in turns for name in turn))
    _show_speeds(console, title, turns, names, widths)
    if any(ratios(turns, width) for width in widths):
        _show_ratios(console, turns, widths)
    for name in names:
        answer = next(turn[name] for turn in turns if name in turn)
        console.print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in answer["settings"].items()), style="dim")
    for name, count in same_tokens(turns[0]).items():
        console.print(f"{name}: the first {count} of {NEW} tokens of the first request are ours", style="dim")


def _show_speeds(console: Console, title: str, turns: Sequence[Turn], names: Sequence[str], widths: Sequence[int]) -> None:
    table = Table(title=f"{title}: generated tok/s (speed-up over {widths[0]} at once), median of {len(turns)} turns")
    table.add_column("subject")
    for width in widths:
        table.add_column(f"{width} at once", justify="right")
    table.add_column(f"request of {widths[0]}, ms", justify="right")
    table.add_column("memory read GB/s", justify="right")
    for name in names:
        answers = [turn[name] for turn in turns if name in turn]
        speeds = [median(speed(answer, width) for answer in answers) for width in widths]
        cells = [f"{value:.1f} ({value / speeds[0]:.2f}x)" for value in speeds]
        alone = median(median(answer["walls"][str(widths[0])]) for answer in answers)
        read = [value / 1e9 for answer in answers for value in answer["read_bytes_per_s"]]
        table.add_row(name, *cells, f"{alone * 1e3:.0f}", f"{min(read):.1f} to {max(read):.1f}")
    console.print(table)


def _show_ratios(console: Console, turns: Sequence[Turn], widths: Sequence[int]) -> None:
    table = Table(title=f"{OURS} over the better peer of the same turn")
    for name in ("at once", "median", "range", "turns"):
        table.add_column(name, justify="right")
    for width in widths:
        found = ratios(turns, width)
        if found:
            table.add_row(str(width), f"{median(found):.2f}", f"{min(found):.2f} to {max(found):.2f}", str(len(found)))
    console.print(table)
