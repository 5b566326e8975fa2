"""HyPar's ten networks have the sizes of a second list, and are no part of comparisons."""

import pytest

from tests.hypar_closed_form import NETWORKS
from workloads import HYPAR, ZOO, load_network, partition_graph


@pytest.mark.parametrize("name", NETWORKS)
def test_sizes(name: str) -> None:
    network = load_network(f"hypar-{name.lower()}")
    nodes = partition_graph(network)
    assert [
        (n.in_channels, n.in_area, n.kernel_area, n.out_channels, n.out_area, n.pooled_area)
        for n in nodes
    ] == [(i, s**2, k**2, o, s**2, (s // p) ** 2) for i, s, k, o, p in NETWORKS[name]]
    assert [node.producers for node in nodes] == [(), *((v,) for v in range(len(nodes) - 1))]
    assert "published sizes, not the true network's" in network.description


def test_vggs_weights_are_true() -> None:
    """Maps are as published, weights are the networks' own."""
    for letter, depth in (("a", 11), ("b", 13), ("d", 16), ("e", 19)):
        assert load_network(f"hypar-vgg-{letter}").weights == load_network(f"vgg{depth}").weights


def test_the_default_networks_are_accpars_nine() -> None:
    assert len(ZOO) == 9
    assert len(HYPAR) == len(NETWORKS) == 10
    assert not ZOO.keys() & HYPAR.keys()
