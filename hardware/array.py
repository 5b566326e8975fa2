"""Accelerator arrays in SI units: devices, groups of them, and how a group is halved."""

from __future__ import annotations

from dataclasses import dataclass, field


class SpecError(ValueError):
    """A hardware spec is malformed; the message lists every fault."""


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
class Device:
    """One accelerator of an array: a board with chips, cores, HBM and a network port.

    Peak and HBM values are those of one chip, of which a core has an equal
    share; ``network_bytes_per_s`` is the board's port, in each direction.
    """

    name: str
    chips: int
    cores_per_chip: int
    chip_peak_flops_per_s: float
    hbm_capacity_bytes: float
    hbm_bytes_per_s: float
    network_bytes_per_s: float
    description: str = field(default="", compare=False)
    roofline: Roofline = Roofline()

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
class Array:
    """A named array: what there is of each device, and the spec it was read from."""

    name: str
    description: str
    group: Group
    settings: tuple[Setting, ...] = ()
