"""Reader for the layer files of the AccPar authors' released program.

Plain text, one ``key value`` a line: ``num_layers N``, then for each layer
``NAME CONV`` with its eight keys in order, or ``NAME FC`` with two. Shapes
are taken as written, even where consecutive layers do not fit: that is how
the program's ResNets are defined. ``out_fmap`` is the map after pooling; the
map before it is not in the file and is taken as ``pool`` times as wide and
high.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hardware.reader import read_text
from workloads.importers.neutral import printable
from workloads.kinds import INPUT, NetworkError, Tensor
from workloads.layers import Layer, Network

_CONV_KEYS = (
    "in_ch",
    "in_fmap_h",
    "in_fmap_w",
    "kernel",
    "out_ch",
    "out_fmap_h",
    "out_fmap_w",
    "pool",
)
_FC_KEYS = ("in_ch", "out_ch")
_MOST_LAYERS = 10_000
_MOST_BYTES = 4 << 20
_LARGEST = 1 << 24


def read_layer_file(path: str | Path) -> Network:
    """Read one file; the network is named after it.

    Raises NetworkError with ``file:line`` and what was expected there.
    """
    path = Path(path)
    text = read_text(path, NetworkError, "a layer file", _MOST_BYTES)
    try:
        return _Parser(path, text).network()
    except NetworkError as error:
        if str(error).startswith(f"{path}:"):
            raise
        raise NetworkError(f"{path}: {error}") from None


class _Parser:
    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._lines = self._pairs(text)
        self._number = 0

    def _pairs(self, text: str) -> Iterator[tuple[int, list[str]]]:
        for number, line in enumerate(text.splitlines(), 1):
            if words := line.split():
                yield number, words

    def _next(self, expected: str) -> list[str]:
        number, words = next(self._lines, (self._number + 1, []))
        self._number = number
        if len(words) != 2:
            found = f"found {' '.join(words)!r}"[:80] if words else "the file ends"
            raise self._error(f"expected {expected}, {found}")
        return words

    def _error(self, message: str) -> NetworkError:
        return NetworkError(f"{self.path}:{self._number}: {message}")

    def _value(self, key: str) -> int:
        found, text = self._next(f"'{key} NUMBER'")
        if found != key:
            raise self._error(f"expected '{key} NUMBER', found '{found} {text}'"[:160])
        if not (text.isascii() and text.isdigit() and len(text) < 12 and 0 < int(text) <= _LARGEST):
            raise self._error(f"{key} must be a whole number 1...{_LARGEST}, found {text!r}"[:160])
        return int(text)

    def network(self) -> Network:
        count = self._value("num_layers")
        if count > _MOST_LAYERS:
            raise self._error(f"num_layers {count} is more than {_MOST_LAYERS}")
        layers: list[Layer] = []
        names = {INPUT}
        for i in range(count):
            name, kind = self._next(f"'NAME CONV' or 'NAME FC' (layer {i + 1} of {count})")
            name = printable(name)
            if name in names:
                raise self._error(f"layer name {name!r} is used twice"[:160])
            previous = layers[-1].name if layers else INPUT
            layers += self._layer(name, kind, previous)
            names.update(layer.name for layer in layers[-2:])
        for number, words in self._lines:
            self._number = number
            raise self._error(f"expected the end after {count} layers, found {' '.join(words)!r}")
        title, origin = printable(self.path.stem), printable(f"layer file {self.path}")
        return Network(title, layers[0].input, tuple(layers), origin)

    def _layer(self, name: str, kind: str, previous: str) -> list[Layer]:
        if kind == "FC":
            into, out = (self._value(key) for key in _FC_KEYS)
            return [Layer(name, "fc", (previous,), Tensor(into), Tensor(out))]
        if kind != "CONV":
            raise self._error(f"expected CONV or FC after {name!r}, found {kind!r}"[:160])
        v = {key: self._value(key) for key in _CONV_KEYS}
        source = Tensor(v["in_ch"], v["in_fmap_h"], v["in_fmap_w"])
        pooled = Tensor(v["out_ch"], v["out_fmap_h"], v["out_fmap_w"])
        pool = v["pool"]
        raw = Tensor(pooled.channels, pooled.height * pool, pooled.width * pool)
        conv = Layer(name, "conv", (previous,), source, raw, kernel=v["kernel"])
        if pool == 1:
            return [conv]
        return [conv, Layer(f"{name}.pool", "max_pool", (name,), raw, pooled, pool, pool)]
