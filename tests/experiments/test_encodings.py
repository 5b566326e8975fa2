"""Output on terminals of any encoding."""

import codecs
import csv
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.cli import main
from experiments.encodings import HANDLER, PLAIN, legible, write_anywhere
from tests.workloads.onnx_models import save
from workloads import Builder
from workloads.exporters.onnx_model import to_onnx


@pytest.mark.parametrize(
    ("encoding", "command"),
    [
        ("ascii", ["list", "planners"]),
        ("latin-1", ["list", "planners"]),
        ("utf-8", ["list", "planners"]),
        ("ascii", ["--help"]),
        ("cp1252", ["show", "tpu-v3"]),
        ("ascii", ["show", "no-such-thing"]),
    ],
)
def test_no_encoding_is_too_small(encoding: str, command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "experiments.cli", *command],
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    text = (done.stdout + done.stderr).decode(encoding)
    assert "Traceback" not in text
    assert done.returncode == (2 if command[-1] == "no-such-thing" else 0)
    if command[0] == "list":
        assert "accpar" in text
        assert ("┃" if encoding == "utf-8" else "+---") in text


def test_what_stands_for_a_character_can_be_written_anywhere() -> None:
    write_anywhere()
    assert "".join(PLAIN.values()).isascii()
    assert "│ 1 \u00d7 2 … ☃".encode("ascii", HANDLER) == b"| 1 x 2 ... ?"
    with pytest.raises(UnicodeDecodeError):
        codecs.decode(b"\xff", "ascii", HANDLER)


EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202e"
"""A terminal's title, a colour, a cleared screen, text from right to left."""


@given(st.text())
def test_no_control_character_is_left_but_line_ends_and_tabs(text: str) -> None:
    shown = legible(text)
    left = {c for c in shown if unicodedata.category(c) == "Cc"} - set("\n\t\r")
    assert not left
    assert "\r" not in shown.replace("\r\n", "")
    assert legible(shown) == shown
    if text.isprintable():
        assert shown == text


def evil_layers(folder: Path) -> Path:
    file = folder / "layers.txt"
    file.write_text(f"num_layers 2\na{EVIL} FC\nin_ch 8\nout_ch 8\nb FC\nin_ch 8\nout_ch 4\n")
    return file


def evil_onnx(folder: Path) -> Path:
    net = Builder("net", 8, 1)
    net.linear(f"a{EVIL}", 8)
    net.linear("b", 4)
    return Path(save(folder, to_onnx(net.build())))


def evil_array(folder: Path) -> Path:
    file = folder / "array.toml"
    said = EVIL.encode("unicode_escape").decode().replace("\\x", "\\u00")
    file.write_text(
        f'kind = "array"\nextends = "accpar-homogeneous"\ndescription = "{said}"\n'
        f'[sources]\ndescription = "{said}"\n'
    )
    return file


COMMANDS = {
    "show": ["show", "NETWORK"],
    "onnx": ["show", "ONNX"],
    "plan": ["plan", "NETWORK", "--planner", "owt"],
    "json": ["plan", "NETWORK", "--planner", "owt", "--format", "json"],
    "simulate": ["simulate", "NETWORK", "--planner", "owt", "--array", "ARRAY"],
    "explain": ["explain", "NETWORK", "--planner", "owt", "--array", "ARRAY"],
    "compare": ["compare", "NETWORK", "--planners", "owt,accpar"],
    "timeline": ["timeline", "NETWORK", "--planner", "owt", "--output", "OUTPUT.csv"],
    "trace": ["timeline", "NETWORK", "--planner", "owt", "--output", "OUTPUT.json"],
    "a plan": ["simulate", "lenet", "--plan", "PLAN"],
    "sweep": ["sweep", "--networks", "NETWORK", "--vary", "batch=8", "--output", "OUTPUT.csv"],
    "array": ["show", "ARRAY"],
    "error": ["show", f"no{EVIL}"],
    "key": ["show", "tpu-v3", "--set", f"x{EVIL}=1"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_names_of_strangers_do_not_reach_the_terminal(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(f'{{"planner": "{EVIL}", "network": "\\u001b[31m", "levels": []}}')
    files = {
        "PLAN": str(plan),
        "NETWORK": str(evil_layers(tmp_path)),
        "ONNX": str(evil_onnx(tmp_path)),
        "ARRAY": str(evil_array(tmp_path)),
    }
    out = tmp_path / "out"
    code = main([files.get(word, word.replace("OUTPUT", str(out))) for word in command])
    captured = capsys.readouterr()
    written = [file.read_text() for file in tmp_path.glob("out.*")]
    assert code == (2 if EVIL in "".join(command) or "PLAN" in command else 0), captured.err
    for text in (captured.out, captured.err, *written):
        assert not set(EVIL[:1] + "\x07\x9b\u202e") & set(text)


def test_a_csv_keeps_its_line_ends() -> None:
    assert legible("a,b\r\n1,2\n") == "a,b\r\n1,2\n"
    assert next(csv.reader([legible("a\rb,c\td")])) == [r"a\rb", "c\td"]
