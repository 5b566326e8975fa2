"""Types by structure: those that Megatron's authors chose, wherever they are to be found."""

import pytest

from planners import PlanError
from planners.axes.node_types import check_groups, types_along
from planners.axes.stage_cuts import usual_first_nodes
from planners.partition import II, III, IV, I, V, legal
from workloads import Builder, Network, Tensor, load_network, partition_graph
from workloads.stages import cut

BLOCK = {
    "query": III,
    "key": III,
    "value": III,
    "attention.qkv": III,
    "attention.scores": IV,
    "attention.context": IV,
    "attention.output": II,
    "output": II,
    "add1": III,
    "fc1": III,
    "fc2": II,
    "gate": III,
    "up": III,
    "mul": II,
    "down": II,
    "add2": III,
}
"""Shoeybi et al. 2019, section 3: by the names that the zoo gives."""


@pytest.mark.parametrize("name", ["gpt2", "llama3-8b:seq=64", "bert-base:seq=64", "vit-b16"])
def test_transformers_as_megatron_splits_them(name: str) -> None:
    graph = partition_graph(load_network(name))
    found = dict(zip((node.name for node in graph), types_along("tp", graph), strict=True))
    inside = {name: one for name, one in found.items() if name.startswith("layer")}
    assert len(inside) > 12
    for one, type_ in inside.items():
        assert type_ is BLOCK[one.partition(".")[2]], one
    if "embedding" in found:
        assert found["embedding"] is II
    for head in {"head", "decoder"} & found.keys():
        assert found[head] is III


@pytest.mark.parametrize("stages", [2, 4])
def test_a_head_has_its_words_in_columns_in_the_last_stage_too(stages: int) -> None:
    """BERT's decoder reads columns, and the table that it is tied to is in another stage."""
    network = load_network("bert-base:seq=64")
    graph = partition_graph(network)
    last = cut(network, usual_first_nodes(network, stages)).networks[-1]
    whole, found = (
        dict(zip((node.name for node in one), types_along("tp", one), strict=True))
        for one in (graph, partition_graph(last))
    )
    assert "decoder" in found
    assert found == {name: whole[name] for name in found}


@pytest.mark.parametrize(
    "name", ["vgg16", "resnet50", "mobilenet-v2", "densenet121", "gnmt:seq=4", "inception-v3"]
)
@pytest.mark.parametrize("axis", ["tp", "ep", "dp"])
def test_types_are_legal_everywhere(name: str, axis: str) -> None:
    graph = partition_graph(load_network(name))
    for node, type_ in zip(graph, types_along(axis, graph), strict=True):
        assert type_ in legal(node)


@pytest.mark.parametrize("attention", ["fused", "unfused"])
def test_positions_where_tp_leaves_the_whole(attention: str) -> None:
    """Korthikanti et al. 2022, figure 5: what is between the products of a block."""
    graph = partition_graph(load_network(f"gpt2:layers=2:seq=16:attention={attention}"))
    plain, by_positions = (types_along("tp", graph, by_positions=sp) for sp in (False, True))
    for node, one, other in zip(graph, plain, by_positions, strict=True):
        assert other is (V if node.kind == "add" else one), node.name


def test_positions_everywhere_but_where_they_are_no_sequence() -> None:
    graph = partition_graph(load_network("bert-base:seq=64"))
    found = dict(zip((node.name for node in graph), types_along("cp", graph), strict=True))
    assert {name for name, one in found.items() if one is I} == {"pooler", "next_sentence"}
    assert set(found.values()) == {I, V}


def test_convolutions_take_turns() -> None:
    graph = partition_graph(load_network("vgg16"))
    assert types_along("tp", graph) == (III, II) * (len(graph) // 2)


def experts(groups: int = 4) -> Network:
    """A layer of experts in its residual block, as columns: dispatch, two products, combine."""
    net = Builder("experts", 8, 6)
    net.linear("first", 8)
    net.other("dispatch", "dispatch", Tensor(8 * groups, 3))
    for name in ("gate", "up"):
        net.linear(name, 16 * groups, groups=groups, after="dispatch")
    net.mul("mul", "gate", "up")
    net.linear("down", 8 * groups, groups=groups)
    net.other("combine", "combine", Tensor(8, 6), "down")
    net.add("add", "combine", "first")
    net.linear("last", 4)
    return net.build()


def test_experts_apart() -> None:
    graph = partition_graph(experts())
    assert [node.name for node in graph] == ["first", "gate", "up", "mul", "down", "add", "last"]
    assert types_along("ep", graph) == (I, IV, IV, II, IV, I, I)


def test_experts_are_cut_inside_along_tp() -> None:
    graph = partition_graph(experts())
    assert types_along("tp", graph)[1:6] == (III, III, II, II, III)


def test_grouped_convolutions_stay_whole() -> None:
    graph = partition_graph(load_network("mobilenet-v2"))
    types = types_along("tp", graph)
    depthwise = [v for v, node in enumerate(graph) if node.groups > 1]
    assert depthwise
    assert {types[v] for v in depthwise} == {IV}


@pytest.mark.parametrize(
    ("network", "axis", "ways", "words"),
    [
        ("gpt2", "tp", 8, "'layer0.attention.scores' has 12 heads.*take tp=4"),
        ("llama3-8b:seq=64", "tp", 16, "has 8 heads .of keys.*take tp=8"),
        ("gpt2", "ep", 2, "ep=2: the network has no experts"),
    ],
)
def test_whole_heads_and_experts(network: str, axis: str, ways: int, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        check_groups(partition_graph(load_network(network)), axis, ways)


def test_experts_that_do_not_divide() -> None:
    graph = partition_graph(experts(6))
    check_groups(graph, "ep", 3)
    with pytest.raises(PlanError, match=r"'gate' has 6 experts, which 4 does.*ep=2"):
        check_groups(graph, "ep", 4)


def test_whole_experts_along_tp() -> None:
    """Experts are apart there, too, and what routes tokens lies as the stream does."""
    graph = partition_graph(load_network("mixtral-8x7b:layers=1:seq=16"))
    parts, whole, plain = (
        dict(zip((node.name for node in graph), types_along("tp", graph, **how), strict=True))
        for how in (
            {"by_positions": True},
            {"by_positions": True, "experts_whole": True},
            {"experts_whole": True},
        )
    )
    changed = {name: type_ for name, type_ in whole.items() if type_ is not parts[name]}
    experts = dict.fromkeys(("layer0.experts.gate", "layer0.experts.up", "layer0.experts.down"), IV)
    assert changed == experts
    assert whole["layer0.experts.mul"] is II
    routing = ("layer0.router", "layer0.dispatch", "layer0.combine")
    assert {parts[name] for name in routing} == {whole[name] for name in routing} == {V}
    assert {plain[name] for name in routing} == {III}
