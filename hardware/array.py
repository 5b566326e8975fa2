"""Accelerator arrays in SI units: devices, groups of them, and how a group is halved."""

from __future__ import annotations

from dataclasses import dataclass, field

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
class Device:
    """One accelerator of an array: a board with chips, cores, HBM and a network port.

    Peak and HBM values are those of one chip; ``network_bytes_per_s`` is the
    board's port, in each direction, and ``network_latency_s`` a message's on
    it (a hop's, where boards are joined to their neighbours).
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
    """A named array: what there is of each device, how it is joined, and where that was read."""

    name: str
    description: str
    group: Group
    settings: tuple[Setting, ...] = ()
    topology: Topology = PUBLISHED
