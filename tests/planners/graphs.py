"""Random networks for searches: series-parallel, general, and too wide on purpose."""

from __future__ import annotations

import itertools
import random

from workloads import Layer, Network, Tensor

SIDE = (1, 2, 4)


def _shape(rng: random.Random) -> Tensor:
    return Tensor(rng.randint(1, 9), rng.choice(SIDE), rng.choice(SIDE))


class Drawing:
    """A network drawn layer by layer; shapes need not fit from one layer to the next."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311  (not cryptography)
        self.layers: list[Layer] = []

    def layer(self, source: str) -> str:
        name, kind = f"layer{len(self.layers)}", self.rng.choice(("conv", "conv", "fc", "grouped"))
        shapes = _shape(self.rng), _shape(self.rng)
        if kind == "conv":
            self.layers.append(Layer(name, "conv", (source,), *shapes, self.rng.choice((1, 3))))
        elif kind == "grouped":
            g = self.rng.choice((2, 4, 8))
            shapes = Tensor(g * self.rng.randint(1, 3), 2), Tensor(g * self.rng.randint(1, 3), 2)
            self.layers.append(Layer(name, "conv", (source,), *shapes, 3, groups=g))
        else:
            shapes = Tensor(self.rng.randint(1, 40), 2), Tensor(self.rng.randint(1, 40), 2)
            self.layers.append(Layer(name, "fc", (source,), *shapes))
        return name

    def matmul(self, left: str, right: str) -> str:
        """Two heads, of k features each."""
        name, (k, rows, n) = (
            f"product{len(self.layers)}",
            (self.rng.randint(1, 5) for _ in range(3)),
        )
        shapes = Tensor(2 * k, rows), Tensor(2 * n, rows)
        second = (Tensor(2 * k, n),)
        self.layers.append(Layer(name, "matmul", (left, right), *shapes, groups=2, others=second))
        return name

    def join(self, *sources: str) -> str:
        """A sum of alike tensors, or a concatenation of unlike ones."""
        name, shapes = f"join{len(self.layers)}", [_shape(self.rng) for _ in sources]
        if self.rng.random() < 0.5:
            self.layers.append(Layer(name, "add", sources, shapes[0], shapes[0]))
            return name
        height, width = shapes[0].height, shapes[0].width
        parts = [Tensor(shape.channels, height, width) for shape in shapes]
        whole = Tensor(sum(part.channels for part in parts), height, width)
        self.layers.append(Layer(name, "concat", sources, parts[0], whole, others=tuple(parts[1:])))
        return name

    def network(self) -> Network:
        return Network("drawn", Tensor(3), tuple(self.layers))


def series_parallel(seed: int, most: int = 9) -> Network:
    """Blocks in series or in parallel, nested, of at most ``most`` layers and joins."""
    drawing = Drawing(seed)
    _block(drawing, "input", drawing.rng.randint(1, most))
    return drawing.network()


def _block(drawing: Drawing, source: str, nodes: int) -> str:
    if nodes == 1:
        return drawing.layer(source)
    if nodes == 2 or drawing.rng.random() < 0.4:
        cut = drawing.rng.randint(1, nodes - 1)
        return _block(drawing, _block(drawing, source, cut), nodes - cut)
    cut = drawing.rng.randint(1, nodes - 2)
    one, other = (_block(drawing, source, n) for n in (cut, nodes - 1 - cut))
    return drawing.join(one, other)


def general(seed: int, most: int = 9) -> Network:
    """Layers that read any earlier one, and joins of any two or three."""
    drawing = Drawing(seed)
    names = [drawing.layer("input")]
    for _ in range(drawing.rng.randint(0, most - 1)):
        if len(names) > 1 and drawing.rng.random() < 0.45:
            count = min(len(names), drawing.rng.choice((2, 2, 3)))
            names.append(drawing.join(*drawing.rng.sample(names, count)))
        elif len(names) > 1 and drawing.rng.random() < 0.2:
            names.append(drawing.matmul(*drawing.rng.sample(names, 2)))
        else:
            names.append(drawing.layer(drawing.rng.choice([*names, "input"])))
    return drawing.network()


def _convolutions(drawing: Drawing, count: int) -> list[str]:
    """Layers side by side, of three types each."""
    names = [f"layer{i}" for i in range(count)]
    for name in names:
        shapes = _shape(drawing.rng), _shape(drawing.rng)
        drawing.layers.append(Layer(name, "conv", ("input",), *shapes))
    return names


def every_pair_added(layers: int, seed: int = 0) -> Network:
    """Layers side by side and the sum of every two: no elimination order is narrow."""
    drawing = Drawing(seed)
    names = _convolutions(drawing, layers)
    for pair in itertools.combinations(names, 2):
        drawing.join(*pair)
    return drawing.network()


def added_at_random(layers: int, joins: int, seed: int = 0) -> Network:
    """Layers side by side, and sums of two or three of them at random."""
    drawing = Drawing(seed)
    names = _convolutions(drawing, layers)
    for _ in range(joins):
        drawing.join(*drawing.rng.sample(names, drawing.rng.choice((2, 3))))
    return drawing.network()
