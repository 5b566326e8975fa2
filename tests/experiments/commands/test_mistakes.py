"""Mistakes are said of what was typed, with what would be right."""

import pytest

from experiments.cli import main
from experiments.face.collective import parse_bytes

SWEEP = ["sweep", "--networks", "lenet", "--array", "tpu-v3-8", "--vary"]


@pytest.mark.parametrize(
    ("vary", "words"),
    [
        ("network.bandwith=1,2", "--vary network.bandwith=1: "),
        ("devices.0.count=x,2", "--vary devices.0.count=x: devices.0.count: 'x'"),
        ("bucket=2.5", "--vary bucket=2.5: "),
        ("overlap=maybe", "--vary overlap=maybe: one of full, none"),
        ("array=tpu-v9", "--vary array=tpu-v9: unknown array 'tpu-v9'"),
    ],
)
def test_a_bad_vary_blames_vary(vary: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SWEEP, vary]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "--set" not in err


@pytest.mark.parametrize(
    ("typed", "meant"), [("simulat", "simulate"), ("sped", "speedup"), ("lst", "list")]
)
def test_a_mistyped_command_is_met_with_a_suggestion(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([typed]) == 2
    assert f"unknown command {typed!r}; did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["1e8", "100000000", "1.0e8", "1E+8", "100 MB"])
def test_numbers_of_bytes(text: str) -> None:
    assert parse_bytes(text) == 1e8
