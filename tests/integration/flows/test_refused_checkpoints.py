"""`paceline validate` on a checkpoint that cannot be served: one message, exit code 2, and nothing started."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from flow_support import ROOT

from engine.checkpoint import synthetic
from engine.checkpoint.index import INDEX
from flows.admission import refuse_unfit_for
from flows.parameters import ValidationParameters
from flows.progress import Reporter, reporting_to

Ended = subprocess.CompletedProcess[str]


@pytest.fixture
def validate(tmp_path: Path) -> Callable[..., Ended]:
    def run(*options: str, command: str = "validate") -> Ended:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PACELINE_", "PREFECT_"))}
        environment |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        whole = [sys.executable, "-P", "-m", "flows.cli", command, "--repo", str(ROOT), *options]
        return subprocess.run(whole, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)

    return run


def cut(folder: Path) -> None:
    path = folder / "model-00001-of-00002.safetensors"
    path.write_bytes(path.read_bytes()[:100_000])


def damage_nothing(folder: Path) -> None:
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("damage", "options", "says"),
    [
        (cut, (), ("model-00001-of-00002.safetensors: tensor ", "cut short: download or write it again")),
        (lambda folder: (folder / "model-00002-of-00002.safetensors").unlink(), (), (f"{INDEX}: names model-00002-of",)),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "llama"}'), (), ("model_type: found 'llama'",)),
        (damage_nothing, ("--tp", "3"), ("option tp: found 3", "ranks that work: [1, 2, 4, 8]")),
        (damage_nothing, ("--context", "1000000"), ("option context: found 1000000", "allows 40960")),
        (
            damage_nothing,
            ("--context", "40000", "--slots", "4096"),
            ("the engine needs at least", "lower slots (now 4096) or context (now 40000)", "--interleave legs loads one"),
        ),
    ],
)
def test_refused_before_anything_starts(
    validate: Callable[..., Ended],
    tmp_path: Path,
    damage: Callable[[Path], object],
    options: tuple[str, ...],
    says: tuple[str, ...],
) -> None:
    synthetic.save("tiny", 0, tmp_path / "model", shards=2)
    damage(tmp_path / "model")
    done = validate("--checkpoint", str(tmp_path / "model"), "--quick", *options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: --checkpoint {tmp_path / 'model'} cannot be measured: ")
    for part in says:
        assert part in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"], "no results, no server's database, no cache"


def test_an_unknown_shape_is_refused_with_those_there_are(validate: Callable[..., Ended], tmp_path: Path) -> None:
    done = validate("--checkpoint", "synthetic:medium", "--quick")
    assert done.returncode == 2
    assert "synthetic shape: found 'medium'; allowed: tiny, tiny-hybrid, tiny-fp8, small, small-fp8, small-dense" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_targets_that_cannot_be_judged_are_refused_as_early(validate: Callable[..., Ended], tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[[target]]\nname = "x"\nmetric = "speedup_vs_serial"\nlevel = 2\ndirection = "<="\n')
    done = validate("--checkpoint", "synthetic:tiny", "--quick", "--targets", "mine.toml")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "error: mine.toml: target 1" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_a_comparison_is_refused_alike(validate: Callable[..., Ended], tmp_path: Path) -> None:
    """Of the tree as it stands, before either side is built."""
    synthetic.save("tiny", 0, tmp_path / "model", shards=2)
    cut(tmp_path / "model")
    done = validate("--checkpoint", str(tmp_path / "model"), command="compare")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: --checkpoint {tmp_path / 'model'} cannot be measured: ")
    assert "cut short: download or write it again" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_an_engine_that_cannot_tell_beforehand_is_named(tmp_path: Path) -> None:
    """An engine of before the look: what it says comes to whoever watches."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("API_VERSION = 1\n")
    seen: list[str] = []

    class Watcher(Reporter):
        def note(self, text: str) -> None:
            seen.append(text)

    with reporting_to(Watcher()):
        refuse_unfit_for(tmp_path, ValidationParameters(checkpoint="synthetic:tiny"))
    assert len(seen) == 1
    assert seen[0].startswith("synthetic:tiny: not looked at beforehand: engine.admission is not in the build")
