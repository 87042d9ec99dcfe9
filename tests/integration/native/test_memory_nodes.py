"""Threads stay on the memory node (NUMA) whose memory holds their weights; the caller's own thread is left where it was.

Machines of one node show none of that, so a folder like the kernel's makes two nodes of two processors.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_support import MakeEngine, Model, prompts_of, results

from engine.binding import native

MINE = sorted(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(len(MINE) < 2, reason="two processors: there is one here")


@pytest.fixture
def two_nodes(tmp_path: Path) -> str:
    """Nodes 2 and 10 with this process's first and last processor; node 3 has memory alone, node 4 what is out of reach."""
    lists = {"node10": f"{MINE[-1]}", "node2": f"{MINE[0]}-{MINE[0]},1021", "node3": "", "node4": "1022-1023"}
    for name, text in lists.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpulist").write_text(text + "\n")
    (tmp_path / "has_cpu").write_text("2,10\n")
    (tmp_path / "nodes").mkdir()
    return str(tmp_path)


@pytest.fixture(autouse=True)
def caller_stays_where_it_was() -> Iterator[None]:
    yield
    assert sorted(os.sched_getaffinity(0)) == MINE


def threads_and_their_processors() -> dict[int, tuple[str, list[int]]]:
    """By thread of this process: name, and the processors that it may use."""
    found = {}
    for folder in Path("/proc/self/task").iterdir():
        try:
            name = (folder / "comm").read_text().strip()
            found[int(folder.name)] = (name, sorted(os.sched_getaffinity(int(folder.name))))
        except (FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            continue
    return found


def test_ranks_lie_on_nodes_in_order_and_stay(hybrid: Model, make_engine: MakeEngine, two_nodes: str) -> None:
    before = threads_and_their_processors()
    engine = make_engine(hybrid, tp=2, threads=2, nodes=two_nodes)
    prompts = prompts_of([3, 17])
    served = [tokens for tokens, _ in results(engine.submit_all(prompts, 8))]
    assert engine.facts()["homes"] == [[MINE[0]], [MINE[-1]]]
    mine = [there for thread, there in threads_and_their_processors().items() if thread not in before]
    assert sorted(mine) == [("rank-1", [MINE[-1]]), ("scheduler", [MINE[0]])]
    anywhere = make_engine(hybrid, tp=2, threads=2)
    assert served == [tokens for tokens, _ in results(anywhere.submit_all(prompts, 8))]


def test_the_threads_of_a_lone_rank_lie_on_both(qwen3: Model, make_engine: MakeEngine, two_nodes: str) -> None:
    before = threads_and_their_processors()
    engine = make_engine(qwen3, tp=1, threads=2, nodes=two_nodes)
    results(engine.submit_all(prompts_of([5]), 4))
    mine = [there for thread, there in threads_and_their_processors().items() if thread not in before]
    assert [there for name, there in mine if name == "scheduler"] == [[MINE[0]]]
    assert [there for name, there in mine if name != "scheduler"] == [[MINE[-1]]]


def unloaded(model: Model, nodes: str) -> Any:
    options = native().EngineOptions(mode="batch", tp=2, slots=2, context=64, threads=2, nodes=nodes)
    return native().Engine(native().ModelConfig(**model.config), options)


def test_a_loader_visits_the_node_of_its_rank_and_comes_back(qwen3: Model, two_nodes: str) -> None:
    loader, seen, loading, done = threading.get_native_id(), set[tuple[int, ...]](), threading.Event(), threading.Event()

    def watch() -> None:
        while not done.is_set():
            mask = tuple(sorted(os.sched_getaffinity(loader)))
            if loading.is_set():
                seen.add(mask)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(30):  # loading takes milliseconds
            engine = unloaded(qwen3, two_nodes)
            loading.set()
            qwen3.load(engine, 2)
            loading.clear()
            engine.close()
    finally:
        done.set()
        watcher.join()
    assert {(MINE[0],), (MINE[-1],), tuple(MINE)} == seen


def test_a_loader_whose_tensor_is_refused_comes_back(qwen3: Model, two_nodes: str) -> None:
    engine = unloaded(qwen3, two_nodes)
    wrong = np.zeros((3, 5), np.uint16)
    with pytest.raises(native().WeightError):
        engine.set_matrix(1, "layers.0.o", [native().MatrixPart(wrong, "bf16")])
    assert sorted(os.sched_getaffinity(0)) == MINE
    engine.close()


@pytest.mark.parametrize(("tp", "threads", "on_the_first"), [(1, 1, 1), (4, 4, 2), (2, 8, 4), (4, 2, 2)])
def test_more_threads_than_processors_divide_evenly(
    qwen3: Model, make_engine: MakeEngine, two_nodes: str, tp: int, threads: int, on_the_first: int
) -> None:
    homes = make_engine(qwen3, tp=tp, threads=threads, nodes=two_nodes).facts()["homes"]
    assert homes == [[MINE[0]]] * on_the_first + [[MINE[-1]]] * (max(tp, threads) - on_the_first)


def test_one_node_or_none_that_can_be_read_pins_nobody(qwen3: Model, make_engine: MakeEngine, tmp_path: Path) -> None:
    assert make_engine(qwen3, tp=2, threads=2, nodes=str(tmp_path / "nowhere")).facts()["homes"] == []
    (tmp_path / "node0").mkdir()
    (tmp_path / "node0" / "cpulist").write_text(f"{MINE[0]}-{MINE[-1]}\n")
    before = threads_and_their_processors()
    engine = make_engine(qwen3, tp=2, threads=2, nodes=str(tmp_path))
    assert engine.facts()["homes"] == []
    assert {tuple(there) for thread, (_, there) in threads_and_their_processors().items() if thread not in before} == {
        tuple(MINE)
    }


def test_an_affinity_mask_within_a_node_needs_no_pinning(qwen3: Model, make_engine: MakeEngine, two_nodes: str) -> None:
    make_engine(qwen3, tp=2, threads=2)  # the process counts its processors once: not from the thread below
    homes: list[list[list[int]]] = []

    def masked() -> None:
        os.sched_setaffinity(0, {MINE[0]})
        homes.append(make_engine(qwen3, tp=2, threads=2, nodes=two_nodes).facts()["homes"])

    thread = threading.Thread(target=masked)
    thread.start()
    thread.join()
    assert homes == [[]]
