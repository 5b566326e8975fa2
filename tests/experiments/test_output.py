"""Where results go: whole files or none, one message when that fails."""

import io
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from experiments.notices import tell, warnings_on_stderr
from experiments.output import (
    UsageError,
    check_writable,
    deliver,
    fitted,
    progress_bar,
    table_of,
    text_of,
    to_json,
    whole_file,
)

PLAIN = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)


@given(st.recursive(PLAIN, lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_json_gives_back_what_is_finite(data: Any) -> None:
    def finite(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: finite(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [finite(inner) for inner in value]
        return None if value in (math.inf, -math.inf) else value

    assert json.loads(to_json(data)) == finite(data)


def test_numbers_that_are_none_are_null() -> None:
    data = {"a": math.nan, "b": [math.inf, -math.inf, 1.5], "c": (1, {"d": math.nan})}
    assert json.loads(to_json(data)) == {"a": None, "b": [None, None, 1.5], "c": [1, {"d": None}]}
    assert to_json({"a": 1}) == '{\n  "a": 1\n}\n'


def test_tables_fold_what_is_too_long_and_take_text_as_it_is() -> None:
    table = Table(title="t")
    table.add_column("x" * 300)
    table.add_row("[bold]:smile:[/bold]")
    text = text_of(table, "under it")
    assert text.count("x") == 300
    assert "[bold]:smile:[/bold]" in text
    assert text.endswith("under it\n")
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_rows_as_a_table() -> None:
    text = text_of(
        *fitted("title", [{"name": "a", "count": 1234567}, {"name": "long name", "count": 2}])
    )
    assert text.startswith("title")
    assert "│ a         │ 1,234,567 │" in text
    assert "│ long name │         2 │" in text


def test_deliver_prints_or_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deliver("shown\n", None)
    assert capsys.readouterr().out == "shown\n"
    target = tmp_path / "out.txt"
    deliver("kept\n", str(target))
    assert capsys.readouterr().out == ""
    assert target.read_text() == "kept\n"


def test_without_a_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(UsageError, match="there is no standard output; use --output FILE"):
        deliver("lost", None)


def test_a_standard_output_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, _: str, /) -> int:
            raise OSError(28, "No space left on device")

    class Closed(io.StringIO):
        def write(self, _: str, /) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(UsageError, match="cannot be written: No space left on device"):
        deliver("lost", None)
    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):  # the command line ends quietly
        deliver("lost", None)


def test_a_file_is_there_whole_or_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("before")

    def write_half() -> None:
        with whole_file(str(target)) as path:
            path.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]
    with whole_file(str(target)) as path:
        assert path.parent == tmp_path  # one rename away, on the same disk
        assert path.suffix == ".txt"
        path.write_text("whole")
    assert target.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_can_be_tried_without_being_touched(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("before")
    check_writable(None, str(old), str(new))
    assert old.read_text() == "before"
    assert not new.exists()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no/such/folder", "No such file or directory"),
        ("", "it is a folder"),
        ("x" * 300, "File name too long"),
        ("a\0b", "embedded null byte"),
    ],
)
def test_files_that_cannot_be_written(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"cannot be written: .*{why}"):
        check_writable(str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_files_that_may_not_be_written(tmp_path: Path) -> None:
    target = tmp_path / "theirs"
    target.touch(mode=0o444)
    with pytest.raises(UsageError, match="permission denied"):
        check_writable(str(target))


def test_what_a_link_points_to_is_replaced(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("before")
    link.symlink_to(real)
    deliver("after", str(link))
    assert link.is_symlink()
    assert real.read_text() == "after"


def test_a_device_is_written_to_and_not_replaced() -> None:
    deliver("nothing", "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_a_pipe_behind_a_link_is_written_to(tmp_path: Path) -> None:
    read, write = os.pipe()
    (tmp_path / "stdout").symlink_to(f"/proc/self/fd/{write}")
    deliver("through", str(tmp_path / "stdout"))
    assert os.read(read, 10) == b"through"
    os.close(read)
    os.close(write)


def test_warnings_go_to_stderr_if_there_is_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings_on_stderr():
        tell("look")
    assert capsys.readouterr().err == "accelarray: warning: look\n"
    monkeypatch.setattr(sys, "stderr", None)
    with warnings_on_stderr():
        tell("nobody hears")


def test_no_bar_where_nobody_sees_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress_bar(3) as done:
        done("one")
    monkeypatch.setattr(sys, "stderr", None)
    with progress_bar(None) as done:
        done("one")
    assert capsys.readouterr().out == ""


def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


@pytest.mark.parametrize("total", [2, None])
def test_a_bar_on_a_terminal_counts(total: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    with progress_bar(total) as done:
        done("lenet owt")
        done("lenet accpar")
    shown = screen.getvalue()
    assert "lenet accpar" in shown
    assert ("2/2" if total else "2/?") in shown


def test_a_bar_estimates_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case each 100 s, 4 of 10 done: 600 s are left, however long ago the first was."""
    now = 0.0
    monkeypatch.setattr("experiments.output.time.monotonic", lambda: now)
    screen = terminal(monkeypatch)
    with progress_bar(10) as done:
        for _ in range(4):
            now += 100.0
            done("lenet")
    last = screen.getvalue().rpartition("4/10")[2]
    assert "0:06:40" in last
    assert "about 600 s left" in last
    assert "left" in last


@pytest.mark.parametrize("columns", [80, 200])
def test_long_keys_are_broken_at_their_dots(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    key = "devices.0.arithmetic.activations"
    heads = ("key", "value", "topology.levels.1.oversubscription")
    rows = [(key, "a value of its own", "8"), ("a.b", "a sentence of many words " * 3, "9")]
    said = text_of(table_of("", heads, heads, rows))
    assert (key in said) == (columns == 200)
    assert ("topology.levels.1.oversubscription" in said) == (columns == 200)
    lines = said.splitlines()
    assert max(map(len, lines)) <= columns
    if columns == 80:
        (first,) = (i for i, line in enumerate(lines) if "devices.0.arithmetic. " in line)
        assert lines[first + 1].startswith("│ activations ")
        assert "┃ oversubscription ┃" in said
