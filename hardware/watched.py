"""Which values of a spec somebody reads: an array that notes what is asked of it.

Nothing here says what an execution model ignores. A step is prepared and run on
a watched array, and what was never asked for was not read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import count
from typing import Any, TypeVar, cast

from hardware.array import Array, Group
from hardware.reader import Table
from hardware.schema import (
    ArithmeticTable,
    EnergyTable,
    RooflineTable,
    TopologyTable,
    written_format,
)

T = TypeVar("T")


_TABLES: dict[str, type[Table]] = {
    "roofline": RooflineTable,
    "arithmetic": ArithmeticTable,
    "energy": EnergyTable,
    "topology": TopologyTable,
}
"""Tables whose fields are called as those of the class that they describe."""
_WEIGHTS = ("arithmetic.weights", "arithmetic.element")
KEYS: dict[str, tuple[str, ...]] = {
    "chips": ("chips",),
    "cores_per_chip": ("chip.cores",),
    "hbm_capacity_bytes": ("hbm.capacity",),
    "hbm_bytes_per_s": ("hbm.bandwidth",),
    "network_bytes_per_s": ("network.bandwidth",),
    "network_latency_s": ("network.latency",),
    "links.per_chip": ("links.per_chip",),
    "links.bytes_per_s": ("links.bandwidth",),
    "links.latency_s": ("links.latency",),
    "units.clock_hz": ("units.clock",),
    "units.buffer_bytes": ("units.buffer",),
    **{
        f"{name}.{field}": (f"{name}.{info.alias or field}",)
        for name, table in _TABLES.items()
        for field, info in table.model_fields.items()
        if field not in ("compute", "attention")
    },
    "roofline.slowest": ("roofline.variation",),
    "chip_vector_flops_per_s": ("chip.peak_by_format.fp32",),
    "chip_exponentials_per_s": ("chip.exponentials",),
    "chip_attention_flops_per_s": ("arithmetic.attention",),
    "product_bytes": ("arithmetic.compute",),
    "arithmetic.activation_bytes": ("arithmetic.activations", "arithmetic.element"),
    "arithmetic.weight_bytes": _WEIGHTS,
    "arithmetic.gradient_bytes": ("arithmetic.gradients", *_WEIGHTS),
    "arithmetic.master_bytes": ("arithmetic.master", *_WEIGHTS),
    "arithmetic.moment_bytes": ("arithmetic.moments", *_WEIGHTS),
}
"""A field to the keys that may give its value: the first that a spec has does (no peaks)."""
OF_TRAINING = ("precision", "optimizer", "stack")
"""Keys of an array that say nothing but other keys' values, whose sources begin with them."""
_ASKED_WHOLE = {"shared", "routes"}
"""Properties that ask for less than the fields they look at: a bus, or any other kind."""
_NUMBERS = count()
OF_RUNS = ("price", "power.busy", "power.idle")
"""Keys that no step reads, but what is said of its cost does (``studies.runs.cost``)."""
_OF_THE_ARRAY = ("nodes", "device", "count", "extends", "execution")
"""What decides which array there is: every model is run on that one."""


def watched(array: Array, seen: set[str]) -> Array:
    """The same array, which adds to ``seen`` every field of its parts that it is asked.

    Watched parts equal only others that note in the same place: no answer that was
    kept of the plain array is taken for theirs.
    """
    kinds_of, number = dict[type, type](), next(_NUMBERS)

    def copy(part: T, prefix: str) -> T:
        cls = kinds_of.setdefault(type(part), _watcher(type(part), prefix, seen, number))
        made: Any = object.__new__(cls)
        for field in fields(cast("Any", part)):
            value = getattr(part, field.name)
            inner = copy(value, f"{field.name}.") if is_dataclass(value) else value
            object.__setattr__(made, field.name, inner)
        return cast("T", made)

    kinds = tuple((copy(device, ""), count) for device, count in array.group.kinds)
    stack = array.stack and copy(array.stack, "stack.")
    return replace(
        array, group=Group(kinds), topology=copy(array.topology, "topology."), stack=stack
    )


def _watcher(base: type, prefix: str, seen: set[str], number: int) -> type:
    """A subclass of a frozen dataclass that notes which fields are read; ``number`` is its own."""
    names = {field.name for field in fields(base)}
    compared = [field.name for field in fields(base) if field.compare]

    def values(self: object) -> tuple[Any, ...]:
        return tuple(object.__getattribute__(self, name) for name in compared)

    def read(self: object, name: str) -> Any:
        if name in _ASKED_WHOLE:
            seen.add(prefix + name)
            plain = base(**{n: object.__getattribute__(self, n) for n in names})
            return getattr(plain, name)
        if name in names:
            seen.add(prefix + name)
        return object.__getattribute__(self, name)

    def equal(self: object, other: object) -> bool:
        return type(self) is type(other) and values(self) == values(other)

    def shown(self: object) -> str:
        return f"{base.__name__}, watched ({number}){values(self)}"

    body = {
        "__slots__": (),
        "__getattribute__": read,
        "__eq__": equal,
        "__hash__": lambda self: hash((number, values(self))),
        "__repr__": shown,
    }
    return type(base.__name__, (base,), body)


def unread(array: Array, seen: Iterable[str]) -> list[str]:
    """Keys of an array's spec that give no field that was seen, as its settings name them.

    A key of a device has its entry before it, "devices.0.hbm.bandwidth".
    """
    values = {setting.key: setting.value for setting in array.settings}
    noted = set(seen)
    if "topology.shared" in noted and array.topology.shared:
        noted.add("topology.kind")
    entries: dict[str, dict[str, str]] = defaultdict(dict)
    for key, value in values.items():
        if key.startswith("devices."):
            _, index, rest = key.split(".", 2)
            entries[index][rest] = value
    of_entry = {index: _given(found, noted) for index, found in entries.items()}
    of_array = _given(values, noted)
    read = {key for key in values if _is_read(key, of_entry, of_array)}
    if any(name.startswith("stack.") for name in noted):
        read.add("stack")
    for key in OF_TRAINING:
        if any(s.source.startswith(f"{key} ") for s in array.settings if s.key in read):
            read.add(key)
    return [key for key in values if key not in read]


def _is_read(key: str, of_entry: Mapping[str, set[str]], of_array: set[str]) -> bool:
    if key.startswith("devices."):
        _, index, rest = key.split(".", 2)
        return rest in of_entry[index] or rest in (*_OF_THE_ARRAY, *OF_RUNS)
    if key.startswith("network."):  # every board's, and so among the settings of each
        return any(key in given for given in of_entry.values())
    return key in of_array or key in (*_OF_THE_ARRAY, *OF_RUNS)


def _given(values: Mapping[str, str], noted: set[str]) -> set[str]:
    """The keys that gave the values of noted fields."""
    given = {
        next((key for key in KEYS[field] if key in values), "") for field in noted if field in KEYS
    }
    if "chip_peak_flops_per_s" in noted:
        given |= _peak(values)
    if "chip_attention_flops_per_s" in noted and "arithmetic.attention" in values:
        given.add(f"chip.peak_by_format.{values['arithmetic.attention']}")
    for table, prefix in (("network", "network_"), ("links", "links.")):
        given |= _link(values, noted, table, prefix)
    for kind in ("matrix", "vector"):
        if f"units.{kind}" in noted:
            given.update(key for key in values if key.startswith(f"units.{kind}."))
    if "topology.levels" in noted:
        given.update(key for key in values if key.startswith("topology.levels."))
    return given


def _link(values: Mapping[str, str], noted: set[str], table: str, prefix: str) -> set[str]:
    """More keys that have a part in a link's bandwidth and latency (``hardware.load``)."""
    half = f"{table}.half_size" in values
    given = set[str]()
    if f"{prefix}bytes_per_s" in noted:
        given.add(f"{table}.efficiency")
    if f"{prefix}latency_s" in noted and half:
        given |= {f"{table}.{key}" for key in ("half_size", "efficiency", "bandwidth")}
    return given


def _peak(values: Mapping[str, str]) -> set[str]:
    """The keys that say at which peak products are computed."""
    if "units.clock" in values:
        return {key for key in values if key.startswith(("units.clock", "units.matrix."))}
    peak = f"chip.peak_by_format.{written_format(values)}"
    if peak not in values:
        return {"chip.peak"}
    return {peak, "arithmetic.compute" if "arithmetic.compute" in values else "arithmetic.element"}
