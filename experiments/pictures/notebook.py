"""Figures that show themselves in notebooks."""

from __future__ import annotations

import io
import os

from matplotlib.figure import Figure

from experiments.pictures.figures import DPI, drawing, save

CSS_PIXELS = 96
"""Pixels that a browser shows for an inch, however fine its screen is."""


class NotebookFigure(Figure):
    """A figure that a notebook shows whether or not ``pyplot`` was imported.

    Matplotlib's own are shown only once ``pyplot`` has told the notebook how.
    """

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """PNG as ``save`` writes it, and how large to show it."""
        width, height = (round(inches * CSS_PIXELS) for inches in self.get_size_inches())
        with drawing(), io.BytesIO() as file:
            self.savefig(file, format="png", dpi=DPI)
            return file.getvalue(), {"width": width, "height": height}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it whole, the same figure as the same file; .png, .svg or .pdf. UsageError."""
        save(self, os.fspath(path))
