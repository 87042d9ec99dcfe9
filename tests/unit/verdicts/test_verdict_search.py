"""Bisection over histories with merges, commits that cannot be judged, and engines that several commits share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.verdicts.search import Found, Node, Standing, standing, steps_needed


def line(count: int) -> list[Node]:
    """c1 to cN, one after the other, on top of `good`."""
    return [Node(f"c{i}", (f"c{i - 1}" if i > 1 else "good",), f"e{i}") for i in range(1, count + 1)]


def search(history: list[Node], culprit: str, skips: tuple[str, ...] = ()) -> tuple[Standing, int]:
    """Answer for a commit as its history has it: bad where the culprit is itself or an ancestor. Returns the steps too."""
    parents = {node.commit: node.parents for node in history}

    def bad(commit: str) -> bool:
        return commit == culprit or any(bad(parent) for parent in parents.get(commit, ()))

    engines = {node.commit: node.engine for node in history}
    found: dict[str, Found] = {"good": "good", history[-1].engine: "bad"}
    for step in range(100):
        where = standing(history, found)
        if where.candidate is None:
            return where, step
        assert engines[where.candidate] not in found, "nothing is measured twice"
        answer: Found = "skip" if where.candidate in skips else "bad" if bad(where.candidate) else "good"
        found[engines[where.candidate]] = answer
    pytest.fail("it does not end")


@pytest.mark.parametrize("culprit", range(1, 12))
def test_any_commit_of_a_line_is_found_in_few_steps(culprit: int) -> None:
    history = line(11)
    where, steps = search(history, f"c{culprit}")
    assert (where.culprit, where.candidate) == (f"c{culprit}", None)
    assert where.last_good == (f"c{culprit - 1}" if culprit > 1 else "good",)
    assert steps <= steps_needed(history) - 1 == 4


def test_a_commit_that_cannot_be_judged_is_passed_over() -> None:
    where, _ = search(line(9), "c7", skips=("c5",))
    assert where.culprit == "c7"


def test_what_cannot_be_told_apart_is_a_range() -> None:
    where, _ = search(line(9), "c5", skips=("c4", "c5"))
    assert (where.suspects, where.passed_over, where.culprit) == (("c4", "c5", "c6"), ("c4", "c5"), None)
    assert where.last_good == ("c3",)


def test_a_side_branch_is_searched_and_the_main_line_cleared() -> None:
    history = [
        Node("m1", ("good",), "m1"),
        Node("s1", ("good",), "s1"),
        Node("s2", ("s1",), "s2"),
        Node("m2", ("m1",), "m2"),
        Node("merge", ("m2", "s2"), "merge"),
    ]
    assert search(history, "s1")[0].culprit == "s1"
    assert search(history, "m2")[0].culprit == "m2"
    assert search(history, "merge")[0].culprit == "merge"


def test_commits_with_one_engine_are_judged_together() -> None:
    """Texts change nothing: they are not measured, and the commit that changed the engine is named."""
    history = [Node(f"c{i}", (f"c{i - 1}",), engine) for i, engine in enumerate(["a", "a", "b", "b", "b", "c"], 1)]
    where, steps = search(history, "c3")
    assert (where.culprit, steps) == ("c3", 2)


def test_a_loss_that_was_taken_back_and_came_again_is_found_where_it_came_again() -> None:
    history = [Node("c1", ("g",), "bad"), Node("c2", ("c1",), "good"), Node("c3", ("c2",), "x"), Node("c4", ("c3",), "bad")]
    where = standing(history, {"good": "good", "bad": "bad", "x": "good"})
    assert where.culprit == "c4"


def test_one_engine_on_both_ends_is_refused() -> None:
    with pytest.raises(ValueError, match="c1, the bad end, was found good"):
        standing([Node("c1", ("g",), "same")], {"same": "good"})


@given(st.data())
def test_any_history_is_searched_to_its_end(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 14))
    history = []
    for i in range(1, count + 1):
        known = [node.commit for node in history] or ["good"]
        chosen = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=2, unique=True))
        history.append(Node(f"c{i}", tuple(chosen), f"e{i}"))
    reached: set[str] = set()
    waiting = [history[-1].commit]
    while waiting:
        commit = waiting.pop()
        reached.add(commit)
        waiting += [p for node in history if node.commit == commit for p in node.parents if p != "good"]
    history = [node for node in history if node.commit in reached]
    culprit = data.draw(st.sampled_from([node.commit for node in history]))
    skips = tuple(data.draw(st.lists(st.sampled_from([node.commit for node in history]), max_size=3)))
    where, steps = search(history, culprit, skips)
    assert culprit in where.suspects
    assert steps < len(history) or steps == 0
    assert where.culprit == culprit or set(where.passed_over), "only what was passed over leaves a range"
