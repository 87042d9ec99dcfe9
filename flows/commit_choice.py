"""Which commits of a range a backfill measures, in which order, and which have their point already."""

import json
from collections.abc import Sequence
from pathlib import Path

from flows.verdicts.search import Node


def choose(nodes: Sequence[Node], every: int, everything: bool) -> list[Node]:
    """Commits to measure, oldest first: of those with one engine the first stands for all, then every N-th and the last.

    everything: commits that change nothing under test too.
    """
    seen: set[str] = set()
    distinct: list[Node] = []
    for node in nodes:
        if everything or node.engine not in seen:
            distinct.append(node)
        seen.add(node.engine)
    kept = distinct[::every]
    return kept if kept[-1] is distinct[-1] else [*kept, distinct[-1]]


def coarse_first(chosen: Sequence[Node]) -> list[Node]:
    """The ends, then the middle of the widest gap again and again: any beginning of it covers the range evenly."""
    last = len(chosen) - 1
    order = list(dict.fromkeys([last, 0]))
    gaps = [(0, last)]
    while gaps:
        gaps.sort(key=lambda gap: gap[0] - gap[1])
        low, high = gaps.pop(0)
        if high - low >= 2:
            middle = (low + high) // 2
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return [chosen[place] for place in order]


def measured_plans(results: Path) -> dict[str, str]:
    """By plan, the newest run that came to verdicts: it stands for every commit with that engine."""
    found: dict[str, str] = {}
    for path in sorted(results.glob("*/summary.json")):
        try:
            summary = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:  # not one of ours, or cut short by hand
            continue
        if summary.get("exit_code") in (0, 1, 3):
            found[str(summary.get("plan"))] = path.parent.name
    return found
