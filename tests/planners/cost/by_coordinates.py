"""What two halves compute and receive, counted element by element from docs/explanation/models.md.

Fully connected layers in a chain. A tensor is the set of its (row, column)
coordinates; who holds, makes and reads which of them is written down here
once more, from what the types mean, and shares nothing with the planners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

Elements = frozenset[tuple[int, int]]
Layer = tuple[str, float]
"""A type's name, and the first half's share."""


def every(rows: Iterable[int], columns: Iterable[int]) -> Elements:
    return frozenset(product(rows, columns))


def of_half(size: int, share: float, half: int) -> range:
    """Which of so many samples or channels a half has; shares must fit."""
    first = round(size * share)
    assert first == size * share
    return range(first) if half == 0 else range(first, size)


@dataclass(frozen=True)
class Product:
    """One half's part of a layer of ``batch`` x ``into`` times ``into`` x ``out``."""

    batch: range
    into: range
    out: range

    @property
    def terms(self) -> frozenset[tuple[int, int, int]]:
        """Its multiplications."""
        return frozenset(product(self.batch, self.into, self.out))


def part(kind: str, share: float, half: int, batch: int, into: int, out: int) -> Product:
    """Type I halves samples, II input channels, III output channels."""
    cut = {"I": 0, "II": 1, "III": 2}[kind]
    sides = [range(batch), range(into), range(out)]
    sides[cut] = of_half(len(sides[cut]), share, half)
    return Product(*sides)


KEPT: dict[str, Callable[[tuple[int, int, int]], tuple[int, int]]] = {
    "forward": lambda term: (term[0], term[2]),
    "backward": lambda term: (term[0], term[1]),
    "gradient": lambda term: (term[1], term[2]),
}
"""The element of its result that a multiplication of a phase adds to."""


def summed(phase: str, one: Product, other: Product) -> int:
    """Elements of a phase's result to which both halves contribute."""
    keep = KEPT[phase]
    return len({keep(term) for term in one.terms} & {keep(term) for term in other.terms})


def flops(phase: str, mine: Product) -> int:
    """Multiplications and additions of a half: a sum of n terms has n - 1 additions."""
    results = {KEPT[phase](term) for term in mine.terms}
    return 2 * len(mine.terms) - len(results)


@dataclass
class Chain:
    """Layers between so many channels each, all of them halved as ``layers`` says."""

    batch: int
    channels: Sequence[int]
    layers: Sequence[Layer]
    parts: list[tuple[Product, Product]] = field(init=False)

    def __post_init__(self) -> None:
        sizes = zip(self.channels, self.channels[1:], strict=False)
        self.parts = [
            (
                part(kind, share, 0, self.batch, into, out),
                part(kind, share, 1, self.batch, into, out),
            )
            for (kind, share), (into, out) in zip(self.layers, sizes, strict=True)
        ]

    def lacks_features(self, layer: int, half: int) -> int:
        """What a half reads before a layer and did not make in the one before."""
        mine, before = self.parts[layer][half], self.parts[layer - 1]
        made = every(before[half].batch, before[half].out)  # type II: the sum is on both
        return len(every(mine.batch, mine.into) - made)

    def lacks_errors(self, layer: int, half: int) -> int:
        """What a half needs of a layer's output error and does not have from the next layer."""
        mine, after = self.parts[layer][half], self.parts[layer + 1]
        made = every(after[half].batch, after[half].into)  # type III: the sum is on both
        return len(every(mine.batch, mine.out) - made)

    def sums(self, phase: str, layer: int) -> int:
        """What each half receives to complete its partial sums."""
        return summed(phase, *self.parts[layer])

    def elements(self, layer: int, half: int) -> int:
        """All that a half receives for a layer and the boundary before it."""
        total = sum(self.sums(phase, layer) for phase in KEPT)
        if layer:
            total += self.lacks_features(layer, half) + self.lacks_errors(layer - 1, half)
        return total


def step_s(chain: Chain, peaks: tuple[float, float], element_s: tuple[float, float]) -> float:
    """Seconds of a training step of two boards that wait for each other at every exchange."""
    clocks = [0.0, 0.0]

    def compute(phase: str, layer: int) -> None:
        for half in (0, 1):
            clocks[half] += flops(phase, chain.parts[layer][half]) / peaks[half]

    def exchange(first: int, second: int) -> None:
        if first or second:
            took = max(first * element_s[0], second * element_s[1])
            clocks[:] = [max(clocks) + took] * 2

    count = len(chain.layers)
    for layer in range(count):
        if layer:
            exchange(chain.lacks_features(layer, 0), chain.lacks_features(layer, 1))
        compute("forward", layer)
        exchange(*[chain.sums("forward", layer)] * 2)
    for layer in reversed(range(count)):
        if layer + 1 < count:
            exchange(chain.lacks_errors(layer, 0), chain.lacks_errors(layer, 1))
        for phase in ("backward", "gradient"):
            compute(phase, layer)
            exchange(*[chain.sums(phase, layer)] * 2)
    return max(clocks)
