"""Figures that show themselves in notebooks."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

from experiments.pictures.drawing import DPI, drawing

CSS_PIXELS = 96
"""Pixels that a browser takes for an inch, however fine its screen is."""


class NotebookFigure(Figure):
    """A figure that a notebook shows whether or not ``pyplot`` was imported.

    Matplotlib's own are shown only once ``pyplot`` has told the notebook how.
    """

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The pixels that a saved PNG has, and how large to show them."""
        width, height = (round(inches * CSS_PIXELS) for inches in self.get_size_inches())
        with drawing(), io.BytesIO() as file:
            self.savefig(file, format="png", dpi=DPI)
            return file.getvalue(), {"width": width, "height": height}
