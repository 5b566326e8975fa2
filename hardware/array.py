"""Accelerator arrays in SI units: devices, groups of them, and how a group is halved."""

from __future__ import annotations

from dataclasses import dataclass, field


class SpecError(ValueError):
    """A hardware spec is malformed; the message lists every fault."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The number format, and how FLOPs are counted.

    With ``fused`` a dot product of n terms is n multiply-adds of two FLOPs
    each; without, it costs 2n - 1 (AccPar).
    """

    element_bytes: float = 2.0
    fused: bool = False


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of a multiply-add, of a byte read or written in HBM, and of a byte received."""

    mac_j: float
    hbm_j_per_byte: float
    transfer_j_per_byte: float


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator of an array: a board with chips, cores, HBM and a network port.

    Peak and HBM values are those of one chip; ``network_bytes_per_s`` is the
    board's port, in each direction.
    """

    name: str
    chips: int
    cores_per_chip: int
    chip_peak_flops_per_s: float
    hbm_capacity_bytes: float
    hbm_bytes_per_s: float
    network_bytes_per_s: float
    description: str = field(default="", compare=False)
    arithmetic: Arithmetic = Arithmetic()
    energy: Energy | None = None

    @property
    def cores(self) -> int:
        """Cores of the board."""
        return self.chips * self.cores_per_chip

    @property
    def peak_flops_per_s(self) -> float:
        """Peak of the board."""
        return self.chips * self.chip_peak_flops_per_s


@dataclass(frozen=True, slots=True)
class Group:
    """Accelerators that a split treats as one side: (device, count) by kind."""

    kinds: tuple[tuple[Device, int], ...]

    @property
    def size(self) -> int:
        """Number of accelerators."""
        return sum(count for _, count in self.kinds)

    @property
    def cores(self) -> int:
        """Number of cores."""
        return sum(count * device.cores for device, count in self.kinds)

    @property
    def peak_flops_per_s(self) -> float:
        """Sum of the accelerators' peaks."""
        return sum(count * device.peak_flops_per_s for device, count in self.kinds)

    @property
    def link_bytes_per_s(self) -> float:
        """Bandwidth of one accelerator's link, the slowest kind's where they differ."""
        return min(device.network_bytes_per_s for device, _ in self.kinds)

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic of its devices, which is one in any array."""
        return self.kinds[0][0].arithmetic

    def halves(self) -> tuple[Group, Group]:
        """Bisect: kinds apart first, then counts; an odd accelerator goes to the first half."""
        if len(self.kinds) > 1:
            middle = (len(self.kinds) + 1) // 2
            return Group(self.kinds[:middle]), Group(self.kinds[middle:])
        device, count = self.kinds[0]
        if count < 2:
            raise ValueError("a single accelerator cannot be halved")
        second = count // 2
        return Group(((device, count - second),)), Group(((device, second),))


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a resolved spec, as written, and where it is from."""

    key: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Topology:
    """What joins an array's boards.

    ``tree``: every split of the bisection has links of its own, of one board's
    bandwidth. ``bus``: one medium of that bandwidth carries everything.
    """

    kind: str = "tree"


@dataclass(frozen=True, slots=True)
class Array:
    """A named array: what there is of each device, and the spec it was read from.

    Raises SpecError when its devices compute in different number formats.
    """

    name: str
    description: str
    group: Group
    settings: tuple[Setting, ...] = ()
    topology: Topology = Topology()

    def __post_init__(self) -> None:
        if len({device.arithmetic for device, _ in self.group.kinds}) > 1:
            raise SpecError(
                f"array {self.name!r}: devices.*.arithmetic: one array has one number format and "
                "one way to count FLOPs; set it for every entry"
            )
