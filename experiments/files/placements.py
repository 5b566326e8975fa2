"""A plan by named axes as DTensor placements: where each weight lies on a mesh of devices."""

from __future__ import annotations

from typing import Any

from planners import Axes, Plan
from planners.axes.degrees import order_of
from planners.axes.node_types import types_along
from planners.partition import II, III, IV, PartitionType
from workloads import Layer, Network, Node, partition_graph
from workloads.tensors import sides

REPLICATE = "Replicate()"


def placements(network: Network, plan: Plan, axes: Axes, order: str, zero: int) -> dict[str, Any]:
    """The mesh, and of each weight its shape as torch has it and a placement for each dimension.

    Stages are no dimension of a mesh: each has one of its own. What is no product (norms, biases,
    tables) is whole on each device, or of ZeRO 3 sharded along its first dimension.
    """
    ways = {"dp": axes.dp // axes.ep_of_dp, "ep": axes.ep_of_dp, "cp": axes.cp, "tp": axes.tp}
    outer = reversed(order_of(order)[:-1])
    names = [one for axis in outer for one in (("dp", "ep") if axis == "dp" else (axis,))]
    names = [name for name in names if ways[name] > 1] or ["dp"]
    graph = partition_graph(network)
    whole = {"by_positions": axes.sp, "experts_whole": axes.over_tp}
    types = {name: types_along(name, graph, **(whole if name == "tp" else {})) for name in names}
    layers = {layer.name: layer for layer in network.layers}
    firsts = plan.pipeline.firsts if plan.pipeline else (0,)
    found = {
        node.name: {
            "stage": sum(first <= v for first in firsts) - 1,
            "shape": _shape(node, layers[node.name]),
            "placements": [
                _placed(node, layers[node.name], name, types[name][v], zero) for name in names
            ],
        }
        for v, node in enumerate(graph)
        if layers[node.name].weighted and not layers[node.name].shared
    }
    mesh = {"dim_names": names, "shape": [ways[name] for name in names]}
    return {"mesh": mesh, "stages": axes.pp * axes.vp, "parameters": found}


def _shape(node: Node, layer: Layer) -> list[int]:
    """As torch stores it: rows are outputs; of experts the first dimension is which one.

    Rows of a transposed convolution are its inputs, and the groups of others are among the rows.
    """
    if node.type.gathers:
        return [layer.vocabulary, node.out_channels]
    outs, ins = node.out_channels, node.in_channels
    if layer.kind == "conv":
        both = [ins, outs // node.groups] if layer.transposed else [outs, ins // node.groups]
        return [*both, *sides(layer.kernel)]
    each = [outs // node.groups, ins // node.groups * node.kernel_area]
    return [node.groups, *each] if node.groups > 1 else each


def _placed(node: Node, layer: Layer, axis: str, type_: PartitionType, zero: int) -> str:
    if type_ is IV:
        return "Shard(0)"
    if type_ in (II, III):
        of_rows = III if not (node.type.gathers or layer.transposed) else II
        first = 1 if node.groups > 1 and layer.kind != "conv" else 0
        return f"Shard({first + (type_ is not of_rows)})"
    return "Shard(0)" if zero == 3 and axis in ("dp", "ep", "cp") else REPLICATE
