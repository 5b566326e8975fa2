"""Which values of an array's spec an execution model does not read, and which model does.

Found by asking: a small network is planned and simulated under each model on
the array with fewer boards, which notes what it is asked (``hardware.watched``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from hardware import COMMAND_LINE, Array, Roofline, SpecError
from hardware.topology import near_cubic, near_square
from hardware.watched import unread, watched
from planners import PlanError, load_planner
from simulator import DEPLOYED, PUBLISHED, Execution, SimulationError, simulate
from simulator.cost.recompute import NONE
from workloads import load_network

PROBE, BATCH, MOST_BOARDS = "lenet", 64, 4
"""What is simulated: convolutions, poolings and products; on at most so many boards of a kind."""
MODELS = (PUBLISHED, DEPLOYED)
_SHARES = {
    "matrix_efficiency": "products come to the peak",
    "memory_efficiency": "traffic comes to the bandwidth",
}
"""What a stack says of a chip's roofline."""
USUAL = Roofline()
LEAST_SIDE = 4
"""Of a torus of TPU v4 or v5p (Google Cloud documentation)."""
KNOWN_CHIPS = 4
"""Up to so many chips a board's mesh is a measured machine's."""


def warnings(array: Array, execution: Execution) -> list[str]:
    """Sentences about what of the spec the model does not read; first what was changed.

    What was not changed and no model reads, as the port of a board that is alone, is left out,
    and so are ports of devices where tiers say how fast theirs are.
    """
    keys = [s.key for s in array.settings if s.source != COMMAND_LINE]
    if array.topology.levels:
        keys = [key for key in keys if not _plain(key).startswith("network.")]
    idle = frozenset.intersection(*(_unread(array, model) for model in MODELS))
    written = _tables([key for key in keys if key in _unread(array, execution) - idle], array)
    rest = _sentences(written, " of this array's spec", array, execution)
    return [*changed(array, execution), *rest, *_assumed(array, execution)]


def _assumed(array: Array, execution: Execution) -> Iterator[str]:
    """What is taken for granted about large boards: TPU boards, of four chips, are known."""
    if execution.model != "deployed":
        return
    yield from dict.fromkeys(_without_shares(array))
    if array.topology.joins == "chips":
        yield from small_tori(array)
        return
    for device in dict.fromkeys(d for d, _ in array.group.kinds if d.chips > KNOWN_CHIPS):
        sides = " x ".join(map(str, near_square(device.chips)))
        yield (
            f"The {device.chips} chips of a {device.name} are taken to be joined as a {sides} "
            f'mesh; topology.joins = "chips" with [[topology.levels]] says how they are.'
        )


def small_tori(array: Array) -> Iterator[str]:
    """Tori of TPUs that are too small to have links around."""
    for i, tier in enumerate(array.topology.levels):
        if tier.kind != "torus" or tier.dimensions != 3:
            continue
        chips = sum(count for _, count in array.group.chips)
        sides = tier.shape or near_cubic(tier.members or chips, tier.dimensions)
        if min(sides) < LEAST_SIDE:
            yield (
                f"A torus of {' x '.join(map(str, sides))} is taken to have links around; slices "
                f"of TPU v4 and v5p have them from 4 x 4 x 4 up (else topology.levels.{i}.kind="
                "mesh)."
            )


def _without_shares(array: Array) -> Iterator[str]:
    """Chips of which the stack does not say how near they come to their peak or bandwidth."""
    said = {setting.key: setting for setting in array.settings}
    for entry in [key.removesuffix(".device") for key in said if key.endswith(".device")]:
        units = any(key.startswith(f"{entry}.units.") for key in said)
        found = []
        for name, words in _SHARES.items():
            share = said.get(f"{entry}.roofline.{name}")
            if share is None or not share.source.startswith(("stack ", COMMAND_LINE)):
                found.append((words, share.value if share else f"{getattr(USUAL, name):g}"))
        if array.stack and found and not units:
            words, values = (" and ".join(map(str, of)) for of in zip(*found, strict=True))
            many = "those of its spec are" if len(found) > 1 else "that of its spec is"
            yield (
                f"Stack {array.stack.name} does not say how near {words} of "
                f"{said[f'{entry}.device'].value}: {many} taken, {values}."
            )


def changed(array: Array, execution: Execution) -> list[str]:
    """Sentences about what was changed, by ``--set`` or ``--vary``, and is not read."""
    keys = [s.key for s in array.settings if s.source == COMMAND_LINE]
    idle = _unread(array, execution)
    names = by_table([key for key in keys if key in idle])
    partly = _partly([key for key in keys if key not in idle], array)
    return [*_sentences(names, ", which was changed", array, execution), *partly]


def _partly(keys: Sequence[str], array: Array) -> Iterator[str]:
    """What small messages may not read, as a tier has times of its own for them."""
    for i, tier in enumerate(array.topology.levels):
        own = [f"topology.levels.{i}.{name}" for name in ("latency", "half_size")]
        if tier.protocols and (of := [key for key in own if key in keys]):
            ways = " and ".join(dict.fromkeys(f"{by.algorithm} ones" for by in tier.protocols))
            yield (
                f"Small collectives may not read {' and '.join(of)}: {ways} can take the times of "
                f"topology.levels.{i}.protocols (without them: topology.levels.{i}.protocols=[])."
            )


def _sentences(
    names: dict[str, list[str]], what: str, array: Array, execution: Execution
) -> Iterator[str]:
    """One for each set of other models that read something of it."""
    others = {str(m.model): m for m in MODELS if m.model != execution.model}
    if not execution.whole_shards:
        others[f"{execution.model} (--shards whole)"] = replace(execution, whole_shards=True)
    readers: dict[tuple[str, ...], list[str]] = {}
    for name, keys in names.items():
        reading = tuple(name for name, m in others.items() if not {*keys} <= _unread(array, m))
        readers.setdefault(reading, []).append(name)
    for reading, of in readers.items():
        does = f"the {' and the '.join(reading)} model does" if reading else "no model does"
        if all(key.endswith("energy.transfer") for key in of):
            does = "nothing is exchanged here"
        elif execution.model == "deployed" and (tiers := _tiers(of, array)):
            does = f"what counts here is {tiers}"
        elif execution.model == "deployed" and _of_units(of, array):
            does = "what counts here is units.clock and units.matrix"
        elif execution.model == "deployed" and {*map(_plain, of)} == {"chip.peak"}:
            key = f"chip.peak_by_format.{precision_of(array)}"
            does = f"products are in another format: change {key}"
        elif execution.model == "deployed" and all(map(_of_a_format, of)):
            does = f"products are in {precision_of(array)} (precision)"
        yield f"The {execution.model} model does not read {', '.join(of)}{what}; {does}."


def precision_of(array: Array) -> str:
    """The number format of products."""
    word = next((s.value for s in array.settings if s.key.endswith("arithmetic.compute")), "")
    wide = array.group.arithmetic.activation_bytes == 4
    return str(word) or ("fp32" if wide else "bf16")


def _of_a_format(name: str) -> bool:
    return _plain(name).startswith(("chip.peak_by_format.", "roofline.wide_efficiency"))


def _of_units(names: Sequence[str], array: Array) -> bool:
    """Whether these are peaks, and devices have units, whose clock and sizes say their peak."""
    peaks = all(_plain(name).startswith("chip.peak") for name in names)
    return peaks and any(device.units for device, _ in array.group.kinds)


def _tiers(names: Sequence[str], array: Array) -> str:
    """The keys of tiers that count in place of those of ports and links; "" for others."""
    of_wires = all(_plain(name).startswith(("network.", "links.")) for name in names)
    lone = _lone_tiers(array)
    levels = [i for i in range(len(array.topology.levels) if of_wires else 0) if i not in lone]
    keys = dict.fromkeys(name.rpartition(".")[2].replace("per_chip", "bandwidth") for name in names)
    return " and ".join(f"topology.levels.{i}.{key}" for key in keys for i in levels)


def by_table(keys: Sequence[str]) -> dict[str, list[str]]:
    """Names of keys; one given for every board stands for each board's."""
    return {
        key: [key]
        for key in keys
        if not (key.startswith("devices.") and key.split(".", 2)[2] in keys)
    }


def _tables(keys: Sequence[str], array: Array) -> dict[str, list[str]]:
    """Whole tables of which nothing is read by their names, as "hbm" or "roofline"."""
    names: dict[str, list[str]] = {}
    for key in keys:
        names.setdefault(_plain(key), []).append(key)
    of_tables: dict[str, set[str]] = {}
    for setting in array.settings:
        plain = _plain(setting.key)
        of_tables.setdefault(plain.partition(".")[0], set()).add(plain)
    found: dict[str, list[str]] = {}
    for name, of in names.items():
        table = name.partition(".")[0]
        whole = of_tables[table] <= names.keys()
        found.setdefault(table if whole else name, []).extend(of)
    return dict(sorted(found.items()))


def _plain(key: str) -> str:
    """A key without the entry of the array that it is in."""
    return key.split(".", 2)[2] if key.startswith("devices.") else key


def _unread(array: Array, execution: Execution) -> frozenset[str]:
    """Keys of the array's settings that the model does not read; none where it cannot run."""
    # what the probe cannot do by itself, and reads nothing else
    plain = replace(execution, strict_memory=False, recompute=NONE)
    seen = _seen(_fewer(array), plain)
    return frozenset(() if seen is None else {*unread(array, seen), *_of_lone_tiers(array)})


def _of_lone_tiers(array: Array) -> Iterator[str]:
    """Keys of tiers that join one unit alone."""
    for i in _lone_tiers(array):
        yield from (s.key for s in array.settings if s.key.startswith(f"topology.levels.{i}."))


def _lone_tiers(array: Array) -> list[int]:
    """Tiers of one member: the network of a single node."""
    levels = range(len(array.topology.levels))
    sizes = (*array.node_sizes[: len(levels)], array.group.size)
    return [i for i in levels if sizes[i] == sizes[i + 1]]


@lru_cache(maxsize=16)
def _seen(array: Array, execution: Execution) -> frozenset[str] | None:
    """What the model reads of an array; None where it cannot run."""
    seen: set[str] = set()
    network = load_network(PROBE)
    small = watched(array, seen)
    try:
        plan = load_planner("data_parallel")(network, execution.planned(small), BATCH)
        simulate(network, plan, small, execution)
    except (SpecError, PlanError, SimulationError):
        return None
    return frozenset(seen)


def _fewer(array: Array) -> Array:
    """The array with no more boards of a kind than show what is read, whatever it is called.

    So the large arrays of a sweep of sizes are one. Tiers say how many they join: with these it
    stays as it is.
    """
    array = replace(array, name="", description="", settings=(), changes=())
    kinds = tuple((device, min(count, MOST_BOARDS)) for device, count in array.group.kinds)
    if kinds == array.group.kinds or array.topology.levels:
        return array
    topology = replace(array.topology, shape=())
    return replace(array, group=replace(array.group, kinds=kinds), topology=topology)
