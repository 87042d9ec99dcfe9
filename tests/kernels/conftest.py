"""Single operations of the native CPU backend, one instruction set after the other, and arrays with guarded borders."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

ISA_NAMES = ("amx", "avx512_bf16", "avx512", "avx2", "portable")
GUARD = 256  # bytes on each side

Floats = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Guarded:
    """An output of exactly its own size with a known pattern on both sides."""

    array: npt.NDArray[Any]
    memory: npt.NDArray[np.uint8]

    def assert_intact(self) -> None:
        """Raises AssertionError where a byte around the array has changed."""
        assert (self.memory[:GUARD] == 0xA5).all(), "bytes in front of the array were written"
        assert (self.memory[-GUARD:] == 0xA5).all(), "bytes behind the array were written"


class Kit:
    """What every kernel test needs: random inputs, bfloat16, guarded outputs, errors."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> Floats:
        """Normally distributed float32."""
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    @staticmethod
    def to_bf16(values: Floats) -> Bits:
        """Round to nearest even, as bits."""
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)

    @staticmethod
    def from_bf16(bits: Bits) -> Floats:
        """Exactly."""
        return (bits.astype(np.uint32) << 16).view(np.float32)

    @staticmethod
    def error(found: npt.ArrayLike, expected: npt.ArrayLike) -> float:
        """||found - expected|| / ||expected||; infinite where something is not a number."""
        wanted = np.asarray(expected, dtype=np.float64)
        difference = np.asarray(found, dtype=np.float64) - wanted
        ratio = float(np.linalg.norm(difference) / max(float(np.linalg.norm(wanted)), 1e-30))
        return ratio if np.isfinite(ratio) else float("inf")

    @staticmethod
    def guarded(shape: tuple[int, ...], dtype: Any) -> Guarded:
        """An array filled with 0xA5 bytes (no value an operation would leave by chance), `GUARD` bytes of the same around it."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = np.full(size + 2 * GUARD, 0xA5, dtype=np.uint8)
        return Guarded(memory[GUARD : GUARD + size].view(dtype).reshape(shape), memory)


@pytest.fixture
def kit() -> Kit:
    """Helpers with a fresh, fixed seed."""
    return Kit()


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread() -> None:
    """The references are small; a pool of torch's own would only fight with the teams under test."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def native() -> Any:
    """The compiled module: tests of kernels are the one place besides engine.binding that looks at it."""
    return importlib.import_module("engine._native")


@pytest.fixture(scope="session")
def ops(native: Any) -> Any:
    """The submodule with the single operations."""
    return native.ops


@pytest.fixture(scope="session")
def make_ops(ops: Any) -> Callable[..., Any]:
    """CpuOps of a named instruction set; skips, by name, what this processor or this build lacks."""
    usable = {}
    for name in ISA_NAMES:
        try:
            ops.CpuOps(isa=name)
        except Exception as error:
            usable[name] = str(error)

    def make(isa: str, threads: int = 2, oversubscribed: bool = False) -> Any:
        if isa in usable:
            pytest.skip(f"{isa}: {usable[isa]}")
        return ops.CpuOps(isa=isa, threads=threads, oversubscribed=oversubscribed)

    return make


@pytest.fixture(params=ISA_NAMES)
def isa(request: pytest.FixtureRequest) -> str:
    """Each instruction set in turn."""
    return str(request.param)


@pytest.fixture(params=("avx512_bf16", "avx2", "portable"))
def vector_isa(request: pytest.FixtureRequest) -> str:
    """One path for each set of vector kernels: amx, avx512_bf16 and avx512 share theirs."""
    return str(request.param)
