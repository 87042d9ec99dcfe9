"""generate as a process: given prompts in, tokens and logits out, and a clear word for every prompt that cannot be run."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build import Build
from flows.settings import harness_environment
from storage.records import Source

pytestmark = pytest.mark.timeout(900)  # the first test may have to build the engine

PROMPTS = [[1, 2, 3], [4], list(range(100, 137)), [511, 0]]
Generate = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def generate(built: tuple[Build, Source], tmp_path: Path) -> Generate:
    """Returns a function that runs generate on prompts (or a file's text) with more options."""

    def run(prompts: Any, *options: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "prompt ids.json"
        file.write_text(prompts if isinstance(prompts, str) else json.dumps(prompts))
        command = [sys.executable, "-P", "-m", "flows.measurements.generate", "--build", str(built[0].folder)]
        command += [
            "--checkpoint",
            "synthetic:tiny",
            "--prompt-ids",
            str(file),
            "--new-tokens",
            "6",
            "--out",
            str(tmp_path / "out.json"),
        ]
        return subprocess.run(
            [*command, *options],
            env=harness_environment(),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def test_tokens_and_logits_of_prompts_of_different_lengths(generate: Generate, tmp_path: Path) -> None:
    done = generate(PROMPTS, "--logits", str(tmp_path / "out.npy"), "--tp", "2")
    assert done.returncode == 0, done.stderr
    body = json.loads((tmp_path / "out.json").read_text())
    logits = np.load(tmp_path / "out.npy")
    assert body["vocab_size"] == 512
    assert (logits.dtype, logits.shape) == (np.float32, (4, 6, 512))
    assert np.isfinite(logits).all()
    assert logits.argmax(axis=-1).tolist() == body["tokens"]
    assert body["prompt_lengths"] == [3, 1, 37, 2]
    assert body["finish_reasons"] == ["length"] * 4
    assert (body["options"]["tp"], body["options"]["mode"], body["options"]["context"]) == (2, "batch", 43)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "out.npy", "prompt ids.json"]


def test_serial_and_batch_write_the_same(generate: Generate, tmp_path: Path) -> None:
    written = []
    for mode in ("serial", "batch"):
        assert generate(PROMPTS, "--mode", mode, "--logits", str(tmp_path / f"{mode}.npy")).returncode == 0
        written.append((json.loads((tmp_path / "out.json").read_text())["tokens"], (tmp_path / f"{mode}.npy").read_bytes()))
    assert written[0] == written[1]


def test_more_prompts_than_slots(generate: Generate, tmp_path: Path) -> None:
    assert generate([[i] for i in range(11)], "--slots", "2").returncode == 0
    assert len(json.loads((tmp_path / "out.json").read_text())["tokens"]) == 11


@pytest.mark.parametrize(
    ("prompts", "says"),
    [
        ([[1, 2], []], "prompt 1: found []: must hold at least one token id"),
        ([], "found []: must be a list of prompts, each a list of token ids, and not empty"),
        ({"a": 1}, 'found {"a": 1}: must be a list of prompts'),
        ([1, 2], "prompt 0: found 1: must be a list of token ids"),
        ([[1], [2, "x"]], 'prompt 1, position 1: found "x": must be a whole number'),
        ([[1.5]], "prompt 0, position 0: found 1.5: must be a whole number"),
        ([[True]], "prompt 0, position 0: found true: must be a whole number"),
        ([[0], [511, 512]], "prompt 1, position 1: found token id 512: must be from 0 to 511"),
        ([[-1]], "prompt 0, position 0: found token id -1: must be from 0 to 511"),
        ("[[1, 2", "not JSON"),
    ],
)
def test_prompts_that_cannot_be_run(generate: Generate, tmp_path: Path, prompts: Any, says: str) -> None:
    done = generate(prompts, "--logits", str(tmp_path / "out.npy"))
    assert done.returncode == 2
    assert says in done.stderr
    assert "prompt ids.json" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["prompt ids.json"], "nothing half done is left"


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--context", "10"], 2, "--context 10: must be at least 43"),
        (["--new-tokens", "0"], 2, "must be at least 1"),
        (["--mode", "eager"], 2, "invalid choice: 'eager'"),
        (["--prompt-ids", "absent.json"], 2, "absent.json: cannot be read"),
        (["--checkpoint", "nowhere"], 2, "nowhere: no such folder"),
        (["--checkpoint", "synthetic:medium"], 2, "synthetic shape: found 'medium'"),
        (["--tp", "3"], 2, "option tp: found 3"),
        (["--devices", "gpu"], 2, "option devices: found 'gpu'"),
        (["--build", "."], 2, "not a build folder"),
        (["--out", "no such folder/out.json"], 2, "--out no such folder/out.json: no such folder: no such folder: make it"),
        (["--logits", "."], 2, "--logits .: a folder: must be a file"),
    ],
)
def test_wrong_options(generate: Generate, options: list[str], code: int, says: str) -> None:
    done = generate(PROMPTS, *options)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert says in done.stderr
