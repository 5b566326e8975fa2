"""Types of layers that users write: each has a name of its own."""

from collections.abc import Iterator
from typing import Any

import pytest

from workloads import Builder, NetworkError
from workloads.layer_types import TYPES, LayerType, register


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """The types that there were, again."""
    before = dict(TYPES)
    yield
    TYPES.clear()
    TYPES.update(before)


def test_a_name_is_taken_once() -> None:
    before = TYPES["conv"]
    other = type("Mine", (LayerType,), {"name": "conv", "__module__": "elsewhere"})
    words = "layer type elsewhere.Mine: workloads.*Convolution is called 'conv'; choose another"
    with pytest.raises(NetworkError, match=words):
        register(other)
    assert TYPES["conv"] is before
    assert register(type(before)) is type(before)  # a module that is loaded again


@pytest.mark.parametrize("answer", [-5, 2.5, float("nan")])
@pytest.mark.parametrize("count", ["weights", "macs", "further_parameters"])
def test_what_a_type_counts_is_whole_and_not_negative(count: str, answer: float) -> None:
    register(type("Mine", (LayerType,), {"name": "mine", count: lambda self, layer: answer}))
    net = Builder("net", 4, 2)
    net.linear("f", 4)
    net.layer("mine", "own")
    with pytest.raises(
        NetworkError, match=rf"layer 'own': its type mine says {answer} \w+: a whole"
    ):
        net.build()


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ("text", "layer type 'text' is no LayerType"),
        (type("Mine", (), {"name": "mine"}), "Mine is no LayerType"),
        (type("Mine", (LayerType,), {"name": "mine", "shardable": ("sampels",)}), "'sampels'; of"),
    ],
)
def test_what_is_no_type_is_refused(own: Any, words: str) -> None:
    with pytest.raises(NetworkError, match=words):
        register(own)
    assert "mine" not in TYPES


@pytest.mark.parametrize("own", [{}, {"name": ""}, {"name": 3}])
def test_a_type_has_a_name(own: dict[str, Any]) -> None:
    with pytest.raises(NetworkError, match=r'Mine has no name; write name = "..." in it'):
        register(type("Mine", (LayerType,), own))
