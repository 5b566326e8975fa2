"""Shapes of tensors, the name of a network's input, and the error of what is malformed."""

from __future__ import annotations

from dataclasses import dataclass

INPUT = "input"
"""The name by which layers refer to whatever enters the network."""

Sides = int | tuple[int, int]
"""One number for both sides of a window, or (height, width)."""


class NetworkError(ValueError):
    """A network, or a file that describes one, is malformed."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape of one sample's feature map; a vector has height and width 1."""

    channels: int
    height: int = 1
    width: int = 1

    @property
    def area(self) -> int:
        """Elements of one channel."""
        return self.height * self.width

    @property
    def elements(self) -> int:
        """Elements of one sample."""
        return self.channels * self.area

    def __str__(self) -> str:
        return f"{self.channels}x{self.height}x{self.width}"


def sides(value: Sides) -> tuple[int, int]:
    """Height and width of a window's measure."""
    return value if isinstance(value, tuple) else (value, value)
