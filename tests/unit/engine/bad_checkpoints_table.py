"""Prints what each checkpoint that cannot be served says, as a table: every one is made, damaged and opened for real.

    python tests/unit/engine/bad_checkpoints_table.py > bad-checkpoints.md

The damages are those of test_bad_checkpoints.py. Exit code 1 where one is not refused.
"""

import importlib.util
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from engine import Session, SessionOptions  # noqa: E402  # the tree's own, wherever this is started
from engine.admission import Asked, admit  # noqa: E402
from engine.checkpoint import synthetic  # noqa: E402
from engine.errors import EngineError  # noqa: E402


def main() -> int:
    """Print the table; returns the exit code."""
    cases = _cases()
    accepted = 0
    print("| checkpoint | error | message |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (shape, damage, _, _)) in enumerate(cases.BAD.items()):
            checkpoint = Path(folder) / f"{number}"
            synthetic.save(shape, 0, checkpoint, shards=2)
            damage(checkpoint)
            options = SessionOptions(mode="batch", context=48)
            accepted += _row(name, folder, lambda at=checkpoint, how=options: Session.open(at, how).close())
        for checkpoint, asked in _asked(cases):
            accepted += _row(f"{checkpoint} as {asked}", folder, lambda at=checkpoint, how=asked: admit(at, how))
    return 1 if accepted else 0


def _row(name: str, folder: str, attempt: Callable[[], object]) -> bool:
    """One row; returns whether it was accepted."""
    try:
        attempt()
    except EngineError as error:
        text = str(error).replace(f"{folder}/", "").replace("|", "\\|").replace("\n", " ")
        print(f"| {name} | {type(error).__name__} | {text} |")
        return False
    print(f"| {name} | none | ACCEPTED |")
    return True


def _asked(cases: ModuleType) -> list[tuple[str, Asked]]:
    """What is wrong with the question, not with the checkpoint: the parameters of the test's table."""
    (mark,) = cases.test_what_cannot_be_served_as_asked.pytestmark
    return [(checkpoint, asked) for checkpoint, asked, _, _ in mark.args[1]]


def _cases() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bad_checkpoints", Path(__file__).with_name("test_bad_checkpoints.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
