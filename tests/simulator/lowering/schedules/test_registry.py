"""Schedules of other packages, found by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hardware import Array, Group
from planners import PlanError, Staging, planned_in_stages
from planners.pipeline.staging import places_of
from simulator import simulate
from simulator.lowering.schedules.registry import ENTRY_POINTS, SCHEDULES, identity, schedule_of
from tests.simulator.lowering.test_bubbles import FAST, chain

THEIRS = """
from simulator.lowering.schedules.schedule import BACKWARD, FORWARD, Pass, Schedule

def one_at_a_time(rank):
    for number in range(rank.micro_batches):
        yield Pass(FORWARD, number)
        yield Pass(BACKWARD, number)

def half(rank):
    yield Pass(FORWARD, 0)

naive = Schedule("naive", one_at_a_time, "no two micro-batches at once")
lazy = Schedule("lazy", half, "not all of them")
nothing = "no schedule"
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with entry points, and its module."""
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    names = ["naive", "lazy", "nothing"]
    lines = [f"{name} = their_schedules:{name}" for name in names]
    lines.append("gpipe = their_schedules:naive")
    (info / "entry_points.txt").write_text("\n".join([f"[{ENTRY_POINTS}]", *lines]) + "\n")
    (tmp_path / "their_schedules.py").write_text(THEIRS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_schedules", raising=False)


def seconds(schedule: str, p: int, m: int) -> float:
    network, array = chain(p), Array("fast", "", Group(((FAST, p),)))
    staging, places = Staging(p, m, schedule), places_of(array, p)
    plan = planned_in_stages("data_parallel", network, array, 8 * m, staging, range(p), places)
    return simulate(network, plan, array).iteration_s


def test_another_packages_schedule_runs() -> None:
    """One micro-batch at a time takes as long as all stages one after the other, m times."""
    f = b = 8 * 64 * 127e-9
    w = 64 * 64 * 15e-9
    assert seconds("naive", 3, 4) == pytest.approx(4 * 3 * (f + b + w), rel=1e-6)
    assert seconds("1f1b", 3, 4) == pytest.approx((4 + 2) * (f + b + w), rel=1e-6)


def test_a_built_in_name_cannot_be_taken() -> None:
    assert schedule_of("gpipe") is SCHEDULES["gpipe"]


def test_what_is_no_schedule_is_said() -> None:
    with pytest.raises(
        PlanError, match=r"'nothing': their_schedules:nothing is str, and no .*\.Schedule"
    ):
        schedule_of("nothing")
    with pytest.raises(PlanError, match="does not take each of its 4 micro-batches once"):
        seconds("lazy", 2, 4)
    with pytest.raises(PlanError, match="unknown schedule 'naiv"):
        schedule_of("naiv")


STRANGE = """
from simulator.lowering.schedules.schedule import BACKWARD, ERRORS, FORWARD, WEIGHTS, Pass, Schedule

def raises(rank):
    yield Pass(FORWARD, 0)
    raise KeyError("mine")

def endless(rank):
    while True:
        yield Pass(FORWARD, 0)

def early(rank):
    for number in range(rank.micro_batches):
        yield Pass(FORWARD, number)
        yield Pass(WEIGHTS, number)
    for number in range(rank.micro_batches):
        yield Pass(ERRORS, number)

def fails(replicas, virtual, micro_batches):
    raise SystemExit(0)

def good(rank):
    return [Pass(p, n) for p in (FORWARD, BACKWARD) for n in range(rank.micro_batches)]

strange = {
    "raises": Schedule("raises", raises, ""),
    "tuples": Schedule("tuples", lambda rank: iter([(1, 2)]), ""),
    "nothing": Schedule("nothing", lambda rank: None, ""),
    "endless": Schedule("endless", endless, ""),
    "early": Schedule("early", early, ""),
    "fails": Schedule("fails", good, "", check=fails),
}
globals().update(strange)
fine = Schedule("fine", good, "")
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "schedule 'raises' failed: KeyError: 'mine'"),
        ("tuples", "schedule 'tuples' failed: TypeError: .* is no pass"),
        ("nothing", "schedule 'nothing' failed: TypeError"),
        ("endless", "does not take each of its 4 micro-batches once"),
        ("early", "rank 0: micro-batch 0 has weights before backward"),
        ("fails", "schedule 'fails' failed: SystemExit"),
        ("missing", "cannot be loaded: AttributeError"),
    ],
)
def test_of_a_file_and_what_goes_wrong_in_it(name: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "strange.py"
    file.write_text(STRANGE)
    with pytest.raises(PlanError, match=said):
        seconds(f"{file}:{name}", 2, 4)
    assert seconds(f"{file}:fine", 2, 4) == seconds("gpipe", 2, 4)


def test_what_a_schedule_does_is_its_identity(tmp_path: Path) -> None:
    keys = []
    for i, number in enumerate(("number", "rank.micro_batches - 1 - number")):
        file = tmp_path / f"own{i}.py"
        file.write_text(THEIRS.replace("Pass(FORWARD, number)", f"Pass(FORWARD, {number})", 1))
        file.write_text(
            file.read_text().replace("Pass(BACKWARD, number)", f"Pass(BACKWARD, {number})")
        )
        keys.append(identity(f"{file}:naive", 2, 1, 4))
    assert keys[0] != keys[1]
    assert keys[0] == identity("naive", 2, 1, 4)
    assert identity("1f1b", 2, 1, 4) == "1f1b"
