"""PipeDream's plans of graphs that branch, on links of any speed, and of shared weights."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from hardware import Array, load_array
from planners import Staging
from planners.plan import Pipeline
from simulator import PUBLISHED, simulate
from simulator.lowering.layer_times import layer_times
from simulator.search.stages import pipedream
from workloads import Network, load_network, partition_graph

LENET = load_network("lenet")
GNMT = load_network("gnmt:seq=6")


def alike(count: int, rate: str) -> Array:
    changes = [f"devices.0.count={count}", f"network.bandwidth={rate}"]
    return load_array("accpar-homogeneous", changes)


class Formula:
    """Narayanan et al., section 3.1, written down again: stages of layers in their order."""

    def __init__(self, network: Network, array: Array, size: int) -> None:
        self.graph = partition_graph(network)
        self.times = layer_times(network, array, size, PUBLISHED)
        ((device, _),) = array.group.kinds
        self.rate = device.network_bytes_per_s
        self.weighted = {layer.name for layer in network.layers if layer.weighted}

    def seconds(self, firsts: tuple[int, ...], replicas: tuple[int, ...]) -> float:
        ends = (*firsts[1:], len(self.graph))
        slowest = []
        for first, end, many in zip(firsts, ends, replicas, strict=True):
            mine = self.times[first:end]
            work = sum(t.forward_s + t.backward_s for t in mine)
            weights = sum(t.gradient_bytes for t in mine)
            slowest.append(max(work, 2 * (many - 1) / many * weights / self.rate) / many)
        slowest += [2 * self.crossing(first) / self.rate for first in firsts[1:]]
        return max(slowest)

    def crossing(self, first: int) -> float:
        """Bytes of what is made before a layer, and read there or later; once each."""
        read = {u for node in self.graph[first:] for u in node.producers if u < first}
        return sum(self.times[u].output_bytes for u in read)

    def all(self, devices: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        begins = [v for v, node in enumerate(self.graph) if node.name in self.weighted][1:]
        for cuts in range(min(len(begins), devices - 1) + 1):
            for firsts in combinations(begins, cuts):
                for bars in combinations(range(1, devices), cuts):
                    ends = (0, *bars, devices)
                    replicas = tuple(b - a for a, b in pairwise(ends))
                    yield (0, *firsts), replicas


def planned(network: Network, array: Array, batch: int, asked: Staging | None = None) -> Pipeline:
    execution = replace(PUBLISHED, staging=asked or Staging(micro_batches=array.group.size))
    found = pipedream(network, array, batch, execution=execution).pipeline
    assert found is not None
    return found


@pytest.mark.parametrize("rate", ["100 Mbit/s", "1 Gbit/s", "8 Gbit/s", "1000 Gbit/s", "1 Pbit/s"])
@pytest.mark.parametrize("network", ["alexnet", "resnet18"])
def test_no_pipeline_is_better_by_the_formula(network: str, rate: str) -> None:
    found, array = load_network(network), alike(4, rate)
    formula = Formula(found, array, 16)
    pipeline = planned(found, array, 64)
    assert sum(pipeline.replicas) == 4
    least = min(formula.seconds(*one) for one in formula.all(4))
    assert formula.seconds(pipeline.firsts, pipeline.replicas) == pytest.approx(least, rel=1e-9)


def test_links_decide_how_many_stages_there_are() -> None:
    assert len(planned(LENET, alike(4, "1 Pbit/s"), 64).stages) == 1
    assert len(planned(load_network("alexnet"), alike(4, "8 Gbit/s"), 64).stages) > 1


def test_layers_that_share_weights_stay_together_unless_somebody_sums() -> None:
    array = alike(8, "8 Gbit/s")
    names = [node.name for node in partition_graph(GNMT)]
    together = planned(GNMT, array, 256)
    stages = together.layers(names)
    assert {"embedding", "decoder.embedding"} <= {*stages[0]}
    assert len(stages) > 1
    execution = replace(PUBLISHED, staging=Staging(micro_batches=8))
    plan = pipedream(GNMT, array, 256, execution=execution)
    assert simulate(GNMT, plan, array, execution).iteration_s > 0
    apart = planned(GNMT, array, 256, Staging(1, 8, "1f1b", tied="copies")).layers(names)
    assert "decoder.embedding" not in apart[0]
