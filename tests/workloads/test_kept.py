"""What is found once for each network."""

from workloads import Builder, load_network, partition_graph
from workloads.kept import once_for_each
from workloads.network import Network
from workloads.stages import cut


def test_equal_networks_share_an_answer_and_unlike_ones_of_one_name_do_not() -> None:
    asked: list[Network] = []

    @once_for_each
    def layers(network: Network) -> int:
        asked.append(network)
        return len(network.layers)

    one, other = load_network("lenet"), load_network("lenet")
    assert layers(one) == layers(one) == layers(other) == len(one.layers)
    assert asked == [one]
    nets = [Builder("net", 4, 1), Builder("net", 4, 1)]
    for net, features in zip(nets, (5, 6), strict=True):
        net.fc("f", features)
    small, large = (net.build() for net in nets)
    assert hash(small) == hash(large)
    assert [partition_graph(x)[0].out_channels for x in (small, large, small)] == [5, 6, 5]


def test_a_networks_graph_is_made_once_and_so_are_its_cuts() -> None:
    network = load_network("lenet")
    assert partition_graph(network) is partition_graph(load_network("lenet"))
    assert cut(network, (0, 2)) is cut(network, (0, 2))
    assert cut(network, (0, 2)) != cut(network, (0, 3))
