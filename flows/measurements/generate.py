"""Runs given prompts and writes what came out, so that anyone can hold it against another engine. Serves `paceline generate`.

    python -P -m flows.measurements.generate --build B --checkpoint C --prompt-ids FILE --new-tokens N --tp T
        --mode serial|batch --out OUT.json [--logits OUT.npy] [--slots S] [--context P] [--threads N] [--devices D] [--isa I]
        [--cache FOLDER]

FILE: a JSON list of lists of token ids, of different lengths. OUT.json: {"tokens": [[...], ...], ...}. OUT.npy: float32
[prompts, new tokens, vocabulary]. Exit codes: 0 done; 1 the engine failed, or the result could not be written; 2 wrong usage, or
a prompt, checkpoint, option or build that cannot be run.
"""

import argparse
import json
import os
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flows.measurements.rounds import COMPLETE, RoundError
from flows.measurements.under_test import BuildError, UnderTest, load_under_test, open_session

if TYPE_CHECKING:
    from engine import Generation, Session

OK, FAILED, WRONG = 0, 1, 2
FORMAT_VERSION = 1
# Of engine.errors: what the caller can put right. The others are failures at run time.
_WRONG_INPUT = {"BindingError", "CheckpointError", "ConfigError", "RequestRefused"}


class JobError(ValueError):
    """A job that cannot be run as asked. The message names the option or the file, the value and what would be right."""


@dataclass(frozen=True)
class Job:
    """What is to be generated and where it goes."""

    build: Path
    checkpoint: str
    prompt_ids: Path
    new_tokens: int
    options: dict[str, Any]  # of the session: mode, tp, slots, context, threads, devices, isa
    out: Path
    logits: Path | None
    cache: Path | None = None  # where synthetic checkpoints are kept


def read_prompts(path: Path) -> list[list[int]]:
    """A JSON list of lists of ids. Raises JobError for anything else, for an empty list and for an empty prompt."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise JobError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise JobError(f"{path}: not JSON: {error}") from error
    if not isinstance(body, list) or not body:
        raise JobError(f"{path}: found {_shown(body)}: must be a list of prompts, each a list of token ids, and not empty")
    for number, prompt in enumerate(body):
        if not isinstance(prompt, list):
            raise JobError(f"{path}: prompt {number}: found {_shown(prompt)}: must be a list of token ids")
        if not prompt:
            raise JobError(f"{path}: prompt {number}: found []: must hold at least one token id")
        for position, token in enumerate(prompt):
            if isinstance(token, bool) or not isinstance(token, int):
                raise JobError(f"{path}: prompt {number}, position {position}: found {_shown(token)}: must be a whole number")
    return body


def check_vocabulary(path: Path, prompts: Sequence[Sequence[int]], vocab_size: int) -> None:
    """Every id lies in the model's vocabulary. Raises JobError."""
    for number, prompt in enumerate(prompts):
        for position, token in enumerate(prompt):
            if not 0 <= token < vocab_size:
                raise JobError(
                    f"{path}: prompt {number}, position {position}: found token id {token}: must be from 0 to {vocab_size - 1}"
                )


def generate(job: Job) -> None:
    """Run the job. Raises JobError, BuildError, RoundError or what the engine raises."""
    _check_outputs(job)
    prompts = read_prompts(job.prompt_ids)
    longest = max(len(prompt) for prompt in prompts) + job.new_tokens
    context = job.options["context"] or longest
    if context < longest:
        raise JobError(f"--context {context}: must be at least {longest}: the longest prompt and the new tokens")
    under_test = load_under_test(job.build)
    engine = under_test.engine
    options = engine.SessionOptions(**job.options | {"context": context, "queue_limit": max(len(prompts), 4096)})
    with open_session(engine, job.checkpoint, options, job.cache) as session:
        check_vocabulary(job.prompt_ids, prompts, session.facts.vocab_size)
        generations = _run(session, prompts, job)
        _write_json(job, prompts, generations, session, under_test)


def _check_outputs(job: Job) -> None:
    """Before anything is computed, that there is a place for it. Raises JobError."""
    for option, path in (("--out", job.out), ("--logits", job.logits)):
        if path is not None and path.is_dir():
            raise JobError(f"{option} {path}: a folder: must be a file to write")
        if path is not None and not path.parent.is_dir():
            raise JobError(f"{option} {path}: {path.parent}: no such folder: make it, or name another")


def _run(session: "Session", prompts: list[list[int]], job: Job) -> list["Generation"]:
    """Send all prompts at once, wait for each, and put its logits where they belong as soon as it is done."""
    shape = (len(prompts), job.new_tokens, session.facts.vocab_size)
    temporary = job.logits.with_name(f".{job.logits.name}.{os.getpid()}.tmp") if job.logits else None
    table = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float32, shape=shape) if temporary else None
    try:
        handles = deque(session.submit(prompt, job.new_tokens, keep_logits=table is not None) for prompt in prompts)
        generations = []
        for number in range(len(prompts)):
            generation = handles.popleft().result()  # with the handle go its logits
            count = len(generation.tokens)
            if generation.finish_reason not in COMPLETE or count != job.new_tokens:
                raise RoundError(
                    f"prompt {number}: finish reason {generation.finish_reason!r} after {count} of {job.new_tokens} tokens"
                )
            if table is not None:
                table[number] = generation.logits
            generations.append(replace(generation, logits=None))
        if table is not None and temporary is not None and job.logits is not None:
            table.flush()
            temporary.replace(job.logits)
        return generations
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _write_json(
    job: Job, prompts: list[list[int]], generations: list["Generation"], session: "Session", under_test: UnderTest
) -> None:
    facts = session.facts
    body = {
        "format_version": FORMAT_VERSION,
        "tokens": [list(g.tokens) for g in generations],
        "finish_reasons": [g.finish_reason for g in generations],
        "prompt_lengths": [len(prompt) for prompt in prompts],
        "new_tokens": job.new_tokens,
        "vocab_size": facts.vocab_size,
        "checkpoint": job.checkpoint,
        "checkpoint_digest": facts.checkpoint_digest,
        "options": job.options | {"context": facts.context, "isa": facts.isa},
        "logits": str(job.logits) if job.logits else None,
        "e2el_s": [g.finished_s - g.submitted_s for g in generations],
        "ttft_s": [g.token_times_s[0] - g.submitted_s for g in generations],
        "api_version": under_test.api_version,
        "module_sha256": under_test.module_sha256,
    }
    temporary = job.out.with_name(f".{job.out.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(body, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(job.out)


def parse(argv: Sequence[str]) -> Job:
    """The command line. Exits with 2 on wrong usage, as argparse does."""
    parser = argparse.ArgumentParser(prog="paceline generate", description="Run given prompts and write what came out.")
    parser.add_argument("--build", type=Path, required=True, help="build folder of the engine")
    parser.add_argument("--checkpoint", required=True, help="Hugging Face folder, or synthetic:<shape>[@seed]")
    parser.add_argument("--prompt-ids", type=Path, required=True, help="JSON list of lists of token ids")
    parser.add_argument("--new-tokens", type=_positive, required=True, help="tokens to generate for each prompt")
    parser.add_argument("--tp", type=_positive, default=1, help="tensor-parallel ranks")
    parser.add_argument("--mode", choices=("serial", "batch"), default="batch")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--logits", type=Path, help="float32 .npy file to write, [prompts, new tokens, vocabulary]")
    parser.add_argument("--slots", type=_positive, default=8, help="requests that run at once in batch mode")
    parser.add_argument("--context", type=int, default=0, help="positions of a slot; 0: the longest prompt and the new tokens")
    parser.add_argument("--threads", type=int, default=0, help="over all ranks; 0: what the machine allows")
    parser.add_argument("--devices", default="cpu")
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--cache", type=Path, help="where synthetic checkpoints are kept")
    given = parser.parse_args(argv)
    options = {name: getattr(given, name) for name in ("mode", "tp", "slots", "context", "threads", "devices", "isa")}
    return Job(given.build, given.checkpoint, given.prompt_ids, given.new_tokens, options, given.out, given.logits, given.cache)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    job = parse(sys.argv[1:] if argv is None else argv)
    try:
        generate(job)
    except (JobError, BuildError) as error:
        return _told(error, WRONG)
    except (RoundError, OSError) as error:
        return _told(error, FAILED)
    except Exception as error:
        kinds = _engine_kinds(error)
        if kinds & _WRONG_INPUT:
            return _told(error, WRONG)
        if not kinds:
            raise
        return _told(f"{type(error).__name__}: {error}", FAILED)
    return OK


def _told(what: object, code: int) -> int:
    print(f"paceline: {what}", file=sys.stderr)
    return code


def _engine_kinds(error: Exception) -> set[str]:
    """What it is to the engine under test; empty where that did not raise it on purpose.

    By name: the classes are known only once the build is loaded.
    """
    return {base.__name__ for base in type(error).__mro__ if base.__module__ == "engine.errors"}


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"found {value}: must be at least 1")
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:60] + "..."


if __name__ == "__main__":
    sys.exit(main())
