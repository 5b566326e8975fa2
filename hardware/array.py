"""Accelerator arrays in SI units: devices, groups of them, and how a group is halved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from hardware.topology import PUBLISHED, Topology


class SpecError(ValueError):
    """A hardware spec is malformed; the message lists every fault."""


@dataclass(frozen=True, slots=True)
class ChipLinks:
    """A chip's links to neighbouring chips: how many, and what each is worth in each direction."""

    per_chip: int
    bytes_per_s: float
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Roofline:
    """How near a core comes to its peaks; the defaults are assumptions (docs/roofline.md).

    An operator takes max(FLOPs / (``matrix_efficiency`` x peak), bytes /
    (``memory_efficiency`` x HBM bandwidth)) + ``overhead_s``. ``tile`` rounds
    activations in HBM up to tiles of 8 x 128; ``pad_matrix_unit`` rounds the
    sides of weight matrices up to the matrix unit's (0: off).
    """

    matrix_efficiency: float = 1.0
    memory_efficiency: float = 0.75
    overhead_s: float = 2e-6
    tile: bool = False
    pad_matrix_unit: int = 0


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How many bytes each kind of number has, and how FLOPs are counted.

    The published model moves elements. The deployed one tells apart
    activations (and their gradients), weights as operators read them, weights'
    gradients, and what the optimizer keeps of each weight: a master copy, which
    is the weight itself where both have as many bytes, and its moments. With
    ``fused`` a dot product of n terms is n multiply-adds of two FLOPs each;
    without, it costs 2n - 1 (AccPar).
    """

    element_bytes: float
    fused: bool
    activation_bytes: float
    weight_bytes: float
    gradient_bytes: float
    master_bytes: float
    moment_bytes: tuple[float, ...]

    @classmethod
    def of(
        cls,
        element_bytes: float = 2.0,
        *,
        fused: bool = False,
        activation_bytes: float | None = None,
        weight_bytes: float | None = None,
        gradient_bytes: float | None = None,
        master_bytes: float | None = None,
        moment_bytes: Sequence[float] | None = None,
    ) -> Arithmetic:
        """What is not said follows the element.

        Activations and weights are elements; a weight's gradient, its master
        copy and one moment (momentum) are float32, or as wide as a wider weight.
        """
        weight = element_bytes if weight_bytes is None else weight_bytes
        wide = max(4.0, weight)
        return cls(
            element_bytes,
            fused,
            element_bytes if activation_bytes is None else activation_bytes,
            weight,
            wide if gradient_bytes is None else gradient_bytes,
            wide if master_bytes is None else master_bytes,
            (wide,) if moment_bytes is None else tuple(moment_bytes),
        )


BFLOAT16 = Arithmetic.of()
"""The AccPar paper's: bfloat16, 2n - 1 FLOPs; gradients and the optimizer's copies float32."""


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of a multiply-add, of a byte read or written in HBM, and of a byte received."""

    mac_j: float
    hbm_j_per_byte: float
    transfer_j_per_byte: float


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator of an array: a board with chips, cores, HBM and a network port.

    Peak and HBM values are those of one chip, of which a core has an equal
    share; the peak is that of the format in which it computes.
    ``network_bytes_per_s`` is the board's port, in each direction, and
    ``network_latency_s`` a message's on it (a hop's, where boards are joined
    to their neighbours).
    """

    name: str
    chips: int
    cores_per_chip: int
    chip_peak_flops_per_s: float
    hbm_capacity_bytes: float
    hbm_bytes_per_s: float
    network_bytes_per_s: float
    description: str = field(default="", compare=False)
    network_latency_s: float = 0.0
    links: ChipLinks | None = None
    roofline: Roofline = Roofline()
    arithmetic: Arithmetic = BFLOAT16
    energy: Energy | None = None

    @property
    def cores(self) -> int:
        """Cores of the board."""
        return self.chips * self.cores_per_chip

    @property
    def peak_flops_per_s(self) -> float:
        """Peak of the board."""
        return self.chips * self.chip_peak_flops_per_s


Unit = Literal["board", "chip", "core"]
Model = Literal["published", "deployed"]
"""An execution model, by name (``simulator.Execution``)."""


@dataclass(frozen=True, slots=True)
class Group:
    """Accelerators that a split treats as one side: (device, count) by kind.

    Counts are those of ``unit``. Halving ends at single ``leaf``: at boards,
    as in the papers, or at cores. What the halves can send to each other is
    for ``hardware.bisection`` to say.
    """

    kinds: tuple[tuple[Device, int], ...]
    unit: Unit = "board"
    leaf: Unit = "board"

    @property
    def size(self) -> int:
        """Number of what the bisection ends in."""
        return sum(count * _each(device, self.unit, self.leaf) for device, count in self.kinds)

    @property
    def units(self) -> int:
        """Number of boards, or of whatever ``unit`` is."""
        return sum(count for _, count in self.kinds)

    @property
    def cores(self) -> int:
        """Number of cores."""
        return sum(count * cores_in(device, self.unit) for device, count in self.kinds)

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
        second = count // 2
        first = Group(((device, count - second),), unit, self.leaf)
        return first, Group(((device, second),), unit, self.leaf)


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
    Raises SpecError when its devices compute in different number formats.
    """

    name: str
    description: str
    group: Group
    settings: tuple[Setting, ...] = ()
    topology: Topology = PUBLISHED
    execution: Model | None = None
    changes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len({device.arithmetic for device, _ in self.group.kinds}) > 1:
            raise SpecError(
                f"array {self.name!r}: devices.*.arithmetic: one array has one number format and "
                "one way to count FLOPs; set it for every entry"
            )

    @property
    def base(self) -> str:
        """The name of what it was before its changes."""
        return self.name.removesuffix("".join(f", {change}" for change in self.changes))

    @property
    def model(self) -> Model:
        """The execution model that it is for: with wires the deployed one, else the papers'.

        One medium that all share (a bus) is HyPar's, and no wires.
        """
        papers = self.topology == PUBLISHED or self.topology.shared
        return self.execution or ("published" if papers else "deployed")
