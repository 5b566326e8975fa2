"""Flat settings: what a file says, what extends it, what the command line changes."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import COMMAND_LINE, SpecError, load_array, spec_kind
from hardware.spec import (
    Entry,
    Settings,
    beneath,
    command_line,
    flatten,
    load_settings,
    merge,
    unflatten,
)

KEYS = st.sampled_from("abcdef")
VALUES = st.one_of(st.integers(), st.booleans(), st.sampled_from(["x", "8 Gbit/s"]))
TABLES = st.recursive(
    st.dictionaries(KEYS, VALUES, min_size=1, max_size=3),
    lambda inner: st.dictionaries(KEYS, st.one_of(VALUES, inner), min_size=1, max_size=3),
    max_leaves=8,
)


def plain(settings: Settings) -> dict[str, Any]:
    return {key: entry.value for key, entry in settings.items()}


@given(TABLES)
def test_flattened_tables_come_back(table: dict[str, Any]) -> None:
    assert unflatten(flatten(table, "f")) == table


def test_entries_of_a_list_are_numbered_and_a_shape_is_one_value() -> None:
    data = {"devices": [{"count": 2}, {"count": 3}], "topology": {"shape": [4, 2]}, "empty": {}}
    assert plain(flatten(data, "f")) == {
        "devices.0.count": 2,
        "devices.1.count": 3,
        "topology.shape": [4, 2],
        "empty": {},
    }


def test_a_source_is_the_files_word_or_the_file() -> None:
    data = {"a": {"b": 1, "c": 2}, "sources": {"a.b": "a paper"}}
    flat = flatten(data, "my.toml", Path("here"))
    assert flat["a.b"] == Entry(1, "my.toml", "a paper", Path("here"))
    assert flat["a.c"].source == "set in my.toml"


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ({"a.x": "?", "z": "?"}, "my.toml: sources: no such keys in this file: a.x, z; "),
        ({"a": 3}, 'my.toml: sources: must be a table of "key.path" = "text"'),
        ("paper", "must be a table"),
    ],
)
def test_sources_of_nothing_are_refused(sources: Any, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        flatten({"a": {"b": 1}, "sources": sources}, "my.toml")
    assert words in str(caught.value)


def test_a_file_of_absurdly_many_settings_is_refused() -> None:
    with pytest.raises(SpecError, match="f: 10001 settings; at most 10000 make sense"):
        flatten({f"k{i}": i for i in range(10_001)}, "f")


@given(TABLES, TABLES)
def test_a_change_wins_and_what_it_leaves_alone_stays(
    base: dict[str, Any], change: dict[str, Any]
) -> None:
    one, two = flatten(base, "base"), flatten(change, "change")
    merged = merge(one, two)
    assert merged.keys() == one.keys() | two.keys()
    for key, entry in merged.items():
        assert entry is (two[key] if key in two else one[key])


def test_a_list_written_anew_replaces_the_whole_old_one() -> None:
    base = flatten({"devices": [{"count": 1, "x": 1}, {"count": 2}], "name": "n"}, "base")
    change = flatten({"devices": [{"count": 9}]}, "change")
    assert plain(merge(base, change)) == {"devices.0.count": 9, "name": "n"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a.b=3", {"a.b": 3}),
        ("a.b= 3 ", {"a.b": 3}),
        ("a=true", {"a": True}),
        ("a=[4, 2]", {"a.0": 4, "a.1": 2}),
        ("a.shape=[4, 2]", {"a.shape": [4, 2]}),
        ('a="8 Gbit/s"', {"a": "8 Gbit/s"}),
        ("a=8 Gbit/s", {"a": "8 Gbit/s"}),
        ("a=x=y", {"a": "x=y"}),
        ("a={b=1, c={d=2}}", {"a.b": 1, "a.c.d": 2}),
        ("a=1\nb=2", {"a": "1\nb=2"}),
        ("a=", {"a": ""}),
    ],
)
def test_what_an_assignment_says(text: str, wanted: dict[str, Any]) -> None:
    settings = command_line([text])
    assert plain(settings) == wanted
    assert {entry.source for entry in settings.values()} == {COMMAND_LINE}
    assert {entry.origin for entry in settings.values()} == {f"--set {text}"}


def test_the_last_assignment_wins() -> None:
    assert plain(command_line(["a=1", "b=2", "a=3"])) == {"a": 3, "b": 2}


@pytest.mark.parametrize("text", ["", "a", " =3", "=", "a.b"])
def test_what_is_no_assignment(text: str) -> None:
    with pytest.raises(SpecError, match=r"expected KEY=VALUE, as devices\.0\.count=64"):
        command_line([text])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"a": 1, "a.b": 2}, "o: a.b: 'a' is a value, not a table"),
        ({"a.b": 2, "a": 1}, "o: a: is a table, not a value"),
    ],
)
def test_a_key_is_a_value_or_a_table(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        unflatten({key: Entry(value, "o", "s") for key, value in settings.items()})


def test_settings_beneath_a_key() -> None:
    settings = flatten({"a": {"b": 1, "bc": 2}, "ab": 3}, "f")
    assert plain(beneath(settings, "a.")) == {"b": 1, "bc": 2}


def test_the_kind_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('kind = "device"\n')
    assert spec_kind(str(path)) == "device"
    assert spec_kind("no-such-thing") is None
    path.write_text("x = 1\n")
    assert spec_kind(str(path)) == "None"


def test_a_chain_of_files_may_be_so_long_and_no_longer(tmp_path: Path) -> None:
    for i in range(9):
        extends = f'extends = "f{i + 1}.toml"\n' if i < 8 else ""
        (tmp_path / f"f{i}.toml").write_text(f'kind = "device"\n{extends}v{i} = {i}\n')
    label, file, settings = load_settings(str(tmp_path / "f1.toml"), "device")[:3]
    assert (label, Path(file).name) == ("f1", "f1.toml")
    assert plain(settings) == {f"v{i}": i for i in range(1, 9)}
    with pytest.raises(SpecError, match="goes round or deeper than 8"):
        load_settings(str(tmp_path / "f0.toml"), "device")


def test_the_nearest_file_wins_along_a_chain(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('kind = "device"\na = 1\nb = 1\nc = 1\n')
    (tmp_path / "middle.toml").write_text('kind = "device"\nextends = "base.toml"\nb = 2\nc = 2\n')
    (tmp_path / "top.toml").write_text('kind = "device"\nextends = "middle.toml"\nc = 3\n')
    _, _, settings = load_settings(str(tmp_path / "top.toml"), "device")[:3]
    assert plain(settings) == {"a": 1, "b": 2, "c": 3}
    assert [Path(settings[key].origin).stem for key in "abc"] == ["base", "middle", "top"]


def test_paths_are_looked_up_next_to_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "base.toml").write_text('kind = "device"\na = "inner"\n')
    (tmp_path / "base.toml").write_text('kind = "device"\na = "outer"\n')
    (tmp_path / "inner" / "top.toml").write_text('kind = "device"\nextends = "base.toml"\n')
    _, _, settings = load_settings(str(tmp_path / "inner" / "top.toml"), "device")[:3]
    assert settings["a"].value == "inner"
    assert settings["a"].folder == tmp_path / "inner"


def test_a_peak_that_peaks_by_format_go_before_is_refused(tmp_path: Path) -> None:
    """Of what is extended; with peaks by format of its own a file has said both."""
    file = tmp_path / "fast.toml"
    plain = 'kind = "device"\nextends = "h100-sxm"\nchip.peak = "2000 TFLOP/s"\n'
    file.write_text(plain)
    with pytest.raises(SpecError, match=r"fast.toml: chip.peak: .*write chip.peak_by_format.bf16"):
        load_settings(str(file), "device")
    file.write_text(plain + 'chip.peak_by_format.bf16 = "2000 TFLOP/s"\n')
    assert load_settings(str(file), "device").settings["chip.peak"].value == "2000 TFLOP/s"


def test_a_peak_beside_units_is_refused(tmp_path: Path) -> None:
    """The units give it; what is extended may have had one."""
    file = tmp_path / "fast.toml"
    file.write_text('kind = "device"\nextends = "tpu-v3-units"\nchip.peak = "400 TFLOP/s"\n')
    with pytest.raises(SpecError, match=r"fast.toml: chip.peak: \[units\] give the peak"):
        load_settings(str(file), "device")
    assert "chip.peak" in load_settings("tpu-v3-units", "device").settings


def test_what_an_array_says_of_every_board_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "slow.toml"
    boards = (
        '[[devices]]\ndevice = "tpu-v3"\ncount = 0\n[[devices]]\ndevice = "tpu-v2"\ncount = 1\n'
    )
    file.write_text(f'kind = "array"\n[network]\nbandwidth = "5 GB"\n{boards}')
    with pytest.raises(SpecError) as caught:
        load_array(str(file))
    said = str(caught.value).splitlines()
    assert [line.split(": ")[1] for line in said] == ["devices.0.count", "network.bandwidth"]
