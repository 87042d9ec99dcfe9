"""check, quantise and admit as processes, and where synthetic checkpoints are kept."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint import synthetic
from flows.build import Build
from flows.settings import child_environment, harness_environment
from storage.records import Source

pytestmark = pytest.mark.timeout(900)  # the first test may have to build the engine
ROOT = Path(__file__).parents[3]
Ended = subprocess.CompletedProcess[str]


def program(name: str, *arguments: object, environment: dict[str, str] | None = None) -> Ended:
    command = [sys.executable, "-P", "-m", f"flows.measurements.{name}", *map(str, arguments)]
    return subprocess.run(
        command, env=environment or harness_environment(), capture_output=True, text=True, timeout=240, check=False
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkpoints")
    for shape in ("tiny", "tiny-hybrid"):
        synthetic.save(shape, 0, root / shape, shards=2)
    return root


@pytest.fixture
def check(built: tuple[Build, Source]) -> Callable[..., Ended]:
    def run(checkpoint: object, *options: object, build: Path | None = None, **more: Any) -> Ended:
        where = ["--build", build or built[0].folder, "--checkpoint", checkpoint]
        return program("check", *where, "--prompts", "1,16", *options, **more)

    return run


def test_a_sound_checkpoint_agrees_layer_by_layer(check: Callable[..., Ended], folders: Path) -> None:
    done = check(folders / "tiny-hybrid", "--tp", 2)
    assert done.returncode == 0, done.stderr
    assert [line.split("):")[0].strip() for line in done.stdout.splitlines() if "after layer" in line] == [
        "after layer   0 (linear_attention",
        "after layer   1 (linear_attention",
        "after layer   2 (linear_attention",
        "after layer   3 (full_attention",
    ]
    assert done.stdout.endswith("they agree\n")


def test_a_model_that_amplifies_rounding_is_held_to_the_rounded_reference(check: Callable[..., Ended], folders: Path) -> None:
    """With 32-wide key heads one token's BF16 activations alone lead further from pure float32 than the tolerance."""
    done = check(folders / "tiny-hybrid", "--prompts", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    last = next(line for line in done.stdout.splitlines() if "after layer   3" in line)
    rounded, wide = (float(part.split()[-1]) for part in last.split(", "))
    assert rounded < 0.005
    assert wide > 0.02
    assert "this model amplifies the rounding of activations to BF16" in done.stdout


def test_an_engine_that_differs_is_told_from_which_layer_on(
    check: Callable[..., Ended], built: tuple[Build, Source], folders: Path, tmp_path: Path
) -> None:
    build = Path(shutil.copytree(built[0].folder, tmp_path / "build"))
    sharding = build / "engine" / "checkpoint" / "load.py"
    text = sharding.read_text()
    whole = "    return np.ascontiguousarray(values)\n\n\ndef _part"
    assert whole in text
    wrong = '    return np.ascontiguousarray(values * np.float32(1.2 if name == "layers.2.linear_norm" else 1.0))\n\n\ndef _part'
    sharding.write_text(text.replace(whole, wrong))
    done = check(folders / "tiny-hybrid", build=build)
    assert done.returncode == 1, done.stderr
    assert "they part in layer 2: the layers before it agree" in done.stdout
    assert done.stdout.endswith("they differ\n")


def test_what_cannot_be_checked_is_said(check: Callable[..., Ended], folders: Path, tmp_path: Path) -> None:
    for arguments, says in [
        ((tmp_path / "nowhere",), "nowhere: no such folder"),
        ((folders / "tiny", "--tp", 3), "tp: found 3, which does not divide num_attention_heads 8"),
        ((folders / "tiny", "--isa", "sse"), "option isa: found 'sse'"),
        ((folders / "tiny", "--prompts", "1,x"), "found '1,x'; expected whole numbers from 1"),
    ]:
        done = check(*arguments)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
        assert says in done.stderr


def test_without_torch_the_extra_is_named(check: Callable[..., Ended], folders: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    environment = child_environment({"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    done = check(folders / "tiny", environment=environment)
    assert done.returncode == 2
    assert "python -m pip install 'paceline[reference]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("scales", ["float", "ue8m0"])
def test_a_quantised_folder_is_served_rightly(check: Callable[..., Ended], folders: Path, tmp_path: Path, scales: str) -> None:
    done = program("quantise", folders / "tiny-hybrid", tmp_path / "fp8", "--scales", scales)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'fp8'}\n"
    quantisation = json.loads((tmp_path / "fp8" / "config.json").read_text())["quantization_config"]
    assert quantisation["weight_block_size"] == [128, 128]
    assert "lm_head" in quantisation["modules_to_not_convert"]
    assert check(tmp_path / "fp8").returncode == 0


def test_what_cannot_be_quantised_is_said(folders: Path, tmp_path: Path) -> None:
    synthetic.save("tiny-fp8", 0, tmp_path / "fp8")
    for source, out, more, says in [
        (tmp_path / "fp8", tmp_path / "new", (), "quantization_config: found fp8; expected a checkpoint of BF16"),
        (folders / "tiny", folders / "tiny-hybrid", (), "exists and is not empty; choose another folder"),
        (tmp_path / "nowhere", tmp_path / "new", (), "nowhere: no such folder"),
        (folders / "tiny", tmp_path / "new", ("--scales", "fp4"), "scale_format: found 'fp4'; allowed: float, ue8m0"),
    ]:
        done = program("quantise", source, out, *more)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
        assert says in done.stderr
        assert not (tmp_path / "new").exists()


def test_the_look_beforehand(folders: Path, tmp_path: Path) -> None:
    asked = ["--slots", 8, "--context", 48]
    fine = program("admit", "--engine", ROOT, "--checkpoint", folders / "tiny", "--tp", 4, *asked)
    assert (fine.returncode, fine.stderr) == (0, "")
    wrong = program("admit", "--engine", ROOT, "--checkpoint", "synthetic:tiny", "--tp", 3, *asked)
    assert wrong.returncode == 2
    assert "option tp: found 3" in wrong.stderr
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("API_VERSION = 1\n")
    earlier = program("admit", "--engine", tmp_path, "--checkpoint", "synthetic:tiny", "--tp", 3, *asked)
    assert earlier.returncode == 0
    assert "not looked at beforehand: engine.admission is not in the build" in earlier.stderr


def test_synthetic_checkpoints_are_kept_where_the_request_says(measure: Callable[..., Any], tmp_path: Path) -> None:
    measured = measure("throughput", cache=tmp_path / "cache")
    assert measured.returncode == 0, measured.output
    kept = tmp_path / "cache" / "checkpoints" / f"tiny-0-{synthetic.FORMAT}"
    assert sorted(path.name for path in kept.iterdir()) == ["config.json", "model.safetensors"]


def test_generate_keeps_them_there_too(built: tuple[Build, Source], tmp_path: Path) -> None:
    (tmp_path / "prompts.json").write_text("[[1, 2]]")
    where = ["--build", built[0].folder, "--cache", tmp_path / "cache", "--checkpoint", "synthetic:tiny"]
    asked = ["--prompt-ids", tmp_path / "prompts.json", "--new-tokens", 2, "--out", tmp_path / "out.json"]
    done = program("generate", *where, *asked)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cache" / "checkpoints" / f"tiny-0-{synthetic.FORMAT}" / "config.json").is_file()
