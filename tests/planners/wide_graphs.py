"""Networks whose graphs are too wide for an exact search, on purpose."""

from __future__ import annotations

import itertools
import random

from workloads import Layer, Network, Tensor

SIDE = (1, 2, 4)


def _shape(rng: random.Random) -> Tensor:
    return Tensor(rng.randint(1, 9), rng.choice(SIDE), rng.choice(SIDE))


def _convolutions(rng: random.Random, count: int) -> list[Layer]:
    """Layers side by side, of three types each."""
    return [Layer(f"layer{i}", "conv", ("input",), _shape(rng), _shape(rng)) for i in range(count)]


def _added(rng: random.Random, name: str, sources: tuple[str, ...]) -> Layer:
    """A sum of alike tensors, whatever the sources write."""
    shape = _shape(rng)
    return Layer(name, "add", sources, shape, shape)


def every_pair_added(layers: int, seed: int = 0) -> Network:
    """Layers side by side and the sum of every two: no elimination order is narrow."""
    rng = random.Random(seed)  # noqa: S311  (not cryptography)
    made = _convolutions(rng, layers)
    pairs = itertools.combinations([layer.name for layer in made], 2)
    made += [_added(rng, f"join{i}", pair) for i, pair in enumerate(pairs)]
    return Network("drawn", Tensor(3), tuple(made))


def added_at_random(layers: int, joins: int, seed: int = 0) -> Network:
    """Layers side by side, and sums of two or three of them at random."""
    rng = random.Random(seed)  # noqa: S311  (not cryptography)
    made = _convolutions(rng, layers)
    names = [layer.name for layer in made]
    for i in range(joins):
        sources = tuple(rng.sample(names, rng.choice((2, 3))))
        made.append(_added(rng, f"join{i}", sources))
    return Network("drawn", Tensor(3), tuple(made))
