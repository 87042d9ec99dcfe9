"""Colours that colour-blind readers can tell apart and that stand out from the paper, in both palettes."""

import itertools

import numpy as np
import pytest

from dashboards import theme

# Linear-RGB matrices of Vienot, Brettel and Mollon (1999) for the two frequent kinds, of Brettel (1997) simplified for the third.
SIGHT = {
    "full": np.eye(3),
    "protan": np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]),
    "deutan": np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]),
    "tritan": np.array([[1.01277, 0.13548, -0.14826], [-0.01243, 0.86812, 0.14431], [0.07589, 0.805, 0.11911]]),
}
PALETTES = {"light": theme.LIGHT, "dark": theme.DARK}


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    scaled = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    light = [float(np.array([0.2126, 0.7152, 0.0722]) @ linear(c)) + 0.05 for c in (one, other)]
    return max(light) / min(light)


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("name", PALETTES)
def test_verdicts_differ_for_every_kind_of_sight(name: str, sight: str) -> None:
    colours = {verdict: lab(SIGHT[sight] @ linear(colour)) for verdict, colour in PALETTES[name].verdicts().items()}
    for (one, a), (other, b) in itertools.combinations(colours.items(), 2):
        assert np.linalg.norm(a - b) >= 10, f"{one} and {other} look alike ({sight}, {name})"


@pytest.mark.parametrize("name", PALETTES)
def test_marks_stand_out_from_the_paper(name: str) -> None:
    palette = PALETTES[name]
    marks = [*palette.verdicts().values(), palette.serial, palette.batch, *palette.series]
    assert min(contrast(colour, palette.paper) for colour in marks) >= 3.0
    assert min(contrast(colour, palette.paper) for colour in (palette.ink, palette.muted)) >= 4.5


def test_each_verdict_has_a_shape_of_its_own() -> None:
    assert len(set(theme.SHAPES.values())) == len(set(theme.GLYPHS.values())) == len(theme.VERDICTS)


def test_roles_have_colours_of_their_own_so_that_palettes_can_be_exchanged() -> None:
    for palette in PALETTES.values():
        assert len(set(palette.colours())) == len(palette.colours())
    assert not set(theme.LIGHT.colours()) & set(theme.DARK.colours())


def test_recolour_leaves_the_rows_alone() -> None:
    spec = {"mark": {"color": theme.LIGHT.ink}, "datasets": {"d": [{"commit": theme.LIGHT.ink}]}}
    assert theme.recolour(spec) == {"mark": {"color": theme.DARK.ink}, "datasets": {"d": [{"commit": theme.LIGHT.ink}]}}
