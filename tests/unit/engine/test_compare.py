"""The measure by which engines are held against each other."""

import numpy as np
import pytest

from engine.compare import TOLERANCE, clear_choices, compare, relative_error


def logits(rows: int = 5, vocab: int = 100) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows, vocab)).astype(np.float32)


def test_relative_error_is_of_norms() -> None:
    ref = logits()
    assert relative_error(ref, ref) == 0
    assert relative_error(ref * np.float32(1.01), ref) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_not_finite_never_passes(bad: float) -> None:
    out = logits()
    out[1, 3] = bad
    found = compare(out, logits())
    assert found.relative_error == found.worst_error == float("inf")
    assert found.worst_position == 1
    assert not found.passed


def test_a_clear_choice_that_differs_is_named() -> None:
    ref = logits()
    ref[2, 7], ref[2, 8] = 9.0, 5.0
    out = ref.copy()
    out[2, 8] = 9.5
    found = compare(out, ref)
    assert found.differing == (2,)
    assert not found.passed
    assert compare(ref, ref).passed


def test_a_choice_within_the_tolerance_may_differ() -> None:
    ref = logits()
    ref[2, 7], ref[2, 8] = 9.0, 9.0 - 0.01 * TOLERANCE
    assert not clear_choices(ref)[2]
    out = ref.copy()
    out[2, 8] = 9.0 + 0.01 * TOLERANCE
    assert compare(out, ref).passed


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"found shape \(4, 100\), expected \(5, 100\)"):
        compare(logits(4), logits(5))
