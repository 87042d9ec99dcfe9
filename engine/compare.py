"""How close two engines' logits are, and which of the reference's greedy choices are clear enough to be held to."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]  # [positions, vocabulary]
TOLERANCE = 2e-2  # relative error of logits that narrow weights and BF16 activations stay within


@dataclass(frozen=True)
class Agreement:
    """Logits of one run held against a reference at the same positions."""

    relative_error: float  # ||out - ref|| / ||ref|| over all positions
    worst_error: float  # the same for the worst single position
    worst_position: int
    clear: int  # positions whose greedy choice the tolerance cannot turn
    positions: int
    differing: tuple[int, ...]  # clear positions where the choices differ nevertheless

    @property
    def passed(self) -> bool:
        """Within the tolerance, and the same greedy choice wherever it is clear."""
        return self.relative_error <= TOLERANCE and not self.differing


def relative_error(out: Logits, ref: Logits) -> float:
    """||out - ref|| / ||ref|| in float64; infinite where `out` is not finite, so that NaN never passes."""
    if not np.isfinite(out).all():
        return float("inf")
    difference = np.linalg.norm(out.astype(np.float64) - ref.astype(np.float64))
    return float(difference / np.linalg.norm(ref.astype(np.float64)))


def clear_choices(ref: Logits, tolerance: float = TOLERANCE) -> npt.NDArray[np.bool_]:
    """Positions where the reference's two largest logits lie further apart than an error of `tolerance` reaches.

    At that relative error a logit is off by tolerance * rms(logits); two logits approach each other by twice that.
    """
    top = np.partition(ref, -2, axis=-1)[:, -2:]
    reach = 2 * tolerance * np.sqrt(np.mean(np.square(ref, dtype=np.float64), axis=-1))
    return np.asarray(top[:, 1] - top[:, 0] > reach)


def compare(out: Logits, ref: Logits) -> Agreement:
    """Hold `out` against `ref`, both [positions, vocabulary]. Raises ValueError when the shapes differ."""
    if out.shape != ref.shape:
        raise ValueError(f"logits: found shape {out.shape}, expected {ref.shape}")
    errors = [relative_error(o[None], r[None]) for o, r in zip(out, ref, strict=True)]
    clear = clear_choices(ref)
    differs = clear & (out.argmax(axis=-1) != ref.argmax(axis=-1))
    worst = int(np.argmax(errors))
    return Agreement(
        relative_error=relative_error(out, ref),
        worst_error=errors[worst],
        worst_position=worst,
        clear=int(clear.sum()),
        positions=len(ref),
        differing=tuple(int(i) for i in np.flatnonzero(differs)),
    )
