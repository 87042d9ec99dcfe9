"""Which checkpoints are made on the device, and which devices a session takes."""

from pathlib import Path

import pytest

from engine.checkpoint.on_device import digest, made_on_device
from engine.checkpoint.shapes import find_shape
from engine.errors import ConfigError
from engine.options import SessionOptions

LARGE = "synthetic:qwen3.5-27b-fp8@3"


def test_a_large_shape_is_made_on_a_gpu() -> None:
    made = made_on_device(LARGE, "cuda:0")
    assert made is not None
    assert (made[0].name, made[1]) == ("qwen3.5-27b-fp8", 3)


@pytest.mark.parametrize(
    ("checkpoint", "devices"), [(LARGE, "cpu"), ("synthetic:tiny", "cuda:0"), ("some/folder", "cuda:0"), (Path("some"), "cuda:0")]
)
def test_everything_else_is_read_from_disk(checkpoint: str | Path, devices: str) -> None:
    assert made_on_device(checkpoint, devices) is None


def test_the_digest_tells_seeds_and_shapes_apart() -> None:
    large, tiny = find_shape("qwen3.5-27b-fp8"), find_shape("tiny")
    assert len({digest(large, 0), digest(large, 1), digest(tiny, 0)}) == 3
    assert digest(large, 0) == digest(large, 0)


@pytest.mark.parametrize(("devices", "device"), [("cpu", "cpu"), ("cuda", "cuda:0"), ("cuda:3", "cuda:3")])
def test_one_device(devices: str, device: str) -> None:
    assert SessionOptions(mode="batch", devices=devices).device == device


@pytest.mark.parametrize(("devices", "what"), [("cuda:0,1", "several GPUs"), ("cuda:0,0", "several ranks on one GPU")])
def test_lists_are_refused_by_name(devices: str, what: str) -> None:
    with pytest.raises(ConfigError, match=f"{devices}.*{what} has not landed.*allowed: cpu, or one device, as in cuda:0"):
        _ = SessionOptions(mode="batch", devices=devices).device
