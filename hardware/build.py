"""What checked tables describe: devices and topologies, in SI units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hardware.array import Group
from hardware.device import Arithmetic, ChipLinks, Device, Energy, Roofline
from hardware.formats import NARROW
from hardware.quantity import parse_quantity
from hardware.schema import (
    ArithmeticTable,
    DeviceTable,
    EnergyTable,
    LevelTable,
    LinksTable,
    NetworkTable,
    TopologyTable,
    peaks_of,
)
from hardware.topology import TIERS, Tier, Topology
from hardware.units.table import units_of

FORMAT_OF_WIDTH = {8.0: "fp64", 4.0: "fp32", 2.0: "bf16", 1.0: "fp8"}
"""What products compute in where ``arithmetic.compute`` does not say, by the element's bytes."""


def device_of(label: str, table: DeviceTable) -> Device:
    """The device of a checked table, by the name of its spec."""
    links = table.links
    network_bytes_per_s, network_latency_s = _reached(table.network)
    units = units_of(table.units) if table.units else None
    return Device(
        name=label,
        chips=table.chips,
        cores_per_chip=table.chip.cores,
        chip_peak_flops_per_s=table.chip.cores * units.flops_per_s if units else _peak(table),
        hbm_capacity_bytes=table.hbm.capacity,
        hbm_bytes_per_s=table.hbm.bandwidth,
        network_bytes_per_s=network_bytes_per_s,
        description=table.description,
        network_latency_s=network_latency_s,
        links=ChipLinks(links.per_chip, *_reached(links)) if links else None,
        roofline=Roofline(
            matrix_efficiency=table.roofline.matrix_efficiency,
            memory_efficiency=table.roofline.memory_efficiency,
            overhead_s=table.roofline.overhead,
            tile=table.roofline.tile,
            pad_matrix_unit=table.roofline.pad_matrix_unit,
            attention_efficiency=table.roofline.attention_efficiency,
            host_s=table.roofline.host,
            concurrent=table.roofline.concurrent,
            winograd=table.roofline.winograd,
            variation=table.roofline.variation,
            align_bytes=table.roofline.align,
        ),
        arithmetic=_arithmetic(table.arithmetic),
        energy=_energy(table.energy),
        units=units,
        chip_attention_flops_per_s=peaks_of(table).get(table.arithmetic.attention or ""),
        chip_vector_flops_per_s=peaks_of(table).get("fp32"),
        product_bytes=NARROW.get(table.arithmetic.compute or ""),
    )


def _peak(table: DeviceTable) -> float:
    """One chip's peak in the format that products compute in.

    That is the one that is named, or the usual one of the element's width;
    ``chip.peak`` is the peak in every format that has none of its own.
    """
    format_ = table.arithmetic.compute or FORMAT_OF_WIDTH.get(table.arithmetic.element, "")
    return peaks_of(table).get(format_) or table.chip.peak or 0.0


def written_format(values: Mapping[str, str]) -> str:
    """The format in which products of a device with such values compute; "" without a name."""
    width = values.get("arithmetic.element")
    usual = FORMAT_OF_WIDTH.get(2.0 if width is None else parse_quantity(width, "B"), "")
    return values.get("arithmetic.compute", usual)


def _arithmetic(table: ArithmeticTable) -> Arithmetic:
    return Arithmetic.of(
        table.element,
        fused=table.fused,
        activation_bytes=table.activations,
        weight_bytes=table.weights,
        gradient_bytes=table.gradients,
        master_bytes=table.master,
        moment_bytes=table.moments,
        gradient_buffer=table.gradient_buffer,
        dummy_gradients=table.dummy_gradients,
    )


def _energy(table: EnergyTable | None) -> Energy | None:
    return None if table is None else Energy(table.mac, table.hbm or 0.0, table.transfer)


def topology_of(table: TopologyTable, group: Group, nodes: int, share: float = 1.0) -> Topology:
    """How the group is joined, of so many nodes alike; tiers give a ``share`` of what is written.

    The innermost of several tiers joins a node's, where it does not say how many.
    """
    levels = [_tier(table.levels[i], share) for i in sorted(table.levels, key=in_order)]
    if len(levels) > 1 and len(group.kinds) == 1 and not levels[0].members:
        device, boards = group.kinds[0]
        chips = device.chips if table.joins == "chips" else 1
        levels[0] = replace(levels[0], members=boards * chips // nodes)
    return Topology(
        kind=TIERS if table.levels else table.kind,
        joins=table.joins,
        shape=tuple(table.shape),
        factor=table.factor,
        two_way=table.two_way,
        bytes_per_s=table.bandwidth,
        latency_s=table.latency,
        levels=tuple(levels),
    )


def in_order(index: str) -> tuple[int, str]:
    """A key to sort the entries of a list by, which are written by number."""
    return (int(index), "") if index.isdecimal() else (1 << 30, index)


def _tier(table: LevelTable, share: float) -> Tier:
    bytes_per_s, latency_s = _reached(table, share)
    return Tier(
        table.kind,
        table.members,
        bytes_per_s,
        latency_s,
        table.rails,
        table.oversubscription,
        tuple(table.shape),
        table.dimensions,
        table.reduces,
        cables=tuple(cable for some in table.cables for cable in some),
    )


def _reached(
    link: LevelTable | NetworkTable | LinksTable, share: float = 1.0
) -> tuple[float, float]:
    """Bandwidth and latency that messages see.

    One of s bytes takes latency + (s + half size) / bandwidth: half of the
    bandwidth is reached at the half size, nearly all by large ones.
    """
    bytes_per_s = link.bandwidth * link.efficiency * share
    return bytes_per_s, link.latency + link.half_size / bytes_per_s
