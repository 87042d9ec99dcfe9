"""Which commit to measure next, and which are still suspected: bisection over a history with merges. Pure: names in, names out.

A commit found bad clears all that are not its ancestors; one found good clears itself and its ancestors; one that cannot be
judged stays suspected and is passed over. Commits with one engine are judged together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Literal

Found = Literal["good", "bad", "skip"]


@dataclass(frozen=True)
class Node:
    """A commit that may have done it. parents outside the suspected history do not matter."""

    commit: str
    parents: tuple[str, ...]
    engine: str  # names what would be built: equal engines behave alike


@dataclass(frozen=True)
class Standing:
    """What the findings leave: the suspects, oldest first, and the commit to measure next, None at the end."""

    suspects: tuple[str, ...]
    candidate: str | None
    passed_over: tuple[str, ...]  # suspects that could not be judged
    last_good: tuple[str, ...]  # what the suspects build on and is not suspected

    @property
    def culprit(self) -> str | None:
        """The one commit, where one is left."""
        return self.suspects[0] if len(self.suspects) == 1 else None


def standing(history: Sequence[Node], found: Mapping[str, Found]) -> Standing:
    """Narrow the suspects by what was found, in that order, by engine.

    history has parents before children; its last commit is the bad one, and every other is an ancestor of it. found begins with
    the engines of the good and of the bad end. Raises ValueError where the bad end was found good.
    """
    names = [node.commit for node in history]
    ancestors = _ancestors(history)
    left = ancestors[names[-1]]
    for engine, what in found.items():
        if what == "skip":
            continue
        for place, node in enumerate(history):
            if node.engine == engine and left >> place & 1:
                left &= ancestors[node.commit] if what == "bad" else ~ancestors[node.commit]
        if not left:
            raise ValueError(f"the engine of {names[-1]}, the bad end, was found good: there is nothing to search")
    inside = [node for place, node in enumerate(history) if left >> place & 1]
    suspects = tuple(node.commit for node in inside)
    skipped = tuple(node.commit for node in inside if found.get(node.engine) == "skip")
    open_nodes = [node for node in inside if node.engine not in found]
    before = {parent for node in inside for parent in node.parents} - set(suspects)
    places = {name: place for place, name in enumerate(names)}
    last_good = tuple(sorted(before, key=lambda name: (places.get(name, -1), name)))
    return Standing(suspects, _halving(open_nodes, ancestors, left), skipped, last_good)


def steps_needed(history: Sequence[Node]) -> int:
    """Measurements that a search over these needs where each can be judged, the one of the bad end included."""
    engines = len({node.engine for node in history})
    return 1 + ceil(log2(max(engines, 1)))


def _halving(nodes: Sequence[Node], ancestors: Mapping[str, int], left: int) -> str | None:
    """The one whose answer, whichever it is, clears most."""
    total = left.bit_count()

    def cleared(node: Node) -> int:
        inside = (ancestors[node.commit] & left).bit_count()
        return min(inside, total - inside)

    return max(nodes, key=cleared).commit if nodes else None


def _ancestors(history: Sequence[Node]) -> dict[str, int]:
    """By commit, one bit for itself and each of its ancestors in this history."""
    found: dict[str, int] = {}
    for place, node in enumerate(history):
        found[node.commit] = 1 << place
        for parent in node.parents:
            found[node.commit] |= found.get(parent, 0)
    return found
