"""Synthetic checkpoints: the same bytes everywhere, real folders that other readers read, made whole or not at all."""

import hashlib
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from engine.checkpoint import synthetic, writer
from engine.checkpoint.index import Checkpoint
from engine.checkpoint.load import Source
from engine.checkpoint.shapes import SHAPES, find_shape
from engine.config import read_config
from engine.errors import CheckpointError, ConfigError


def open_source(folder: Path) -> Source:
    return Source(read_config(folder), Checkpoint(folder))


def content(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256(tensor.view().tobytes()).hexdigest() for name, tensor in Checkpoint(folder).items()}


@pytest.mark.parametrize("shape", ["tiny", "tiny-hybrid", "tiny-fp8"])
def test_shards_change_nothing_and_the_seed_everything(shape: str, checkpoints: Callable[[str], Path], tmp_path: Path) -> None:
    synthetic.save(shape, 0, tmp_path / "one")
    synthetic.save(shape, 1, tmp_path / "other")
    two, one, other = (content(folder) for folder in (checkpoints(shape), tmp_path / "one", tmp_path / "other"))
    assert two == one
    assert one.keys() == other.keys()
    changed = {name for name in one if one[name] != other[name]}
    assert changed == one.keys()
    assert Checkpoint(tmp_path / "one").digest() != Checkpoint(tmp_path / "other").digest()


def test_the_bytes_are_the_published_ones(checkpoints: Callable[[str], Path]) -> None:
    """Raise synthetic.FORMAT when this changes: cached folders and stored records are keyed by it."""
    total = hashlib.sha256("".join(f"{n} {h}\n" for n, h in sorted(content(checkpoints("tiny-fp8")).items())).encode())
    assert (synthetic.FORMAT, total.hexdigest()[:16]) == (3, "e2871f7385f39091")


def test_fp8_is_the_quantised_bf16(checkpoints: Callable[[str], Path]) -> None:
    wide, narrow = open_source(checkpoints("tiny-hybrid")), open_source(checkpoints("tiny-fp8"))
    name = "layers.0.linear_attn.in_proj_qkv.weight"
    assert narrow.tensor(name).dtype == "f8_e4m3"
    assert narrow.tensor("layers.0.linear_attn.in_proj_b.weight").dtype == "bf16"
    assert narrow.tensor("lm_head.weight").dtype == "bf16"
    a, b = wide.matrix(name), narrow.matrix(name)
    assert 0 < np.linalg.norm(a - b) / np.linalg.norm(a) < 0.04
    np.testing.assert_array_equal(wide.vector("layers.0.linear_attn.A_log"), narrow.vector("layers.0.linear_attn.A_log"))


def test_weights_are_spread_as_a_models_are(checkpoints: Callable[[str], Path]) -> None:
    source = open_source(checkpoints("tiny-hybrid"))
    assert source.matrix("layers.0.mlp.down_proj.weight").std() == pytest.approx(256**-0.5, rel=0.05)
    assert abs(source.vector("layers.0.input_layernorm.weight").mean()) < 0.05  # the family adds the one
    assert source.vector("layers.0.linear_attn.norm.weight").mean() == pytest.approx(1.0, abs=0.1)
    decay = np.exp(
        -np.exp(source.vector("layers.0.linear_attn.A_log")) * np.log1p(np.exp(source.vector("layers.0.linear_attn.dt_bias")))
    )
    assert ((decay > 0.15) & (decay < 1)).all()


def test_their_library_reads_our_files(checkpoints: Callable[[str], Path]) -> None:
    for path in checkpoints("tiny-fp8").glob("*.safetensors"):
        tensors = load_file(path)
        assert tensors
        assert all(t.float().isfinite().all() for t in tensors.values())


def test_small_is_about_250_megabytes() -> None:
    assert synthetic.size_of("small") == pytest.approx(250e6, rel=0.05)
    assert synthetic.size_of("small-dense") == pytest.approx(250e6, rel=0.05)
    assert 0.5 < synthetic.size_of("small-fp8") / synthetic.size_of("small") < 0.7  # the table stays BF16
    assert [find_shape(name).config().family for name in ("small", "small-fp8", "small-dense")] == ["qwen3_5", "qwen3_5", "qwen3"]
    for name in ("small", "small-fp8", "small-dense"):
        config = find_shape(name).config()
        assert (
            config.num_heads % 4
            == config.num_kv_heads % 4
            == config.linear_num_key_heads % 4
            == config.linear_num_value_heads % 4
            == 0
        )


def test_resolve_makes_once_and_then_finds(tmp_path: Path) -> None:
    folder = synthetic.resolve("synthetic:tiny@3", tmp_path)
    assert folder == tmp_path / "checkpoints" / f"tiny-3-{synthetic.FORMAT}"
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    assert synthetic.resolve("synthetic:tiny@3", tmp_path) == folder
    assert {p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == before
    assert synthetic.resolve(tmp_path / "mine") == tmp_path / "mine"
    assert synthetic.resolve(str(tmp_path / "mine")) == tmp_path / "mine"


def test_two_processes_make_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        folders = pool.starmap(synthetic.resolve, [("synthetic:tiny-hybrid", tmp_path)] * 4)
    assert len(set(folders)) == 1
    assert [p.name for p in folders[0].parent.iterdir() if not p.name.startswith(".")] == [f"tiny-hybrid-0-{synthetic.FORMAT}"]
    assert len(Checkpoint(folders[0])) == 56


@pytest.mark.parametrize("spec", ["synthetic:tiny@x", "synthetic:tiny@-1", "synthetic:huge", "synthetic:"])
def test_a_bad_spec_says_what_is_allowed(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"seed: found|allowed: tiny"):
        synthetic.resolve(spec)


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(CheckpointError, match="exists and is not empty"):
        synthetic.save("tiny", 0, tmp_path / "mine")
    assert [p.name for p in tmp_path.rglob("*")] == ["mine", "notes.txt"]


def test_a_failure_half_way_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> tuple[np.ndarray]:
        raise OSError("disk")

    entry = writer.Entry("a", "F32", (3,))
    with pytest.raises(OSError, match="disk"):
        writer.write_folder(tmp_path / "x", {}, [("model.safetensors", [writer.Group((entry,), fail)])], {})
    assert list(tmp_path.iterdir()) == []


def test_no_room_on_the_disk_is_said_before_anything_is_made(tmp_path: Path) -> None:
    huge = writer.Group((writer.Entry("a", "F32", (1 << 50,)),), lambda: pytest.fail("made"))
    with pytest.raises(CheckpointError, match=r"GB of disk free, expected \d+\.\d GB; choose another disk"):
        writer.write_folder(tmp_path / "x", {}, [("model.safetensors", [huge])], {})
    assert synthetic.size_of("qwen3.5-27b-fp8") == pytest.approx(29.5e9, rel=0.02)


@pytest.mark.parametrize("shards", [1, 2, 5, 24])
def test_files_split_evenly_and_none_is_empty(shards: int, tmp_path: Path) -> None:
    synthetic.save("tiny", 0, tmp_path / "x", shards=shards)
    files = Checkpoint(tmp_path / "x").files
    assert len(files) == shards
    assert all(file.tensors for file in files)


def test_too_many_shards_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="shards: found 25, expected 1 to 24"):
        synthetic.save("tiny", 0, tmp_path / "x", shards=25)


def test_every_tensor_is_aligned_in_place(checkpoints: Callable[[str], Path]) -> None:
    for tensor in Checkpoint(checkpoints("tiny-fp8")).values():
        assert not tensor.view().flags.owndata, tensor.name


def test_making_a_checkpoint_loads_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from engine.checkpoint import synthetic as s; s.save('tiny', 0, sys.argv[1]); print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(synthetic.__file__).parents[2])
    assert done.stdout.strip() == "False"


def test_every_shape_has_a_readable_config() -> None:
    for name, shape in SHAPES.items():
        config = shape.config()
        assert config.name == name
        assert (config.fp8 is not None) == name.endswith("fp8")
