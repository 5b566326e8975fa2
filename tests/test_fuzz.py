"""Damaged files of every kind: each command gives a result or one message (``tests/fuzz.py``)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import fuzz
from tests.fuzz import KINDS, fault, faults, good


def test_undamaged_files_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len({kind for kind, _ in KINDS.values()}) >= 11
    for name, content in good().items():
        Path(name).write_bytes(content)
        assert [read(name) for read in KINDS[name][1]] == [0] * len(KINDS[name][1])


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (lambda path: {}[path], "KeyError"),
        (lambda path: 3, "exit code 3"),
        (lambda path: 2, "without a message"),
        (lambda path: sum(len(path) for _ in range(10**9)), "more than 0.5 s"),
    ],
)
def test_faults_are_found(
    does: Callable[[str], int], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "MOST_S", 0.5)
    monkeypatch.setitem(KINDS, "rows.csv", ("rows", [does]))
    assert said in str(fault("rows.csv", 1, 1))


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_end_in_a_result_or_one_message(name: str) -> None:
    assert list(faults(8, names=[name])) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_many_damaged_files(name: str) -> None:
    assert list(faults(20_000 // len(KINDS) + 1, seed=1, names=[name])) == []
