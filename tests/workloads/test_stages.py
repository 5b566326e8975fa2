"""Networks cut into stages: nothing is lost or twice, and everything that crosses is named."""

from bisect import bisect_right
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import networks
from workloads import (
    ZOO,
    Builder,
    Cut,
    Layer,
    Network,
    NetworkError,
    Node,
    Tensor,
    Transformer,
    cut,
    load_network,
    partition_graph,
    transformer,
)
from workloads.graph import owners
from workloads.layer_types.other import RECEIVED, SENT

Crossed = dict[tuple[int, int, Tensor], list[int]]
"""By producer, target stage and tensor, the nodes that read it."""
SMALL = ("lenet", "alexnet", "vgg16", "resnet18")
GRAPHS = ("gpt2", "bert-base:seq=16", "gnmt:seq=5", "inception-v3", "densenet121", "mobilenet-v2")


def firsts_of_all_cuts(network: Network, most: int = 0) -> list[tuple[int, int]]:
    """Every cut in two whose stages both have weights (or ``most`` of them, evenly)."""
    graph = partition_graph(network)
    weighted = {layer.name for layer in network.layers if layer.weighted}
    has = [i for i, node in enumerate(graph) if node.name in weighted]
    found = [(0, k) for k in range(1, len(graph)) if has[0] < k <= has[-1]]
    if most and len(found) > most:
        found = [found[i * len(found) // most] for i in range(most)]
    return found


def weights_of(network: Network) -> int:
    return sum(layer.parameters for layer in network.layers)


def plain(node: Node) -> tuple[object, ...]:
    """A node without the numbers of others."""
    return (
        *(node.name, node.kind, node.in_channels, node.out_channels, node.kernel_area),
        *(node.in_area, node.out_area, node.pooled_area, node.groups, node.operand),
        node.transposed,
    )


def check(network: Network, firsts: tuple[int, ...]) -> Cut:
    """What holds for every cut of every network; the crossings are counted by brute force."""
    graph = partition_graph(network)
    found = cut(network, firsts)
    parts = [partition_graph(one) for one in found.networks]
    assert [plain(node) for part in parts for node in part] == [plain(node) for node in graph]
    behind = (*firsts, len(graph))
    assert [len(part) for part in parts] == [b - a for a, b in pairwise(behind)]
    assert sum(one.macs for one in found.networks) == network.macs
    copies = sum(graph_weights(network, graph[tie.user].name) for tie in found.ties)
    assert sum(map(weights_of, found.networks)) == weights_of(network) + copies
    own = [
        [layer.name for layer in one.layers if layer.operator not in (RECEIVED, SENT)]
        for one in found.networks
    ]
    assert sorted(name for names in own for name in names) == sorted(
        layer.name for layer in network.layers
    )
    assert crossings(found) == by_brute_force(network, firsts)
    for k, part in enumerate(parts):  # edges inside stay where they were
        for v, node in enumerate(part):
            whole = graph[firsts[k] + v]
            inside = [
                (u, t) for u, t in zip(whole.producers, whole.reads, strict=True) if firsts[k] <= u
            ]
            assert [
                (firsts[k] + u, t) for u, t in zip(node.producers, node.reads, strict=True)
            ] == inside
    return found


def graph_weights(network: Network, name: str) -> int:
    """Weights that a layer borrows, had it its own: a copy in another stage has them."""
    by_name = {layer.name: layer for layer in network.layers}
    layer = by_name[name]
    return by_name[layer.shared].parameters if layer.shared else 0


def crossings(found: Cut) -> Crossed:
    many: Crossed = {}
    for c in found.crossings:  # slices of one product cross one by one
        readers = many.setdefault((c.producer, c.target, c.tensor), [])
        readers += [v for v in c.consumers if v not in readers]
    for one in found.crossings:
        assert one.source == bisect_right(found.firsts, one.producer) - 1 < one.target
        assert {bisect_right(found.firsts, v) - 1 for v in one.consumers} == {one.target}
    return many


def by_brute_force(network: Network, firsts: tuple[int, ...]) -> Crossed:
    """Every pair of nodes: does the second read the first, and is a cut between them?"""
    graph = partition_graph(network)
    wanted: Crossed = {}
    for u, v in combinations(range(len(graph)), 2):
        for number, producer in enumerate(graph[v].producers):
            cuts_between = [f for f in firsts if u < f <= v]
            if producer == u and cuts_between:
                target = max(i for i, f in enumerate(firsts) if f <= v)
                readers = wanted.setdefault((u, target, graph[v].reads[number]), [])
                readers += [v] * (v not in readers)
    return wanted


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in SMALL else [pytest.mark.slow]) for n in (*ZOO, *GRAPHS)],
)
def test_all_cuts_of_the_zoo_in_two(name: str) -> None:
    network = load_network(name)
    found = firsts_of_all_cuts(network, 60)
    assert found
    for firsts in found:
        check(network, firsts)


@pytest.mark.parametrize(
    ("name", "stages"), [("resnet50", 6), ("gpt2", 5), ("inception-v3", 4), ("bert-base", 12)]
)
def test_cuts_in_many(name: str, stages: int) -> None:
    network = load_network(name)
    places = [k for _, k in firsts_of_all_cuts(network)]
    graph = partition_graph(network)
    weighted = {layer.name for layer in network.layers if layer.weighted}
    heavy = [k for k in places if graph[k].name in weighted]
    firsts = (0, *(heavy[i * len(heavy) // stages] for i in range(1, stages)))
    check(network, firsts)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_networks(data: st.DataObject) -> None:
    network = data.draw(networks(9))
    graph = partition_graph(network)
    firsts = (0, *sorted(data.draw(st.sets(st.integers(1, max(len(graph) - 1, 1)), max_size=3))))
    if firsts[-1] >= len(graph):
        return
    behind = (*firsts, len(graph))
    weighted = {layer.name for layer in network.layers if layer.weighted}
    have = [any(node.name in weighted for node in graph[a:b]) for a, b in pairwise(behind)]
    if len(firsts) > 1 and not all(have):
        with pytest.raises(
            NetworkError, match=f"stage {have.index(False)} .*no layer with weights"
        ):
            cut(network, firsts)
        return
    check(network, firsts)


def residual() -> Network:
    net = Builder("residual", 8, 1)
    net.flatten("flat")
    for name in "abc":
        net.fc(name, 8)
    net.add("sum", "a", "c")
    net.fc("d", 4, after="sum")
    return net.build()


def test_a_tensor_that_is_read_twice_in_a_stage_is_sent_once_and_by_its_maker() -> None:
    """a is read by b (stage 1) and the sum (stage 2): two crossings, both from stage 0."""
    found = check(residual(), (0, 1, 3))
    ends = [(c.producer, c.source, c.target, c.consumers) for c in found.crossings]
    assert ends == [(0, 0, 1, (1,)), (0, 0, 2, (3,)), (2, 1, 2, (3,))]
    assert [c.tensor.elements for c in found.crossings] == [8, 8, 8]
    together = check(residual(), (0, 1))
    assert [(c.producer, c.consumers) for c in together.crossings] == [(0, (1, 3))]


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("fused", [True, False])
def test_queries_keys_and_values_cross_one_by_one(kv_heads: int, fused: bool) -> None:
    """Slices of one product are as many tensors as three products make; what is added is one more.

    Behind the scores the values alone are still to be read.
    """
    network = transformer(
        Transformer("mine", 2, 64, 4, 100, seq=16, kv_heads=kv_heads, fused_qkv=fused)
    )
    names = [node.name for node in partition_graph(network)]
    narrow = 16 * kv_heads * 16
    for first, sent in (
        ("layer1.attention.scores", [64 * 16, 64 * 16, narrow, narrow]),
        ("layer1.attention.context", [64 * 16, 4 * 16 * 16, narrow]),
    ):
        found = check(network, (0, names.index(first)))
        assert sorted(c.tensor.elements for c in found.crossings) == sorted(sent)


def test_a_stage_by_itself_receives_and_sends_by_name() -> None:
    first, second, third = cut(residual(), (0, 1, 3)).networks
    operators = [
        {layer.name for layer in one.layers if layer.operator == kind}
        for one in (first, second, third)
        for kind in (RECEIVED, SENT)
    ]
    assert operators == [set(), {"a sent"}, {"a"}, {"c sent"}, {"a", "c"}, set()]
    assert second.input.elements == 8


def test_weights_that_two_stages_use_are_in_both() -> None:
    """GPT-2's head uses the embedding: a cut between them is a tie, and doubles the weights."""
    network = load_network("gpt2")
    graph = partition_graph(network)
    found = check(network, (0, len(graph) // 2))
    (tie,) = found.ties
    assert (tie.source, tie.target) == (0, 1)
    assert graph[tie.user].tied == tie.owner
    user = {layer.name: layer for layer in found.networks[1].layers}[graph[tie.user].name]
    assert user.shared == ""
    assert user.parameters > 0


def test_two_users_in_one_stage_share_one_copy() -> None:
    """An embedding of 10 words of 4 numbers, used twice more: one copy in the second stage."""
    words, rows = Tensor(1, 3), Tensor(4, 3)
    layers = [Layer("table", "embedding", ("input",), words, rows, vocabulary=10)]
    for name, source in (("head", "table"), ("back", "head"), ("other", "back")):
        into, out = (Tensor(10, 3), rows) if name == "back" else (rows, Tensor(10, 3))
        shared = "" if name == "back" else "table"
        layers.append(Layer(name, "fc", (source,), into, out, shared=shared))
    network = Network("tied", words, tuple(layers))
    found = check(network, (0, 1))
    by_name = {layer.name: layer for layer in found.networks[1].layers}
    assert (by_name["head"].shared, by_name["other"].shared) == ("", "head")
    (tie,) = found.ties
    assert (tie.owner, tie.user) == (0, 1)
    assert [sum(layer.parameters for layer in one.layers) for one in found.networks] == [40, 80]


@pytest.mark.parametrize(
    "firsts", [(), (1,), (0, 0), (0, 3, 2), (0, 5), (0, 99), (0, -1), (0, 1, 1)]
)
def test_what_is_no_cut_is_refused(firsts: tuple[int, ...]) -> None:
    with pytest.raises(NetworkError, match="stages begin at layers"):
        cut(residual(), firsts)


def test_a_stage_needs_weights_and_the_message_says_where() -> None:
    with pytest.raises(NetworkError, match=r"stage 1 \(from 'sum' on\).*no layer with weights"):
        cut(residual(), (0, 3, 4))


def test_one_stage_is_the_network_itself() -> None:
    network = residual()
    found = cut(network, (0,))
    assert found.networks == (network,)
    assert not found.crossings
    assert not found.ties


@pytest.mark.parametrize(
    ("name", "first", "moved"),
    [
        ("gpt2:layers=3", "layer1.attention.qkv", ["layer1.norm1"]),
        ("llama3-8b:layers=3", "layer1.query", ["layer1.norm1"]),
        ("resnet18", "layer2.0.conv1", []),  # all read what ReLU makes: it is sent
        ("vgg16", "conv2_2", []),
        ("bert-base:seq=16", "layer1.query", []),  # post-norm: the stream is what it makes
    ],
)
def test_a_norm_behind_a_cut_is_made_where_it_is_read(
    name: str, first: str, moved: list[str]
) -> None:
    """What a block begins with, beside the stream that is sent for its sum."""
    network = load_network(name)
    graph = partition_graph(network)
    at = [node.name for node in graph].index(first)
    found = cut(network, (0, at))
    behind = {layer.name for layer in found.networks[1].layers}
    owned = owners(network, graph)
    crossed = [name for name, (node, _) in owned.items() if node < at and name in behind]
    entering = [one.name for one in found.networks[1].layers if one.operator == RECEIVED]
    assert [name for name in crossed if name not in entering] == moved
    assert not {layer.name for layer in found.networks[0].layers} & set(moved)
    assert len(found.crossings) == 1
    assert set(found.crossings[0].consumers) >= {at}
    assert len(entering) == 1
