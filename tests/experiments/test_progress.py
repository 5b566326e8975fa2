"""Progress off a terminal: a line every few seconds that says what is done and what is left."""

import re
import time
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.output import progress_bar
from experiments.progress import Count, expecting, working


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What ``time.monotonic`` says."""
    now = [0.0]
    monkeypatch.setattr("experiments.progress.time.monotonic", lambda: now[0])
    return now


def test_the_rate_so_far_says_what_is_left(clock: list[float]) -> None:
    count, left = Count(4), [Count(None).left_s]
    for clock[0], label in ((10.0, "one"), (60.0, "two"), (70.0, "three"), (100.0, "four")):
        left.append(count.left_s)
        count(label)
        left.append(count.left_s)
    # the second took longer: it learns
    assert left == [None, None, 30.0, 180.0, 60.0, 70.0, 70.0 / 3, 100.0 / 3, 0.0]


def test_cases_that_come_in_addition_count(clock: list[float]) -> None:
    count = Count(1)
    for clock[0], label in ((10.0, "one"), (20.0, "two")):
        count(label)
    assert str(count) == "2 of 2 done after 20 s; at two"


def test_unlike_cases_are_weighed_by_their_estimates(clock: list[float]) -> None:
    count = Count(4)
    clock[0] = 5.0
    count("before")
    expecting(count, {"long": 8.0, "short": 1.0, "shorter": 1.0})
    assert count.left_s is None
    clock[0] = 17.0
    count("long")
    assert count.left_s == 3.0
    assert str(count) == "2 of 4 done after 17 s, about 3 s left; at long"
    expecting(print, {"one of one's own": 1.0})


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
