"""What each layer takes on a single accelerator: what pipelines are cut by."""

from __future__ import annotations

from typing import NamedTuple

from hardware import Array
from planners import Plan
from planners.order import Phase
from simulator.engine.picoseconds import PICOSECONDS
from simulator.lowering.execution import Execution
from simulator.lowering.models import rules_of
from workloads import Network, partition_graph


class LayerTime(NamedTuple):
    """A node of the partition graph: seconds of its passes, bytes of its output and gradients."""

    name: str
    forward_s: float
    backward_s: float
    output_bytes: float
    gradient_bytes: float

    @property
    def seconds(self) -> float:
        """Of both passes."""
        return self.forward_s + self.backward_s


def layer_times(
    network: Network, array: Array, batch: int, execution: Execution, number: int = 0
) -> list[LayerTime]:
    """Each node's, on accelerator (board, or core) ``number`` of an array as it is planned for."""
    one = execution.planned(array).part(number, 1)
    plan = Plan("single", network.name, batch, "time", nodes_of(network), None)
    rules = rules_of(network, plan, one, execution, folded=True)
    (device, _), *_ = one.group.kinds
    shards, arithmetic = rules.root.shards, one.group.arithmetic
    deployed = execution.model == "deployed"
    each = arithmetic.activation_bytes if deployed else arithmetic.element_bytes
    phases = (*rules.phases, Phase.RECOMPUTE) if deployed else rules.phases
    found = []
    for v, node in enumerate(rules.graph):
        seconds = dict.fromkeys(Phase, 0.0)
        for phase in phases:
            if deployed or not node.join:
                lasts_ps = rules.product_ps(v, phase, shards[v], device)
                seconds[phase] = lasts_ps / PICOSECONDS
        found.append(
            LayerTime(
                node.name,
                seconds[Phase.FORWARD],
                seconds[Phase.BACKWARD] + seconds[Phase.GRADIENT] + seconds[Phase.RECOMPUTE],
                batch * node.out_channels * node.pooled_area * each,
                rules.gradient_bytes(v, shards[v]),
            )
        )
    return found


def nodes_of(network: Network) -> tuple[str, ...]:
    """The names of its nodes."""
    return tuple(node.name for node in partition_graph(network))
