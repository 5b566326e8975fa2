"""Reader for the layer files of the AccPar authors' released program.

Plain text, one ``key value`` a line (one that begins with ``#`` is a remark):
``num_layers N``, then for each layer
``NAME CONV`` with its eight keys in order, or ``NAME FC`` with two. Shapes
are taken as written, even where consecutive layers do not fit: that is how
the program's ResNets are defined. A note of the network says so.
``out_fmap`` is the map after pooling; the map before it is not in the file and
is taken as ``pool`` times as wide and high.

Beside what that program reads, a layer may name what it reads in a first line
``inputs NAME,NAME`` (else the layer above it), and may be of any other type by
its name in capitals, with the type's keys in order. Its shape follows from its
inputs then:

    scan STATE_SPACE
    inputs x,B,C,steps
    groups 2
    chunk 64
"""

from __future__ import annotations

from pathlib import Path

from hardware.reader import read_text
from workloads.importers.neutral import printable
from workloads.layer_types import TYPES, Layer
from workloads.network import Network
from workloads.tensors import INPUT, NetworkError, Tensor

_CONV = ("in_ch", "in_fmap_h", "in_fmap_w", "kernel", "out_ch", "out_fmap_h", "out_fmap_w", "pool")
_FC = ("in_ch", "out_ch")
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
        lines = enumerate(text.splitlines(), 1)
        self._lines = [
            (number, words)
            for number, line in lines
            if (words := line.split()) and not words[0].startswith("#")
        ]
        self._lines.reverse()
        self._number = 0
        self._made: dict[str, Layer] = {}
        """What each name in the file stands for: its layer, or the pool behind it."""
        self._notes: list[str] = []

    def _next(self, expected: str) -> list[str]:
        number, words = self._lines.pop() if self._lines else (self._number + 1, [])
        self._number = number
        if len(words) != 2:
            found = f"found {' '.join(words)!r}"[:80] if words else "the file ends"
            raise self._error(f"expected {expected}, {found}")
        return words

    def _error(self, message: str) -> NetworkError:
        return NetworkError(f"{self.path}:{self._number}: {message}")

    def _inputs(self, previous: str) -> tuple[str, ...]:
        """The layers that one reads: the one above, unless its first line says which."""
        if not self._lines or self._lines[-1][1][0] != "inputs":
            return (previous,)
        names = self._next("'inputs NAME,NAME'")[1].split(",")
        for name in names:
            if name != INPUT and name not in self._made:
                raise self._error(f"inputs: {printable(name)!r} is no layer above"[:160])
        return tuple(self._made[name].name if name in self._made else name for name in names)

    def _value(self, key: str, least: int = 1) -> int:
        found, text = self._next(f"'{key} NUMBER'")
        if found != key:
            raise self._error(f"expected '{key} NUMBER', found '{found} {text}'"[:160])
        if not (
            text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= _LARGEST
        ):
            wanted = f"a whole number {least}...{_LARGEST}"
            raise self._error(f"{key} must be {wanted}, found {text!r}"[:160])
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
            layers += self._layer(name, kind, self._inputs(previous), layers)
            names.update(layer.name for layer in layers[-2:])
            self._made[name] = layers[-1]
        if self._lines:
            self._number, words = self._lines.pop()
            raise self._error(f"expected the end after {count} layers, found {' '.join(words)!r}")
        title, origin = printable(self.path.stem), printable(f"layer file {self.path}")
        return Network(title, layers[0].input, tuple(layers), origin, tuple(self._notes))

    def _layer(
        self, name: str, kind: str, sources: tuple[str, ...], before: list[Layer]
    ) -> list[Layer]:
        if kind == "FC":
            into, out = (self._value(key) for key in _FC)
            self._compare(name, sources, Tensor(into), before)
            return [Layer(name, "fc", sources, Tensor(into), Tensor(out))]
        if kind != "CONV":
            return [self._typed(name, kind, sources, before)]
        v = {key: self._value(key) for key in _CONV}
        source = Tensor(v["in_ch"], v["in_fmap_h"], v["in_fmap_w"])
        pooled = Tensor(v["out_ch"], v["out_fmap_h"], v["out_fmap_w"])
        pool = v["pool"]
        raw = Tensor(pooled.channels, pooled.height * pool, pooled.width * pool)
        self._compare(name, sources, source, before)
        most = [side + v["kernel"] - 1 for side in (source.height, source.width)]  # fully padded
        if raw.height > most[0] or raw.width > most[1]:
            self._notes.append(f"{name} makes {raw} of {source}, more than any padding gives")
        conv = Layer(name, "conv", sources, source, raw, kernel=v["kernel"])
        if pool == 1:
            return [conv]
        return [conv, Layer(f"{name}.pool", "max_pool", (name,), raw, pooled, pool, pool)]

    def _compare(
        self, name: str, sources: tuple[str, ...], reads: Tensor, before: list[Layer]
    ) -> None:
        """Note a layer that reads another shape than its source writes (or all of it, as a row)."""
        source = next((layer for layer in reversed(before) if (layer.name,) == sources), None)
        if source and reads not in (source.output, Tensor(source.output.elements)):
            self._notes.append(f"{name} reads {reads}, but {source.name} writes {source.output}")

    def _typed(self, name: str, kind: str, sources: tuple[str, ...], before: list[Layer]) -> Layer:
        """A layer of any type, whose shape follows from its inputs."""
        type_ = TYPES.get(kind.lower())
        if type_ is None or kind != kind.upper() or not before:
            known = "CONV or FC" if not before else f"one of {', '.join(sorted(TYPES)).upper()}"
            raise self._error(f"expected {known} after {name!r}, found {kind!r}"[:400])
        shapes = {layer.name: layer.output for layer in before} | {INPUT: before[0].input}
        given = {key: self._value(key, int(key != "padding")) for key in type_.keys}
        try:
            return type_.layer(name, sources, [shapes[source] for source in sources], **given)
        except NetworkError as error:
            raise self._error(f"layer {name!r}: {error}") from None
