"""Mistakes are said of what was typed, with what would be right."""

from pathlib import Path

import pytest

from experiments.cli import main
from experiments.collective import parse_bytes

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


LONG = "9" * 5000
"""More digits than Python makes a number of."""


@pytest.mark.parametrize("batch", ["-5", "0", "9" * 30])
@pytest.mark.parametrize(
    "command",
    [
        ["fit", "gpt2:layers=2"],
        ["fit", "gpt2:layers=2", "--axes", "pp"],
        ["simulate", "gpt2:layers=2", "--parallel", "dp=8"],
        ["simulate", "lenet", "--planner", "accpar"],
    ],
)
def test_batches_that_no_step_has(
    batch: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--array", "dgx-h100", "--batch", batch]) == 2
    said = f"accelarray: error: batch {batch} is out of range; it must be within 1...16777216\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    "words",
    [
        ["simulate", "lenet", "--planner", "accpar", "--set", f"devices.0.count={LONG}"],
        ["simulate", "lenet", "--planner", "accpar", "--array", "big.toml"],
        [*SWEEP, f"devices.0.count=1,{LONG}"],
        [*SWEEP, f"devices.0.count=1:{LONG}:lin:3"],
        [*SWEEP, f"batch={LONG}"],
        [*SWEEP, f"micro_batches={LONG}"],
    ],
)
def test_numbers_of_more_digits_than_python_reads(
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    entry = f'[[devices]]\ndevice = "tpu-v3"\ncount = {LONG}\n'
    (tmp_path / "big.toml").write_text(f'kind = "array"\n{entry}')
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err.startswith("accelarray: error: ")
    assert "set_int_max_str_digits" not in err


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
