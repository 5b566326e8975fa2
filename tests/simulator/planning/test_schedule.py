"""The estimate that the search goes by, against the simulator: its order, and its seconds."""

import random
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Array, Group, load_array
from planners import TIME, Plan
from planners.order import Phase
from planners.partition import II, III, I, PartitionType
from simulator import DEPLOYED, Execution, simulate
from simulator.planning.chain import Chain
from simulator.planning.layouts import first_cores, tables_of
from simulator.planning.placements import Piece, Placement, blank
from simulator.planning.schedule import Schedule
from simulator.planning.script import Script
from tests.simulator.planning.cases import (
    BATCHES,
    EXECUTIONS,
    chains,
    like_cores,
    one_channel,
)
from workloads import Network, load_network, partition_graph

CLUSTER = str(Path(__file__).parents[2] / "data" / "clusters" / "gpu-4x8.toml")


class Layouts:
    """Layouts of a network on all cores of an array, as plans and as the schedule sees them."""

    def __init__(self, network: Network, array: Array, batch: int, execution: Execution) -> None:
        self.network, self.array, self.execution = network, array, execution
        ((self.device, _),) = array.group.kinds
        cores = first_cores(array, self.device, array.group.size)
        assert cores is not None
        self.chain = Chain(tables_of(network, batch, cores, execution), filled=True)
        self.schedule = Schedule(self.chain.tables)
        names = [node.name for node in partition_graph(network)]
        self.like = blank(network.name, names, batch, TIME)

    def filled(self, v: int) -> list[int]:
        """States in which every core has something of a node, or all if none is."""
        hollow = self.chain.nodes[v].hollow
        return np.flatnonzero(~hollow).tolist() or list(range(len(hollow)))

    def plan(self, picks: list[int]) -> Plan:
        pairs = zip(self.chain.nodes, picks, strict=True)
        types = tuple(costs.states.at(pick) for costs, pick in pairs)
        piece = Piece(self.device, self.array.group.size, types)
        return Placement((piece,), (1.0,)).plan(self.array, self.like)

    def seconds(self, picks: list[int]) -> float:
        """Simulated, its updates as gradients arrive unless the execution says otherwise."""
        plan = replace(self.plan(picks), update_order="arrival")
        return simulate(self.network, plan, self.array, self.execution).iteration_s

    def drawn(self, number: int) -> list[list[int]]:
        """Half of them random, half the chain's best with some nodes' types changed."""
        draw = random.Random(0)  # noqa: S311
        best = self.chain.best()[0].picks
        found = []
        for i in range(number):
            kept = 1 - draw.random() ** 2 if i % 2 else 0.0
            found.append(
                [
                    best[v] if draw.random() < kept else draw.choice(self.filled(v))
                    for v in range(len(best))
                ]
            )
        return found


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    first, second = (np.argsort(np.argsort(values)) for values in (one, other))
    return float(np.corrcoef(first, second)[0, 1])


@pytest.mark.parametrize(
    ("name", "array", "batch", "least"),
    [
        ("alexnet", "tpu-v3-8", 512, 0.98),
        ("gpt2:layers=1:seq=128", "tpu-v3-8", 32, 0.98),
        ("lenet", CLUSTER, 512, 0.95),
        ("alexnet", CLUSTER, 512, 0.95),
        ("gpt2:layers=1:seq=128", CLUSTER, 32, 0.95),
        pytest.param("vgg16", "tpu-v3-8", 512, 0.98, marks=pytest.mark.slow),
        pytest.param("vgg16", CLUSTER, 512, 0.95, marks=pytest.mark.slow),
        pytest.param("resnet18", CLUSTER, 512, 0.95, marks=pytest.mark.slow),
    ],
)
def test_150_random_plans_come_in_the_simulators_order(
    name: str, array: str, batch: int, least: float
) -> None:
    planned = DEPLOYED.planned(load_array(array))
    layouts = Layouts(load_network(name), planned, batch, DEPLOYED)
    drawn = layouts.drawn(150)
    estimated = np.array([layouts.schedule.seconds(picks) for picks in drawn])
    simulated = np.array([layouts.seconds(picks) for picks in drawn])
    assert spearman(estimated, simulated) >= least
    assert np.median(np.abs(estimated / simulated - 1)) <= 0.05


@pytest.mark.parametrize("name", ["alexnet", "lenet"])
def test_forward_passes_come_in_its_order_too(name: str) -> None:
    execution = replace(DEPLOYED, mode="inference")
    layouts = Layouts(load_network(name), DEPLOYED.planned(load_array(CLUSTER)), 512, execution)
    drawn = layouts.drawn(100)
    estimated = np.array([layouts.schedule.seconds(picks) for picks in drawn])
    simulated = np.array([layouts.seconds(picks) for picks in drawn])
    assert spearman(estimated, simulated) >= 0.95
    assert np.median(np.abs(estimated / simulated - 1)) <= 0.05


@pytest.mark.parametrize("order", ["layers", "arrival"])
def test_updates_come_in_the_order_that_is_asked_for(order: str) -> None:
    """AlexNet by samples on a board, where the two orders are 1.2 % apart."""
    execution = replace(DEPLOYED, update_order=order)
    board = execution.planned(load_array("tpu-v3-8"))
    layouts = Layouts(load_network("alexnet"), board, 64, execution)
    picks = [costs.states.numbers[I, I, I] for costs in layouts.chain.nodes]
    assert layouts.schedule.seconds(picks) == pytest.approx(layouts.seconds(picks), rel=1e-4)


@given(chains(3), like_cores(4), BATCHES, EXECUTIONS)
def test_it_is_never_far_off(
    network: Network, whole: Array, batch: int, execution: Execution
) -> None:
    layouts = Layouts(network, execution.planned(whole), batch, execution)
    (picks,) = layouts.drawn(1)
    assert layouts.schedule.seconds(picks) == pytest.approx(layouts.seconds(picks), rel=0.35)


@given(st.data(), chains(3), like_cores(8), st.sampled_from((1, 3, 8)), EXECUTIONS)
def test_nor_of_layouts_that_leave_cores_without_some_nodes(
    data: st.DataObject, network: Network, whole: Array, batch: int, execution: Execution
) -> None:
    layouts = Layouts(network, execution.planned(whole), batch, execution)
    picks = [data.draw(st.integers(0, len(one.states) - 1)) for one in layouts.chain.nodes]
    assert layouts.schedule.seconds(picks) == pytest.approx(layouts.seconds(picks), rel=0.35)


def test_exchanges_of_cores_that_have_nothing_of_a_node_are_made_core_by_core() -> None:
    """One and two channels on four cores: what is re-laid and summed is most of the step."""
    layouts = Layouts(*one_channel())
    some = (II, III), (III, II), (II, II), (III, III)
    for types in product(some, some, some[2:], [(III, I)]):
        pairs = zip(layouts.chain.nodes, types, strict=True)
        picks = [costs.states.numbers[of_node] for costs, of_node in pairs]
        assert layouts.schedule.seconds(picks) == pytest.approx(layouts.seconds(picks), rel=1e-3)


def test_weights_that_are_used_twice_are_sent_where_they_are_cut_otherwise() -> None:
    """The table of words is the output head, too, and there its rows are columns."""
    network, board = load_network("gpt2:layers=1:seq=128"), load_array("tpu-v3-8")
    layouts = Layouts(network, DEPLOYED.planned(board), 32, DEPLOYED)
    table, *_, head = (costs.states for costs in layouts.chain.nodes)
    picks = [costs.states.numbers[I, I, I] for costs in layouts.chain.nodes]
    some = (I, I, I), (II, II, II), (III, III, III), (I, II, III), (II, III, I), (III, I, I)
    for one, other in product(some, some):
        tied = [table.numbers[one], *picks[1:-1], head.numbers[other]]
        assert layouts.schedule.seconds(tied) == pytest.approx(layouts.seconds(tied), rel=6e-3)


def test_one_core_computes_one_product_after_the_other() -> None:
    """Nothing is exchanged, so the estimate is the sum of the products, to the picosecond."""
    network = load_network("lenet")
    ((board, _),) = load_array("tpu-v3-8").group.kinds
    one = Group(((replace(board, chips=1, cores_per_chip=1), 1),))
    array = DEPLOYED.planned(Array("one", "", one))
    layouts = Layouts(network, array, 64, DEPLOYED)
    picks = [0] * len(layouts.chain.nodes)
    products = sum(float(costs.forward_s[0]) for costs in layouts.chain.nodes)
    found = layouts.schedule.seconds(picks)
    assert found > products
    assert found == pytest.approx(layouts.seconds(picks), abs=1e-12 * len(picks) * len(Phase))


def test_a_bucket_goes_when_it_is_full() -> None:
    """Small buckets: gradients leave while backward goes on, as the simulator has it."""
    network = load_network("vgg11")
    array = DEPLOYED.planned(load_array("tpu-v3-8"))
    for bucket in (0.0, 4e6, 1e12):
        layouts = Layouts(network, array, 512, Execution("deployed", bucket_bytes=bucket))
        picks = [0] * len(layouts.chain.nodes)  # all of type I
        assert layouts.schedule.seconds(picks) == pytest.approx(layouts.seconds(picks), rel=0.01)


@pytest.mark.parametrize(("kind", "without"), [(II, 0), (III, 1)])
def test_sums_go_over_the_levels_of_their_type(kind: PartitionType, without: int) -> None:
    """Of features, and of errors, of which the first layer has none; gradients over the others."""
    layouts = Layouts(
        load_network("vgg11"), DEPLOYED.planned(load_array("tpu-v3-8")), 512, DEPLOYED
    )
    nodes = layouts.chain.nodes
    picks = [costs.states.numbers[I, I, kind] for costs in nodes]
    ways = [line.way for line in Script(layouts.schedule.lookup, picks, 1e12).write()]
    assert ways.count(("all-reduce", 1)) == len(nodes) - without
    assert {way for way in ways if way and way[0] == "all-reduce"} == {
        ("all-reduce", 1),
        ("all-reduce", 6),
    }


def test_layers_summed_over_the_same_cores_share_a_bucket() -> None:
    """II and III part weights at the inner level, and leave sums at the two outer ones."""
    network = load_network("vgg11")
    array = DEPLOYED.planned(load_array("tpu-v3-8"))
    layouts = Layouts(network, array, 512, Execution("deployed", bucket_bytes=1e12))
    columns, rows, samples = ((I, I, kind) for kind in (II, III, I))
    nodes = layouts.chain.nodes
    all_alike = [costs.states.numbers[columns] for costs in nodes]
    in_turn = [costs.states.numbers[(columns, rows)[v % 2]] for v, costs in enumerate(nodes)]
    apart = [costs.states.numbers[(columns, samples)[v % 2]] for v, costs in enumerate(nodes)]

    def buckets(picks: list[int], mask: int) -> int:
        lines = Script(layouts.schedule.lookup, picks, 1e12).write()
        return sum(line.way == ("all-reduce", mask) for line in lines)

    outer, all_three = 6, 7
    assert buckets(all_alike, outer) == buckets(in_turn, outer) == 1
    assert buckets(apart, outer) + buckets(apart, all_three) == len(nodes)
    for picks in (all_alike, in_turn, apart):
        assert layouts.schedule.seconds(picks) == pytest.approx(layouts.seconds(picks), rel=0.02)
