"""Where the time of one step goes: on its critical path and on an average core, by layer."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeVar

from simulator import PICOSECONDS, Timeline
from simulator.analysis.critical_path import BOUNDS, SLOWED, Segment, critical_path
from simulator.analysis.exposed_communication import cores_in_no_stage
from simulator.analysis.stalls import core_steps
from workloads import Layer, Network
from workloads.network import NUMBER

Key = TypeVar("Key")
STEPS_END = "the end of the step"
"""What a core waits for when it has nothing left to do."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What an average core spends on one layer, or boundary; picoseconds summed over all cores."""

    layer: str
    computing_ps: int = 0
    exposed_ps: int = 0
    waiting_ps: int = 0


def bounds_of(segment: Segment) -> dict[str, int]:
    """Picoseconds of a segment by what they go to; no worker of a step has a pace of its own.

    So what slows an operation down is its HBM, which other units of the core use.
    """
    parts = segment.bounds_ps()
    slowed = parts.pop(SLOWED, 0)
    return parts | ({"HBM": parts.get("HBM", 0) + slowed} if slowed else {})


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """One step's critical path, and every core's time by layer; the largest part first.

    ``layers`` sum to the step, ``cores`` times over.
    """

    iteration_ps: int
    path: tuple[Segment, ...]
    cores: int
    idle_cores: int
    layers: tuple[Spent, ...]

    def share(self, path_ps: int) -> float:
        """Picoseconds as a fraction of the step."""
        return path_ps / self.iteration_ps if self.iteration_ps else 0.0

    def seconds(self, core_ps: int) -> float:
        """What an average core spends of core-picoseconds, in seconds."""
        return core_ps / self.cores / PICOSECONDS

    def by_bound(self) -> dict[str, int]:
        """Picoseconds of the path by what they go to (``critical_path.BOUNDS``)."""
        spent = Counter(dict.fromkeys(BOUNDS, 0))
        for segment in self.path:
            spent.update(bounds_of(segment))
        return dict(spent)

    def by_kind(self) -> dict[tuple[str, str], int]:
        """Picoseconds of the path by phase and kind, the largest first."""
        return _sums([(str(s.operation.phase), str(s.operation.kind)) for s in self.path], self)

    def by_layer(self) -> dict[str, int]:
        """Picoseconds of the path by layer, or boundary between two, the largest first."""
        return _sums([segment.operation.layer for segment in self.path], self)


def _sums(keys: Sequence[Key], paths: Paths) -> dict[Key, int]:
    spent: Counter[Key] = Counter()
    for key, segment in zip(keys, paths.path, strict=True):
        spent[key] += segment.duration_ps
    return dict(spent.most_common())


def paths_of(timeline: Timeline) -> Paths:
    """Walk a step's critical path, and every core's waits.

    Cores in no stage of a pipeline wait for the end of the step.
    """
    steps = list(core_steps(timeline))
    in_no_stage = cores_in_no_stage(timeline)
    computing, exposed = Counter[str](), Counter[str]()
    waiting = +Counter({STEPS_END: in_no_stage * timeline.makespan_ps})
    for step in steps:
        for operation, ps in step.computed:
            computing[operation.layer] += ps * step.cores
        for wait in step.waits:
            layer = wait.exchange.layer if wait.exchange else STEPS_END
            exposed[layer] += wait.exposed * step.cores
            waiting[layer] += wait.waiting * step.cores
    spent = [
        Spent(layer, computing[layer], exposed[layer], waiting[layer])
        for layer in dict.fromkeys([*computing, *exposed, *waiting])
    ]
    return Paths(
        timeline.makespan_ps,
        tuple(critical_path(timeline)),
        sum(step.cores for step in steps) + in_no_stage,
        sum(step.cores for step in steps if not any(ps for _, ps in step.computed)) + in_no_stage,
        tuple(sorted(spent, key=lambda s: -s.computing_ps - s.exposed_ps)),
    )


MOST_CUTS = 4
"""Of a name that are tried; names come from strangers' files."""
BUCKET = re.compile(r"(.+) and [\d,]+ more")
BOUNDARY, BUCKETS, UNKNOWN = "redistribution", "gradient buckets", "other"


@dataclass(frozen=True, slots=True)
class Part:
    """What some layers take together; picoseconds as in ``Paths``.

    ``path_ps`` are of the critical path, the others summed over all cores.
    A block that is repeated ``count`` times has its ``parts``, each the layers
    of one place in it.
    """

    name: str
    layers: tuple[str, ...]
    path_ps: int
    computing_ps: int
    exposed_ps: int
    waiting_ps: int
    count: int = 1
    parts: tuple[Part, ...] = ()


class Place(NamedTuple):
    """Where a layer is in a repeated block: the block's name, its repeats, the rest of the name."""

    block: str
    repeats: int
    rest: str


def repeated(layers: Sequence[Layer]) -> dict[str, Place]:
    """Layers of blocks that come more than once, the outermost ones.

    Blocks are alike that are called alike but for a number, and have the same
    operators, in order, with the same windows and on maps of the same size.
    """
    inside: dict[tuple[str, str], list[object]] = defaultdict(list)
    for layer in layers:
        for stem, number, rest in _cuts(layer.name):
            shape = layer.output.height, layer.output.width
            inside[stem, number].append((rest, layer.kind, layer.kernel, shape))
    alike: dict[tuple[str, tuple[object, ...]], list[str]] = defaultdict(list)
    numbers: dict[str, list[str]] = defaultdict(list)
    for (stem, number), found in inside.items():
        alike[stem, tuple(found)].append(number)
        numbers[stem].append(number)
    places: dict[str, Place] = {}
    for layer in layers:
        for stem, number, rest in _cuts(layer.name):
            same = alike[stem, tuple(inside[stem, number])]
            if len(same) > 1:
                which = "*" if len(same) == len(numbers[stem]) else _ranges(map(int, same))
                places[layer.name] = Place(stem + which, len(same), rest)
                break
    return places


def _cuts(name: str) -> Iterator[tuple[str, str, str]]:
    """Before, at and behind each of a name's first numbers."""
    for found in islice(NUMBER.finditer(name), MOST_CUTS):
        yield name[: found.start()], found[0], name[found.end() :]


def _ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers as 1..3,7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("..".join(map(str, run)) for run in runs)


def by_block(network: Network, paths: Paths) -> tuple[Part, ...]:
    """A part for each repeated block, and each layer or boundary in none; the largest first.

    A boundary is in the block of the layer that reads it.
    """
    places, known = repeated(network.layers), {layer.name for layer in network.layers}
    blocks: dict[str, list[str]] = defaultdict(list)
    rests: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    counts: dict[str, int] = {}
    for name in _names(paths):
        ends = _ends(name, known)
        place = places.get(ends[1] if ends else name)
        block = place.block if place else name
        blocks[block].append(name)
        if place:
            counts[block] = place.repeats
            rests[block]["to " * bool(ends) + place.rest].append(name)
    part = _summing(paths)
    parts = {block: _largest(map(part, inner, inner.values())) for block, inner in rests.items()}
    return _largest(
        part(block, layers, counts.get(block, 1), parts.get(block, ()))
        for block, layers in blocks.items()
    )


def by_kind(network: Network, paths: Paths) -> tuple[Part, ...]:
    """A part for each kind of layer, one for boundaries and one for buckets; the largest first."""
    kinds = {layer.name: layer.operator or layer.kind for layer in network.layers}
    found: dict[str, list[str]] = defaultdict(list)
    for name in _names(paths):
        found[_kind(name, kinds)].append(name)
    return _largest(map(_summing(paths), found, found.values()))


def _summing(paths: Paths) -> Callable[..., Part]:
    """What adds up what layers take."""
    path, each = paths.by_layer(), {spent.layer: spent for spent in paths.layers}

    def part(
        name: str, layers: Sequence[str], count: int = 1, parts: tuple[Part, ...] = ()
    ) -> Part:
        found = [each[layer] for layer in layers if layer in each]
        return Part(
            name,
            tuple(layers),
            sum(path.get(layer, 0) for layer in layers),
            sum(spent.computing_ps for spent in found),
            sum(spent.exposed_ps for spent in found),
            sum(spent.waiting_ps for spent in found),
            count,
            parts,
        )

    return part


def _kind(name: str, kinds: Mapping[str, str]) -> str:
    if name in kinds or name == STEPS_END:
        return kinds.get(name, name)
    if _ends(name, kinds):
        return BOUNDARY
    bucket = BUCKET.fullmatch(name)
    return BUCKETS if bucket and bucket[1] in kinds else UNKNOWN


def _ends(name: str, known: Iterable[str]) -> tuple[str, str] | None:
    """The two layers of a boundary, "a to b"; None for what is none."""
    words = name.split(" to ")
    if name in known or len(words) > MOST_CUTS:
        return None
    cuts = ((" to ".join(words[:i]), " to ".join(words[i:])) for i in range(1, len(words)))
    return next(((a, b) for a, b in cuts if a in known and b in known), None)


def _names(paths: Paths) -> dict[str, None]:
    """Every layer and boundary, in their order."""
    return dict.fromkeys([*(spent.layer for spent in paths.layers), *paths.by_layer()])


def _largest(parts: Iterable[Part]) -> tuple[Part, ...]:
    def size(part: Part) -> tuple[int, int]:
        return -part.path_ps, -part.computing_ps - part.exposed_ps - part.waiting_ps

    return tuple(sorted(parts, key=size))
