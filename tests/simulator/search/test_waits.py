"""For which exchanges a core surely waits: those between nodes that follow each other."""

from simulator.cost.training_operators import operators
from simulator.search.relaxation import waits_of
from workloads import Builder, Network, partition_graph


def waits(
    network: Network, *, inference: bool = False
) -> tuple[tuple[bool, ...], tuple[bool, ...], bool]:
    work = operators(network, inference=inference)
    found = waits_of(partition_graph(network), work.nodes)
    return found.forward, found.backward, found.ends


def test_a_chain_waits_everywhere() -> None:
    net = Builder("chain", 3, 8, 8)
    net.conv("a", 8, 3, 1, 1)
    net.conv("b", 8, 3, 1, 1)
    net.flatten("flat")
    net.fc("c", 10)
    network = net.build()
    assert waits(network) == ((False, True, True), (False, True, True), True)
    assert waits(network, inference=True) == ((False, True, True), (False,) * 3, True)


def test_side_by_side_only_one_of_two_waits() -> None:
    """b and c read a: c follows b, and does not wait for it; the join waits for c alone."""
    net = Builder("branches", 3, 8, 8)
    net.conv("a", 8, 3, 1, 1)
    net.conv("b", 8, 3, 1, 1, after="a")
    net.conv("c", 8, 3, 1, 1, after="a")
    net.add("d", "b", "c")
    forward, backward, _ = waits(net.build())
    assert forward == (False, True, False, True)
    assert backward[2] is False
