"""What a case's identity covers of a network."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from experiments.studies.case import Case, Planned, _layers, plan_of
from hardware import load_array
from planners import Staging
from simulator import DEPLOYED
from simulator.lowering.schedules import registry
from simulator.lowering.schedules.registry import SCHEDULES
from simulator.lowering.schedules.schedule import BACKWARD, FORWARD, Pass, Rank, Schedule
from workloads import Builder, Layer, Network, Tensor, load_network
from workloads.layer_types import TYPES, LayerType, Role, Step
from workloads.network import blocks

IDS, WORDS = Tensor(1, 4), Tensor(8, 4)
LAYERS = {
    "table": Layer("table", "embedding", ("input",), IDS, WORDS, vocabulary=8),
    "conv": Layer("conv", "conv", ("table",), WORDS, WORDS, 3),
    "cell": Layer("cell", "lstm", ("conv",), WORDS, WORDS),
    "norm": Layer("norm", "other", ("cell",), WORDS, WORDS, operator="layer_norm"),
    "cat": Layer("cat", "concat", ("norm", "table"), WORDS, Tensor(16, 4)),
    "head": Layer("head", "fc", ("table",), WORDS, WORDS),
}


def key(layers: dict[str, Layer]) -> str:
    network = Network("net", IDS, tuple(layers.values()))
    return Case(network, "accpar", load_array("accpar-mixed"), 8).key


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("conv", {"kernel": (1, 3)}),
        ("conv", {"groups": 2}),
        ("conv", {"transposed": True}),
        ("table", {"vocabulary": 9}),
        ("cell", {"directions": 2}),
        ("norm", {"operator": "gelu"}),
        ("norm", {"extra": 16}),
        ("norm", {"apart": True}),
        ("head", {"bias": True}),
        ("cat", {"others": (Tensor(9, 4),)}),
        ("head", {"shared": "table"}),
        ("head", {"inputs": ("norm",)}),
    ],
)
def test_whatever_changes_a_layer_changes_the_identity(name: str, fields: dict[str, Any]) -> None:
    changed = LAYERS | {name: replace(LAYERS[name], **fields)}
    assert key(changed) != key(LAYERS)


def test_names_do_not() -> None:
    renamed = {
        f"new {name}": replace(
            layer,
            name=f"new {name}",
            inputs=tuple("input" if i == "input" else f"new {i}" for i in layer.inputs),
        )
        for name, layer in LAYERS.items()
    }
    assert key(renamed) == key(LAYERS)


def test_the_length_of_a_sequence_is_part_of_it() -> None:
    array = load_array("accpar-mixed")
    keys = {Case(load_network(f"gnmt:seq={n}"), "owt", array, 8).key for n in (4, 5)}
    assert len(keys) == 2


def products(names: str) -> Network:
    """Four products behind each other, the last one wide."""
    net = Builder("net", 64, 1, 1)
    for name in names:
        net.fc(name, 64 if name != names[-1] else 512)
    return net.build()


def test_cuts_are_of_layers_whatever_their_names() -> None:
    """ "b" begins the second stage: the second layer of abcd, the third of acbd."""
    array = load_array("tpu-v3-8")
    found = {}
    for names, cut in (("abcd", "b"), ("acbd", "b"), ("wxyz", "x")):
        staging = Staging(stages=2, micro_batches=4, cuts=(cut,))
        how = replace(DEPLOYED, staging=staging)
        found[names] = Case(products(names), "data_parallel", array, 64, execution=how).key
    assert found["abcd"] == found["wxyz"] != found["acbd"]


def test_blocks_are_of_names_and_part_of_it() -> None:
    """What is computed again are blocks, which are called alike but for a number."""
    network = load_network("gpt2:layers=2:seq=8")
    names = {layer.name: layer.name.replace("layer1", "other") for layer in network.layers}
    renamed = [
        replace(layer, name=names[layer.name], inputs=tuple(names.get(i, i) for i in layer.inputs))
        for layer in network.layers
    ]
    array = load_array("tpu-v3-8")
    other = Builder("net", 64, 1, 1)
    for name in ("enc0.a", "enc0.b", "enc1.a", "enc1.b", "dec0.a", "dec1.a"):
        other.fc(name, 64)
    fewer = [replace(one, name=one.name.replace("dec1", "last")) for one in other.build().layers]
    fewer = [
        replace(one, inputs=tuple(i.replace("dec1", "last") for i in one.inputs)) for one in fewer
    ]
    both = other.build(), replace(other.build(), layers=tuple(fewer))
    assert blocks(both[0]) == blocks(both[1])  # of the whole; a stage may have the last ones alone
    assert len({Case(one, "owt", array, 8).key for one in both}) == 2
    cases = (network, replace(network, layers=tuple(renamed)))
    assert len({Case(one, "owt", array, 8).key for one in cases}) == 2


def test_a_schedule_of_a_plug_in_is_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def order(rank: Rank) -> Iterator[Pass]:
        for number in range(rank.micro_batches):
            yield Pass(FORWARD, number)
            yield Pass(BACKWARD, number)

    own = Schedule("mine", order, "one at a time")
    array, lenet = load_array("tpu-v3-8"), load_network("lenet")
    asked = replace(DEPLOYED, staging=Staging(4, 8, schedule="mine.py:OWN"))
    case, found = Case(lenet, "data_parallel", array, 64, execution=asked), list[str]()
    for other in (own, replace(own, order=SCHEDULES["gpipe"].order), replace(own, flushes=False)):
        monkeypatch.setattr(registry, "load_plugin", lambda *_, one=other, **__: one)
        found += [case.key, replace(case, planner=Planned("p", plan_of(case))).key]
    assert len(set(found)) == 6


def test_a_layer_type_of_a_plug_in_is_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def typed(**answers: Any) -> Any:
        return type("Mine", (LayerType,), {"name": "mine", "__module__": "own", **answers})()

    found, own = list[str](), Layer("mine", "mine", ("table",), WORDS, WORDS)
    for one in (
        typed(),
        typed(macs=lambda _, layer: 5),
        typed(forward=lambda _, layer: (Step((Role.INPUTS,), (Role.OUTPUT,), times=2),)),
        typed(backward=lambda _, layer, *, needed: ()),
        typed(element_cycles=lambda _, layer, *, forward: 9.0),
        typed(sums=True),
    ):
        monkeypatch.setitem(TYPES, "mine", one)
        _layers.cache_clear()  # as in another process
        found.append(key(LAYERS | {"mine": own}))
        assert found[-1] == key(LAYERS | {"mine": replace(own)})
    assert len(set(found)) == len(found)
