"""Types of layers that users write: each has a name of its own."""

from collections.abc import Iterator
from typing import Any

import pytest

from workloads import NetworkError
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


@pytest.mark.parametrize("own", [{}, {"name": ""}, {"name": 3}])
def test_a_type_has_a_name(own: dict[str, Any]) -> None:
    with pytest.raises(NetworkError, match=r'Mine has no name; write name = "..." in it'):
        register(type("Mine", (LayerType,), own))
