"""Colours that stand beside each other differ for colour-blind readers, and in grey."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from experiments.pictures.palette import BOUNDS, PHASES, SERIES, SPENT, TYPES

SIMULATED = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
"""Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB."""
TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
) / [[0.9505], [1.0], [1.089]]
LEAST, LEAST_GREY = 14.0, 8.0
"""CIE 1976 distances: of colours, and of lightness alone."""

COMPUTE = {phase: shades[0] for phase, shades in PHASES.items()}
NEIGHBOURS = {
    "series": list(pairwise(SERIES)),
    "spent": list(combinations(SPENT.values(), 2)),
    "bounds": list(combinations(BOUNDS.values(), 2)),
    "types": list(combinations([TYPES[one] for one in ("I", "II", "III")], 2)),
    "phases": [
        (COMPUTE[a], COMPUTE[b])
        for a, b in (
            ("forward", "backward"),
            ("backward", "gradient"),
            ("gradient", "update"),
            ("recompute", "backward"),
            ("recompute", "forward"),
        )
    ],
    "shades": [pair for shades in PHASES.values() for pair in pairwise(shades)],
}


def lab(colour: str, matrix: object) -> np.ndarray:
    """CIE L*a*b* of a colour as a reader sees it."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(np.array(matrix) @ linear, 0.0, 1.0)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIMULATED)
@pytest.mark.parametrize("what", NEIGHBOURS)
def test_neighbours_differ(what: str, sight: str) -> None:
    for a, b in NEIGHBOURS[what]:
        apart = np.linalg.norm(lab(a, SIMULATED[sight]) - lab(b, SIMULATED[sight]))
        assert apart >= LEAST, f"{what}, {sight}: {a} and {b} are {apart:.1f} apart"


@pytest.mark.parametrize("what", NEIGHBOURS)
def test_neighbours_differ_in_grey(what: str) -> None:
    for a, b in NEIGHBOURS[what]:
        apart = abs(lab(a, np.eye(3))[0] - lab(b, np.eye(3))[0])
        assert apart >= LEAST_GREY, f"{what}, grey: {a} and {b} are {apart:.1f} apart"


def test_series_differ_for_everybody() -> None:
    for sight, matrix in SIMULATED.items():
        for a, b in combinations(SERIES, 2):
            apart = np.linalg.norm(lab(a, matrix) - lab(b, matrix))
            assert apart >= 9.0, f"{sight}: {a} and {b} are {apart:.1f} apart"


def test_a_known_distance() -> None:
    assert lab("#ffffff", np.eye(3)) == pytest.approx([100, 0, 0], abs=0.1)
    red_green = [lab(one, SIMULATED["deuteranopia"]) for one in ("#ff0000", "#00ff00")]
    assert abs(red_green[0][1] - red_green[1][1]) < 20  # nothing is left of red against green
