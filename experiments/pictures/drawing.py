"""How a figure becomes pixels, the same in every file and notebook."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

DPI = 150


@contextmanager
def drawing() -> Iterator[None]:
    """How figures become files.

    Names come from strangers' files: a letter our font lacks is drawn as a
    box, without a warning.
    """
    from matplotlib import rc_context

    with (
        rc_context({"hatch.linewidth": 0.4, "svg.hashsalt": "accelarray"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
