"""Progress off a terminal: a line every few seconds that says what is done and what is left."""

import re
import time
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.output import progress_bar
from experiments.progress import Count, working


def test_the_rate_so_far_says_what_is_left() -> None:
    count = Count(4)
    assert count.left_s(30.0) is None
    count("one")
    assert count.left_s(10.0) == 30.0
    count("two")
    assert count.left_s(60.0) == 60.0  # the second took longer: it learns
    count("three")
    count("four")
    assert count.left_s(100.0) == 0.0
    assert Count(None).left_s(5.0) is None


def test_lines_come_before_anything_is_finished(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.progress.EVERY_S", 0.02)
    with progress_bar(14) as progress:
        time.sleep(0.1)
        working(progress, "dp=8, micro-batch 2")
        time.sleep(0.1)
        progress("dp=8")
        time.sleep(0.1)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "accelarray: 0 of 14 done after 0 s; at the first case"
    assert "accelarray: 0 of 14 done after 0 s; at dp=8, micro-batch 2" in said
    assert re.fullmatch(r"accelarray: 1 of 14 done after 0 s, about \d+ s left; at dp=8", said[-1])
    time.sleep(0.1)
    assert capsys.readouterr().err == ""  # none when it is over


@pytest.mark.parametrize(("command", "said"), [("simulate", "of 2"), ("plan", "0 of 1")])
def test_a_long_command_says_that_it_works(
    command: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its planner takes 0.2 s, however fast the machine is."""
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.setattr("experiments.progress.EVERY_S", 0.02)
    planner = f"{tmp_path / 'slow.py'}:slow"
    assert main([command, "resnet50", "--planner", planner, "--array", "tpu-v3-8"]) == 0
    assert f"{said} done after 0 s" in capsys.readouterr().err


SLOW = """
import time
from planners import load_planner

def slow(*asked):
    time.sleep(0.2)
    return load_planner("owt")(*asked)
"""
