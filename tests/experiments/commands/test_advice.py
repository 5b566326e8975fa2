"""Messages that say what to do: names, units, files, schedules and planners of one's own."""

from pathlib import Path

import pytest

from experiments.cli import main
from hardware import parse_quantity

GPT2 = ("simulate", "gpt2", "--batch", "64", "--array", "h100-cluster")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("show", "h100"), "did you mean h100-sxm, h100-pcie, "),
        (("simulate", "llama3", "--planner", "owt"), "llama3-8b"),
        (("simulate", "absent.onnx", "--planner", "owt"), "absent.onnx: cannot be read: No such"),
        (
            (*GPT2, "--parallel", "pp=4", "--micro-batch", "1", "--schedule", "interleaved"),
            "take --parallel pp=4,vp=2",
        ),
    ],
)
def test_mistakes_name_their_remedy(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], said: str
) -> None:
    assert main(args) == 2
    assert said in capsys.readouterr().err


def test_interleaved_with_two_stages_a_place_runs(capsys: pytest.CaptureFixture[str]) -> None:
    axes = ("--parallel", "pp=4,vp=2", "--micro-batch", "1", "--schedule", "interleaved")
    assert main((*GPT2, *axes)) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("400 Gbps", "B/s", 50e9),
        ("400 Gb/s", "B/s", 50e9),
        ("50 GBps", "B/s", 50e9),
        ("312 TFLOPS", "FLOP/s", 312e12),
    ],
)
def test_common_spellings_of_units(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == value


def test_a_planner_that_raises_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "def raises(network, array, batch, objective):\n    return {}['absent']\n"
    (tmp_path / "my_raising_planner.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "lenet", "--planner", "my_raising_planner:raises"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "planner 'raises' failed: KeyError: 'absent'" in line
    assert "my_raising_planner.py, line 2: return {}['absent']" in line
