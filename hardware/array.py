"""Accelerator arrays: groups of devices, how a group is halved, and the software that they run."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from itertools import accumulate
from numbers import Integral
from operator import mul
from typing import Annotated, Any, Literal, cast

from pydantic import ConfigDict, Field, create_model

from hardware.device import Arithmetic, Device
from hardware.reader import (
    SI,
    Bytes,
    Duration,
    Fault,
    Share,
    Table,
    number,
    raise_all,
    table_of,
    validated,
)
from hardware.topology import PUBLISHED, Topology


class SpecError(ValueError):
    """A hardware spec is malformed; the message lists every fault."""


MOST_ACCELERATORS = 1 << 17
Unit = Literal["board", "chip", "core"]
Model = Literal["published", "deployed"]
"""An execution model, by name (``simulator.Execution``)."""
Attention = Literal["fused", "unfused", "eager"]
Dispatcher = Literal["alltoall", "once"]
"""How tokens go to experts: a copy to each, or one to each rank (or domain) that has any."""
Sends = Literal["beside", "waited for", "rendezvous"]
"""How stages of a pipeline send (``Stack``)."""
FP4_BYTES = 0.5
"""Of a number that products in fp4 read (``hardware.schema.NARROW``)."""


@dataclass(frozen=True, slots=True)
class Stack:
    """What a stack does that is no device's.

    Gradients are exchanged in buckets of ``bucket_bytes``, beside the backward pass
    where ``overlap``; of what layers exchange on their way (tensor parallelism)
    ``hidden_tensor`` goes on while cores compute, and of tokens on their way to experts and
    back ``hidden_experts``, of which the ``dispatcher`` says how many copies go. Links give
    ``collectives`` of what they else do. A reduce-scatter or an all-gather over several nodes is
    a ring, whose steps take ``ring_steps_s`` inside a node and between nodes at least (none: as
    links have it), and a bucket has ``bucket_rank_bytes`` at least for each member. Weights are
    updated in ``update_order``: that of the layers, once all gradients are there, or as gradients
    arrive ("arrival"). With ``early_stop`` what is computed again ends with what backward needs.
    With ``tensor_waits`` a layer's gradient of weights waits until the errors of its input are
    summed (tensor parallelism), which goes on beside it elsewhere. ``memory_reserve`` is the share
    of HBM that steps have not. Attention of numbers of four bytes is ``attention_wide``, and where
    products are in fp4 ``hidden_tensor_fp4`` is hidden, and of all-reduces, which tensor
    parallelism has without sequence parallelism, ``hidden_all_reduce``. With ``sum_kernels``
    gradients of biases and norms are sums by kernels of their own, and with ``loss_kernels`` each
    pass over a loss's logits has one; with ``element_kernels`` no compiler does element-wise work
    in passing. Stages that are not interleaved compute "beside" their
    ``sends``, or these are "waited for"; in a "rendezvous" of 1F1B, where nothing overlaps, they
    send and receive one after the other, and both ends of a send wait for it.
    None: what is usual.
    """

    name: str = ""
    description: str = field(default="", compare=False)
    attention: Attention | None = None
    attention_wide: Attention | None = None
    overlap: bool | None = None
    bucket_bytes: Annotated[Bytes | None, Field(alias="bucket")] = None
    hidden_tensor: Annotated[float, number(0, 1)] = 0.0
    collectives: Share = 1.0
    early_stop: bool = False
    update_order: Literal["layers", "arrival"] = "layers"
    hidden_experts: Annotated[float, number(0, 1)] = 0.0
    dispatcher: Dispatcher = "alltoall"
    tensor_waits: bool = False
    bucket_rank_bytes: Annotated[Bytes, Field(alias="bucket_rank")] = 0.0
    ring_steps_s: Annotated[
        tuple[Duration, ...], Field(alias="ring_steps", min_length=2, max_length=2, strict=False)
    ] = ()
    memory_reserve: Annotated[float, number(0, 0.9)] = 0.0
    sum_kernels: bool = False
    hidden_tensor_fp4: Annotated[float, number(0, 1)] | None = None
    hidden_all_reduce: Annotated[float, number(0, 1)] | None = None
    loss_kernels: bool = False
    sends: Sends | None = None
    element_kernels: bool = False


def waiting(kinds: Iterable[tuple[Device, int]]) -> tuple[tuple[Device, int], ...]:
    """The same (device, boards), the chips of each kind waiting for the slowest of them."""
    return tuple(
        (replace(device, roofline=device.roofline.waiting(count * device.chips)), count)
        for device, count in kinds
    )


@dataclass(frozen=True, slots=True)
class Group:
    """Accelerators that a split treats as one side: (device, count) by kind.

    Counts are those of ``unit``. Halving ends at single ``leaf``: at boards,
    as in the papers, or at cores. As long as there are more it parts none of so many leaves
    (``together``, the most first): of 24 with (8,) the halves are 16 and 8, then 8 and 8. With
    1 among them an odd number leaves one over as the second half, and the first can be halved
    evenly: of 40 with (8, 1) the halves are 32 and 8.
    What the halves can send to each other is for ``hardware.bisection`` to say.
    """

    kinds: tuple[tuple[Device, int], ...]
    unit: Unit = "board"
    leaf: Unit = "board"
    together: tuple[int, ...] = ()

    @property
    def leaves(self) -> tuple[int, ...]:
        """Of each kind the number of what the bisection ends in: boards, or cores."""
        return tuple(count * _each(device, self.unit, self.leaf) for device, count in self.kinds)

    @property
    def size(self) -> int:
        """Number of what the bisection ends in."""
        return sum(self.leaves)

    @property
    def units(self) -> int:
        """Number of boards, or of whatever ``unit`` is."""
        return sum(count for _, count in self.kinds)

    @property
    def cores(self) -> int:
        """Number of cores."""
        return sum(count * cores_in(device, self.unit) for device, count in self.kinds)

    @property
    def chips(self) -> list[tuple[Device, int]]:
        """How many chips there are of each kind of device."""
        return [
            (device, count * cores_in(device, self.unit) // device.cores_per_chip)
            for device, count in self.kinds
        ]

    @property
    def peak_flops_per_s(self) -> float:
        """Sum of the accelerators' peaks."""
        return sum(count * _peak(device, self.unit) for device, count in self.kinds)

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic of its devices, which is one in any array."""
        return self.kinds[0][0].arithmetic

    def halves(self) -> tuple[Group, Group]:
        """Bisect: kinds apart first, then counts; an odd accelerator goes to the first half.

        A single board is bisected into its chips and a chip into its cores,
        where they are not the leaf. Raises ValueError for a single leaf.
        """
        if len(self.kinds) > 1:
            middle = (len(self.kinds) + 1) // 2
            return replace(self, kinds=self.kinds[:middle]), replace(
                self, kinds=self.kinds[middle:]
            )
        (device, count), unit = self.kinds[0], self.unit
        while count < 2:
            if unit == self.leaf:
                raise ValueError("a single accelerator cannot be halved")
            count, unit = (
                (device.chips, "chip") if unit == "board" else (device.cores_per_chip, "core")
            )
        each = _each(device, unit, self.leaf)
        size = count * each
        kept = (n for n in self.together if n < size and not n % each and not size % n)
        whole = next(kept, each) // each
        parts = count // whole
        second = (1 if 1 in self.together and parts % 2 else parts // 2) * whole
        first = Group(((device, count - second),), unit, self.leaf, self.together)
        return first, Group(((device, second),), unit, self.leaf, self.together)

    def taken(self, first: int, count: int) -> Group:
        """So many leaves from number ``first`` on, in the largest units of which they are whole.

        Of two boards of four cores, ``taken(2, 4)`` has four single cores, ``taken(4, 4)``
        a board. Raises ValueError where there are not so many.
        """
        if first < 0 or count < 1 or first + count > self.size:
            raise ValueError(f"no {count} accelerators from number {first} on: {self.size} in all")
        found: list[tuple[Device, int, int]] = []
        start = 0
        for device, many in self.kinds:
            here = many * _each(device, self.unit, self.leaf)
            begin, end = max(first - start, 0), min(first + count - start, here)
            if begin < end:
                found.append((device, begin, end))
            start += here
        units: tuple[Unit, ...] = ("board", "chip", "core")
        for unit in units[units.index(self.unit) :]:
            each = [_each(device, unit, self.leaf) for device, _, _ in found]
            if not any(n % m for (_, *ends), m in zip(found, each, strict=True) for n in ends):
                break
        kinds = [(d, (end - begin) // m) for (d, begin, end), m in zip(found, each, strict=True)]
        return Group(tuple(kinds), unit, self.leaf)


def _peak(device: Device, unit: Unit) -> float:
    if unit == "board":
        return device.peak_flops_per_s
    return device.chip_peak_flops_per_s / (1 if unit == "chip" else device.cores_per_chip)


def cores_in(device: Device, unit: Unit) -> int:
    """Cores in one unit of a device."""
    if unit == "core":
        return 1
    return device.cores_per_chip if unit == "chip" else device.cores


def _each(device: Device, unit: Unit, leaf: Unit) -> int:
    """Leaves in one unit of a device."""
    return cores_in(device, unit) // cores_in(device, leaf)


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a resolved spec, as written, and where it is from."""

    key: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Array:
    """A named array: what there is of each device, how it is joined, and where that was read.

    ``execution`` is the model that it is for, where its spec says so. ``changes``
    are the words of its name that say what makes it another array than its ``base``.
    A ``part`` of another array is what its group has from leaf number ``first`` on of
    ``whole``, whose links it uses. ``stack`` is the software that it runs, where that was said.
    Raises SpecError when its devices compute in different number formats, or a value is out of
    the bounds that it has in a spec.
    """

    name: str
    description: str
    group: Group
    settings: tuple[Setting, ...] = ()
    topology: Topology = PUBLISHED
    execution: Model | None = None
    changes: tuple[str, ...] = ()
    first: int = 0
    whole: Array | None = None
    stack: Stack | None = None

    def __post_init__(self) -> None:
        faults = (f"array {self.name!r}: {': '.join(fault)}" for fault in self._faults())
        raise_all(faults, SpecError)
        if len({device.arithmetic for device, _ in self.group.kinds}) > 1:
            raise SpecError(
                f"array {self.name!r}: devices.*.arithmetic: one array has one number format and "
                "one way to count FLOPs; set it for every entry"
            )

    def _faults(self) -> Iterator[Fault]:
        """What is wrong with the values of its parts, as Python code may make them."""
        if not self.group.kinds:
            yield "group.kinds", "is empty; an array has a device at least"
        for i, (device, count) in enumerate(self.group.kinds):
            yield from value_faults(device, f"devices.{i}.")
            most = math.inf if self.whole else MOST_ACCELERATORS  # of a part, cores perhaps
            if not (isinstance(count, Integral) and 1 <= int(count) <= most):
                what = f"must be a whole number from 1 to {MOST_ACCELERATORS:,}"
                yield f"devices.{i}.count", f"{count!r}: {what}"
        yield from value_faults(self.topology, "topology.")
        if self.stack is not None:
            yield from value_faults(self.stack, "stack.")

    def part(self, first: int, count: int) -> Array:
        """So many of its leaves (boards or cores) from number ``first`` on, as an array.

        Raises ValueError where there are not so many.
        """
        whole = self.whole or self
        group = self.group.taken(first, count)
        return replace(self, group=group, first=self.first + first, whole=whole)

    def with_devices(self, change: Callable[[Device], Device]) -> Array:
        """The same array, every device of it changed."""
        kinds = tuple((change(device), count) for device, count in self.group.kinds)
        return replace(self, group=replace(self.group, kinds=kinds))

    def slower(self, times: float) -> Array:
        """The same array, all chips of which take so many times as long to compute.

        Raises SpecError unless that is above 0, and finite.
        """
        if not 0 < times < math.inf:
            raise SpecError(f"slower: {times!r} times: must be above 0, and finite")
        return self.with_devices(
            lambda d: replace(d, roofline=replace(d.roofline, slowest=times * d.roofline.slowest))
        )

    @property
    def attention(self) -> Attention | None:
        """How its software does attention of the numbers that it has; None: as a network has it."""
        if self.stack is None:
            return None
        wide = self.group.arithmetic.activation_bytes == 4
        return (self.stack.attention_wide if wide else None) or self.stack.attention

    def hidden_tensor(self, collective: str) -> float:
        """Which part of what layers exchange its software hides, of products in its format."""
        if self.stack is None:
            return 0.0
        if collective == "all-reduce" and self.stack.hidden_all_reduce is not None:
            return self.stack.hidden_all_reduce
        own, usual = self.stack.hidden_tensor_fp4, self.stack.hidden_tensor
        narrow = any(device.product_bytes == FP4_BYTES for device, _ in self.group.kinds)
        return own if narrow and own is not None else usual

    @property
    def node_sizes(self) -> tuple[int, ...]:
        """Leaves of what its wires join (a board or a chip), of a node, and of what has nodes."""
        joined: Unit = "board" if self.topology.joins == "boards" else "chip"
        device, _ = self.group.kinds[0]
        tiers = (tier.members for tier in self.topology.levels[:-1])
        return (*accumulate((max(_each(device, joined, self.group.leaf), 1), *tiers), mul),)

    @property
    def base(self) -> str:
        """The name of what it was before its changes."""
        return self.name.removesuffix("".join(f", {change}" for change in self.changes))

    @property
    def model(self) -> Model:
        """The execution model that it is for: with wires the deployed one, else the papers'.

        One medium that all share (a bus) is HyPar's, and no wires. A tree that is written down
        is wires, whatever its factor.
        """
        written = any(setting.key.startswith("topology.") for setting in self.settings)
        plain = replace(PUBLISHED, share=self.topology.share)  # no wires of its own
        papers = self.topology.shared or (self.topology == plain and not written)
        return self.execution or ("published" if papers else "deployed")


class Values(Table):
    """A table of what was made in Python: values in SI units, by the full names of fields."""

    model_config = ConfigDict(populate_by_name=True, loc_by_alias=False)


def value_faults(of: Any, path: str = "") -> Iterator[Fault]:
    """What is wrong with the fields of a dataclass made in Python, and of those within it.

    Each has the bounds that its annotation says; what is as usual is right. A ``watched`` one
    does not note that it is read.
    """
    made = next(one for one in type(of).__mro__ if "__dataclass_fields__" in vars(one))
    values = {one.name: (object.__getattribute__(of, one.name), one.default) for one in fields(of)}
    given = {name: value for name, (value, usual) in values.items() if value != usual}
    for where, what in validated(_values_of(made), given, SI)[1]:
        yield path + where, what
    for name, value in given.items():
        if is_dataclass(value):
            yield from value_faults(value, f"{path}{name}.")
        elif isinstance(value, tuple):
            for i, one in enumerate(value):
                yield from value_faults(one, f"{path}{name}.{i}.") if is_dataclass(one) else ()


@cache
def _values_of(of: Hashable) -> type[Values]:
    table = table_of(cast("type", of))
    return create_model(table.__name__, __base__=(Values, table))
