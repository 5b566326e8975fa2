"""Readers of single values, and tables that say all that is wrong at once."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import load_array
from hardware.schema import check, origin_of
from hardware.spec import flatten
from hardware.tables import (
    BYTES,
    DURATION,
    EFFICIENCY,
    Reader,
    Table,
    TableError,
    entries,
    flag,
    key,
    list_of,
    number,
    one_of,
    quantity,
    text,
    whole,
)


class Port(Table):
    """A small table."""

    lanes = key(whole(1, 16))
    latency = key(DURATION, 0.0)


class Board(Table):
    """One with every sort of key."""

    name = key(text, "")
    fused = key(flag, False)
    shape = key(list_of(whole(1, 8), 1, 3), [1])
    port = key(Port, None)
    ports = key(entries(Port, 1, 2), {})


TREE: dict[str, Any] = {
    "name": "b",
    "shape": [2, 4],
    "port": {"lanes": 4, "latency": "1 us"},
    "ports": {"0": {"lanes": 1}},
}


def test_a_table_has_what_was_written_and_defaults_for_the_rest() -> None:
    board = Board(TREE)
    assert (board.name, board.fused, board.shape) == ("b", False, [2, 4])
    assert board.port is not None
    assert (board.port.lanes, board.port.latency) == (4, 1e-6)
    assert board.ports["0"].latency == 0.0
    assert dict(Board()) == {"name": "", "fused": False, "shape": [1], "port": None, "ports": {}}
    assert [name for name, _ in board] == ["name", "fused", "shape", "port", "ports"]


def test_a_table_is_frozen_and_its_defaults_stay() -> None:
    with pytest.raises(AttributeError, match="Board is frozen"):
        Board().name = "other"
    assert Board(TREE).shape == [2, 4]
    assert Board().shape == [1]


def test_every_fault_is_told_at_once() -> None:
    wrong: dict[str, Any] = {
        "nam": "b",
        "fused": 1,
        "shape": [2, 9, 0],
        "port": {"latency": 3},
        "ports": {"0": 5, "x": {"lanes": 0, "colour": "red"}},
    }
    with pytest.raises(TableError) as caught:
        Board(wrong)
    assert caught.value.found == [
        ("fused", "1: must be true or false"),
        ("shape.1", "9: must be a whole number from 1 to 8"),
        ("shape.2", "0: must be a whole number from 1 to 8"),
        ("port.latency", '3: a quantity needs a unit; write it like "1.5 us"'),
        ("port.lanes", "is missing"),
        ("ports.0", "5: must be a table"),
        ("ports.x.lanes", "0: must be a whole number from 1 to 16"),
        ("ports.x.colour", "unknown key; known: lanes, latency"),
        ("nam", "unknown key; did you mean name?"),
    ]


@pytest.mark.parametrize(
    ("read", "written", "value"),
    [
        (whole(0, 4), 0, 0),
        (whole(0, 4), 4, 4),
        (number(0, 1), 0, 0.0),
        (number(0.5, 2), 2, 2.0),
        (EFFICIENCY, 1, 1.0),
        (EFFICIENCY, 1e-9, 1e-9),
        (flag, True, True),
        (text, "x" * 2000, "x" * 2000),
        (one_of(("a", "b")), "b", "b"),
        (BYTES, "2 KiB", 2048.0),
        (quantity("B", 16, "too many"), "16 B", 16.0),
        (list_of(text, 0, 1), [], []),
    ],
)
def test_what_is_right(read: Reader[Any], written: object, value: object) -> None:
    assert read(written) == value
    assert type(read(written)) is type(value)


@pytest.mark.parametrize(
    ("read", "written", "said"),
    [
        (whole(1, 4096), 4097, "must be a whole number from 1 to 4,096"),
        (whole(0, 4), -1, "from 0 to 4"),
        (whole(0, 4), True, "whole number"),
        (whole(0, 4), 1.0, "whole number"),
        (whole(0, 4), "1", "whole number"),
        (EFFICIENCY, 0, "must be a number above 0 and at most 1"),
        (EFFICIENCY, 1.0001, "at most 1"),
        (EFFICIENCY, True, "a number"),
        (EFFICIENCY, math.nan, "a number"),
        (number(1, 1000), 10**400, "must be a number from 1 to 1,000"),
        (number(1, 1000), "2", "a number"),
        (flag, 1, "true or false"),
        (flag, "true", "true or false"),
        (text, 3, "a text"),
        (text, "x" * 2001, "at most 2,000 characters"),
        (one_of(("ring", "bus")), "rung", "must be one of 'ring', 'bus'; did you mean 'ring'?"),
        (one_of(("ring", "bus")), ["ring"], "must be one of 'ring', 'bus'"),
        (quantity("B", 16, "too many"), "17 B", "too many"),
        (list_of(text, 1, 2), [], "must be a list of 1 to 2 values"),
        (list_of(text, 1, 2), ["a"] * 3, "must be a list of 1 to 2 values"),
        (list_of(text, 1, 2), "ab", "must be a list"),
        (entries(Port, 1, 2), {}, "must have 1 to 2 entries; it has 0"),
        (entries(Port, 1, 2), [], "must be a table"),
        (Port, [], "must be a table"),
    ],
)
def test_what_is_wrong_says_what_would_be_right(
    read: Reader[Any], written: object, said: str
) -> None:
    with pytest.raises(ValueError, match=r"must|too many") as caught:
        read(written)
    assert said in str(caught.value)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "fused", "shape", "port", "ports", "lanes", "latency"]), inner
        )
    ),
)


@given(_VALUES)
def test_whatever_is_written_is_a_table_or_refused(written: Any) -> None:
    """Nothing but a ValueError comes out, and what is read is of the kinds that keys promise."""
    try:
        board = Board(written)
    except ValueError:
        return
    assert type(board.name) is str
    assert type(board.fused) is bool
    assert all(type(side) is int and 1 <= side <= 8 for side in board.shape)
    assert board.port is None or (1 <= board.port.lanes <= 16 and board.port.latency >= 0)


def test_a_fault_names_where_its_value_was_written() -> None:
    """A value of a list is where the list is; what is nowhere is in the file."""
    with pytest.raises(ValueError, match=r"^--set topology.shape=\[2, 0\]: topology.shape.1: 0: "):
        load_array("ring-8", ["topology.shape=[2, 0]"])
    settings = flatten({"port": {"lanes": 4}}, "f.toml")
    assert origin_of("port", settings, "g.toml") == "f.toml"
    assert origin_of("ports.0", settings, "g.toml") == "g.toml"
    _, faults = check(Board, flatten({"port": {}}, "f.toml"), "f.toml", "devices.0.")
    assert faults == ["f.toml: devices.0.port.lanes: is missing"]
