"""The subjects, and one process of one of them: started, watched, read."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workload import MARK, Request

HERE = Path(__file__).resolve().parent
TAIL = 12  # lines of a failed process that are shown


@dataclass(frozen=True)
class Subject:
    """A program under measurement and the Python that runs it."""

    name: str
    python: str
    program: str
    model: str  # as the program takes it


class NotRun(Exception):
    """The subject does not serve this model, and says why."""


class SubjectFailed(Exception):
    """A process ended without an answer; the message is the end of what it said."""


def run(subject: Subject, request: Request, limit: float) -> dict[str, Any]:
    """The answer of one process. Raises NotRun; SubjectFailed, also when `limit` seconds are over (its children end too)."""
    command = [subject.python, str(HERE / subject.program), json.dumps(asdict(request))]
    said = _finish(command, limit)
    for line in said.splitlines():
        if line.startswith(MARK):
            answer: dict[str, Any] = json.loads(line.removeprefix(MARK))
            if "not_run" in answer:
                raise NotRun(answer["not_run"])
            return answer
    raise SubjectFailed(_tail(said) or "it ended without a word")


def make_gguf(python: str, folder: Path, cache: Path, limit: float) -> Path:
    """The GGUF file of a checkpoint's folder below `cache`, made at the first call. Raises SubjectFailed."""
    newest = max((path.stat().st_mtime_ns for path in [*folder.iterdir(), HERE / "make_gguf.py"]), default=0)
    path = cache / f"{folder.name}-{newest:x}.gguf"  # another name for another content
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        said = _finish([python, str(HERE / "make_gguf.py"), str(folder), str(path)], limit)
        if not path.exists():
            raise SubjectFailed(_tail(said))
    return path


def _finish(command: list[str], limit: float) -> str:
    """Run a command to its end in a process group of its own; all that it printed."""
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
        )
    except OSError as error:
        raise SubjectFailed(f"{command[0]}: {error.strerror}; expected a Python to run {Path(command[1]).name} with") from error
    try:
        said, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        _kill(process)
        said, _ = process.communicate()
        raise SubjectFailed(f"{_tail(said)}\nstill running after {limit:g} s, the --limit; stopped") from None
    except BaseException:
        _kill(process)
        raise
    if process.returncode:
        raise SubjectFailed(f"{_tail(said)}\nexit code {process.returncode}")
    return said


def _kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def _tail(said: str) -> str:
    return "\n".join(said.strip().splitlines()[-TAIL:])


def paceline(spec: str) -> Subject:
    """Our own, run by the Python that runs this."""
    return Subject("paceline", sys.executable, "subject_paceline.py", spec)
