"""Two partners work one at a time, in a pattern in which a drift cancels; one that is gone is noticed and said."""

import socket
import threading

import pytest

from flows.measurements.turns import Place, Turns


def partners(patience_s: float = 20.0) -> tuple[Turns, Turns]:
    first, second = (Turns(Place(end.detach(), place, patience_s)) for place, end in enumerate(socket.socketpair()))
    return first, second


def work(turns: Turns, name: str, rounds: int, seen: list[str], busy: threading.Lock) -> None:
    """What a closed loop does: load, warm up, rounds, close; fails where the other works at the same time."""

    def step(what: str) -> None:
        turns.take()
        assert busy.acquire(blocking=False), f"{name} {what}: both work at once"
        seen.append(f"{name}{what}")
        busy.release()

    step("w")
    turns.hand_over()
    for done in range(1, rounds + 1):
        step(str(done))
        if done < rounds:
            turns.after_round(done)
    turns.finish()
    seen.append(f"{name}.")


@pytest.mark.parametrize(
    ("rounds", "order"),
    [
        (1, "aw bw a1 b1"),
        (2, "aw bw a1 b1 b2 a2"),
        (3, "aw bw a1 b1 b2 a2 a3 b3"),
        (5, "aw bw a1 b1 b2 a2 a3 b3 b4 a4 a5 b5"),
    ],
)
def test_the_turns_mirror_each_other(rounds: int, order: str) -> None:
    seen: list[str] = []
    both, busy = partners(), threading.Lock()
    threads = [
        threading.Thread(target=work, args=(turns, name, rounds, seen, busy)) for turns, name in zip(both, "ab", strict=True)
    ]
    for thread in reversed(threads):  # who starts first changes nothing
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert seen[:-2] == order.split()
    assert set(seen[-2:]) == {"a.", "b."}, "neither closes before both are done"
    assert [turns.left_alone for turns in both] == ["", ""]
    assert both[1].waited_s > 0


def test_alone_every_turn_is_its_own() -> None:
    seen: list[str] = []
    turns = Turns()
    work(turns, "a", 3, seen, threading.Lock())
    assert seen == ["aw", "a1", "a2", "a3", "a."]
    assert (turns.waited_s, turns.left_alone) == (0.0, "")


def test_a_partner_that_dies_leaves_the_other_to_finish_alone() -> None:
    first, second = partners()
    first.hand_over()
    second.take()
    second._end.close()  # type: ignore[union-attr]  # as the kernel does when the process dies
    work_left: list[str] = []
    work(first, "a", 3, work_left, threading.Lock())
    assert work_left == ["aw", "a1", "a2", "a3", "a."]
    assert first.left_alone == "its partner ended before its last round"


def test_a_partner_that_keeps_its_turn_is_not_waited_for_for_ever() -> None:
    first, second = partners(patience_s=0.05)
    first.hand_over()
    first.take()
    assert first.left_alone == "its partner did not end its turn within 0.05 s"
    second.take()
    second.hand_over()
    assert second.left_alone == "its partner ended before its last round", "the late one learns it too"


@pytest.mark.parametrize("text", ["", "3", "3,0", "3,2,1", "-1,0,1", "3,0,0", "x,0,1", "3,0,nan"])
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|unpack|invalid literal|could not convert"):
        Place.parse(text)


def test_a_place_survives_the_command_line() -> None:
    assert Place.parse(str(Place(7, 1, 62.5))) == Place(7, 1, 62.5)
