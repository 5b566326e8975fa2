"""What reads files from outside: limits, values, and all that is wrong at once."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, RootModel, ValidationError

from hardware import SpecError, load_array
from hardware.reader import (
    DEEPEST,
    MOST_FAULTS,
    Bytes,
    Duration,
    Share,
    Table,
    Text,
    checked,
    checked_rows,
    number,
    one_of,
    parse_csv,
    parse_json,
    parse_toml,
    parse_yaml,
    quantity,
    raise_all,
    read_text,
    validated,
    whole,
)
from hardware.schema import check, origin_of
from hardware.spec import flatten


class Port(Table):
    """A small table."""

    lanes: Annotated[int, whole(1, 16)]
    latency_s: Duration = Field(default=0.0, alias="latency")


Side = Annotated[int, whole(1, 8)]


class Board(Table):
    """One with every sort of key."""

    name: Text = ""
    fused: bool = False
    shape: list[Side] = Field(default=[1], min_length=1, max_length=3)
    kind: Literal["ring", "bus"] = "ring"
    rates: dict[Literal["bf16", "fp8"], Share] = Field(default={})
    port: Port | None = None
    ports: dict[str, Port] = Field(default={}, max_length=2)


TREE: dict[str, Any] = {
    "name": "b",
    "shape": [2, 4],
    "rates": {"fp8": 1},
    "port": {"lanes": 4, "latency": "1 us"},
    "ports": {"0": {"lanes": 1}},
}


def test_a_table_has_what_was_written_and_defaults_for_the_rest() -> None:
    board, faults = validated(Board, TREE)
    assert board is not None
    assert not faults
    assert (board.name, board.fused, board.shape) == ("b", False, [2, 4])
    assert type(board.rates["fp8"]) is float
    assert board.port is not None
    assert (board.port.lanes, board.port.latency_s) == (4, 1e-6)
    assert board.ports["0"].latency_s == 0.0
    with pytest.raises(ValidationError, match="frozen"):
        setattr(board, "name", "other")  # noqa: B010


def test_every_fault_is_told_at_once() -> None:
    wrong: dict[str, Any] = {
        "nam": "b",
        "fused": 1,
        "shape": [2, 9, 0],
        "kind": "rung",
        "rates": {"bf61": 1},
        "port": {"latency": 3},
        "ports": {"0": 5, "x": {"lanes": 0, "colour": "red"}},
    }
    faults = [
        ("fused", "1: must be true or false"),
        ("shape.1", "9: must be a whole number from 1 to 8"),
        ("shape.2", "0: must be a whole number from 1 to 8"),
        ("kind", "'rung': must be one of 'ring', 'bus'; did you mean 'ring'?"),
        ("rates.bf61", "unknown key; did you mean bf16?"),
        ("port.lanes", "is missing"),
        ("port.latency", '3: a quantity needs a unit; write it like "1.5 us"'),
        ("ports.0", "5: must be a table"),
        ("ports.x.lanes", "0: must be a whole number from 1 to 16"),
        ("ports.x.colour", "unknown key; one of lanes, latency"),
        ("nam", "unknown key; did you mean name?"),
    ]
    assert validated(Board, wrong) == (None, faults)
    with pytest.raises(SpecError) as caught:
        checked(Board, wrong, "board.toml", SpecError)
    assert str(caught.value).splitlines() == [f"board.toml: {p}: {what}" for p, what in faults]
    with pytest.raises(SpecError, match=r"^board.toml: 5: must be a table$"):
        checked(Board, 5, "board.toml", SpecError)


def test_of_very_many_faults_the_first_are_told() -> None:
    with pytest.raises(SpecError) as caught:
        raise_all((f"f.toml: key{i}: wrong" for i in range(MOST_FAULTS + 30)), SpecError)
    lines = str(caught.value).splitlines()
    assert len(lines) == MOST_FAULTS + 1
    assert lines[-1] == "... and 30 more faults"


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (Annotated[int, whole(0, 4)], 0, 0),
        (Annotated[int, whole(0, 4)], 4, 4),
        (Annotated[float, number(0, 1)], 0, 0.0),
        (Annotated[float, number(0.5, 2)], 2, 2.0),
        (Share, 1, 1.0),
        (Share, 1e-9, 1e-9),
        (Text, "x" * 2000, "x" * 2000),
        (Annotated[str, one_of(("a", "b"))], "b", "b"),
        (Bytes, "2 KiB", 2048.0),
        (Annotated[float, quantity("B", 16, "too many")], "16 B", 16.0),
    ],
)
def test_what_is_right(kind: Any, written: object, value: object) -> None:
    read, _ = validated(RootModel[kind], {"root": written}["root"])
    assert read is not None
    assert read.root == value
    assert type(read.root) is type(value)


class Wrong(Table):
    """One key for each sort of value."""

    lanes: Annotated[int, whole(0, 4096)] = 0
    share: Share = 1.0
    ratio: Annotated[float, number(1, 1000)] = 1.0
    flag: bool = False
    text: Text = ""
    name: Annotated[str, one_of(("ring", "bus"))] = ""
    size: Annotated[float, quantity("B", 16, "too many")] = 0.0
    texts: list[Text] = Field(default=[], min_length=1, max_length=2)
    entries: dict[str, Port] = Field(default={}, min_length=1, max_length=1)


@pytest.mark.parametrize(
    ("key", "written", "said"),
    [
        ("lanes", 4097, "4097: must be a whole number from 0 to 4,096"),
        ("lanes", -1, "-1: must be a whole number from 0 to 4,096"),
        ("lanes", True, "True: must be a whole number from 0 to 4,096"),
        ("lanes", 1.0, "1.0: must be a whole number from 0 to 4,096"),
        ("lanes", "1", "'1': must be a whole number from 0 to 4,096"),
        pytest.param(
            "lanes",
            16**5000,
            "a value too long to show: must be a whole number from 0 to 4,096",
            id="huge",
        ),
        ("share", 1e-320, "1e-320: must be a number from 1e-09 to 1"),
        ("share", 0, "0: must be a number from 1e-09 to 1"),
        ("share", 1.0001, "1.0001: must be a number from 1e-09 to 1"),
        ("share", True, "True: must be a number from 1e-09 to 1"),
        ("share", math.nan, "nan: must be a number from 1e-09 to 1"),
        ("ratio", 10**400, f"1{'0' * 59}: must be a number from 1 to 1,000"),
        ("ratio", "2", "'2': must be a number from 1 to 1,000"),
        ("flag", "true", "'true': must be true or false"),
        ("text", 3, "3: must be a text"),
        ("text", "x" * 2001, f"'{'x' * 59}: must have at most 2000 characters"),
        ("name", "rung", "'rung': must be one of 'ring', 'bus'; did you mean 'ring'?"),
        ("name", ["ring"], "['ring']: must be one of 'ring', 'bus'; did you mean 'ring'?"),
        ("size", "17 B", "'17 B': too many"),
        ("texts", [], "[]: must have at least 1 item, not 0"),
        ("texts", "ab", "'ab': must be a list, in [ ]"),
        ("entries", {}, "{}: must have at least 1 item, not 0"),
        ("entries", [], "[]: must be a table"),
    ],
)
def test_what_is_wrong_says_what_would_be_right(key: str, written: object, said: str) -> None:
    assert validated(Wrong, {key: written}) == (None, [(key, said)])


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*Board.model_fields, "lanes", "latency"]), inner)
    ),
)


@given(_VALUES)
def test_whatever_is_written_is_a_table_or_refused(written: Any) -> None:
    """What is read is of the kinds that keys promise; all else has faults."""
    board, faults = validated(Board, written)
    if board is None:
        assert faults
        return
    assert type(board.name) is str
    assert type(board.fused) is bool
    assert all(type(side) is int and 1 <= side <= 8 for side in board.shape)
    assert board.port is None or (1 <= board.port.lanes <= 16 and board.port.latency_s >= 0)


def test_a_fault_names_where_its_value_was_written() -> None:
    """A value of a list is where the list is; what is nowhere is in the file."""
    with pytest.raises(ValueError, match=r"^--set topology.shape=\[2, 0\]: topology.shape.1: 0: "):
        load_array("ring-8", ["topology.shape=[2, 0]"])
    settings = flatten({"port": {"lanes": 4}}, "f.toml")
    assert origin_of("port", settings, "g.toml") == "f.toml"
    assert origin_of("ports.0", settings, "g.toml") == "g.toml"
    _, faults = check(Board, flatten({"port": {}}, "f.toml"), "f.toml", "devices.0.")
    assert faults == ["f.toml: devices.0.port.lanes: is missing"]


def test_files_are_read_within_limits(tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    path.write_bytes(b"\xef\xbb\xbfa = 1")
    assert read_text(path, SpecError) == "a = 1"
    with pytest.raises(SpecError, match=r"f.txt: larger than 0 KiB; not a profile"):
        read_text(path, SpecError, "a profile", most=3)
    path.write_bytes(b"\xff")
    with pytest.raises(SpecError, match=r"f.txt: not a text file \(expected UTF-8\)"):
        read_text(path, SpecError)
    for wrong, said in ((tmp_path, "cannot be read: Is a dir"), ("a\0b", "'a.x00b': not a path")):
        with pytest.raises(SpecError, match=said):
            read_text(wrong, SpecError)


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parse_toml, "a = ", "f: not valid TOML: Invalid value"),
        (parse_toml, f"a = {'9' * 5000}", "f: not valid TOML: a number has more than 4096 bits"),
        (
            parse_toml,
            f"a = [0x{'f' * 5000}]",
            "f: not valid TOML: a number has more than 4096 bits",
        ),
        (parse_toml, "a = " + "[" * 50_000, "f: not valid TOML: nested too deep"),
        (parse_toml, ".".join("a" * (DEEPEST + 2)) + " = 1", "nested too deep, at most 200 levels"),
        (parse_toml, "[" + "a . " * 60_000 + "a]", "nested too deep, at most 200 levels"),
        (parse_toml, "b = [{" + '"a".' * 60_000 + "a = 1}]", "nested too deep, at most 200 levels"),
        (parse_json, "[1,", "f: not valid JSON: Expecting value: line 1 column 4"),
        (parse_json, "[" * 50_000, "f: not valid JSON: nested too deep"),
        (parse_json, "[" * 300 + "]" * 300, "nested too deep, at most 200 levels"),
        (parse_json, '{"a": 1, "b": {"c": null, "c": null}}', "JSON: the key 'c' is there twice"),
        (parse_json, " \n", "f: the file is empty"),
        (parse_yaml, "a: 1\nb:\n  c: 1\n  c: 2", "not valid YAML: the key 'c' is there twice"),
        (parse_yaml, "!!map foo", "not valid YAML: expected a mapping node"),
        (parse_csv, "", "f: no rows"),
        (parse_csv, "a,b\n# remark\n", "f: no rows"),
        (parse_csv, "a,b,a\n1,2,3", "f:1: column a twice"),
        (parse_csv, "a;b\n1;2", "f:1: columns are separated by ';'; take commas"),
        (parse_csv, "a,b\n\n1\n", "f:3: 1 values; 2 columns"),
        (parse_csv, 'a,b\n1,"2\n', "f:2: not a line of CSV: unexpected end of data"),
        (parse_csv, "a\n" + "1\n" * 1001, "f: 1001 rows; at most 1000 are read"),
    ],
)
def test_what_cannot_be_parsed(parse: Any, text: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(text, "f", SpecError)
    assert said in str(caught.value)


def test_rows_of_a_table_have_their_lines() -> None:
    class Row(Table):
        name: Text
        note: Text = ""

    text = '# of the table\nname, note\n\n a ,"x, y"\n# no row\nb,\n'
    rows = parse_csv(text, "t.csv", SpecError)
    assert rows == [
        ("t.csv:4", {"name": "a", "note": "x, y"}),
        ("t.csv:6", {"name": "b", "note": ""}),
    ]
    assert [row.note for row in checked_rows(Row, rows, SpecError)] == ["x, y", ""]
    with pytest.raises(SpecError, match=r"^t:2: nam: unknown key; did you mean name\?$") as caught:
        checked_rows(Row, [("t:2", {"name": "a", "nam": "b"})], SpecError)
    assert len(str(caught.value).splitlines()) == 1


def test_dots_of_texts_and_numbers_are_no_depth() -> None:
    text = f'a = "{"a." * 300}"\nb = [{"0.5, " * 300}]\nc = """\n{"." * 300}"""\n# {"a." * 300}'
    found = parse_toml(text, "f", SpecError)
    assert [len(found["a"]), len(found["b"])] == [600, 300]


def test_a_pipe_by_name_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "spec.toml"
    os.mkfifo(pipe)
    with pytest.raises(SpecError, match="a pipe, which may wait forever"):
        read_text(pipe, SpecError)
    end, start = os.pipe()  # as the shell has it for <(command)
    os.write(start, b"a text")
    os.close(start)
    assert read_text(f"/proc/self/fd/{end}", SpecError) == "a text"
    os.close(end)
