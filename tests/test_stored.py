"""Tables of stored lines: written, compared, and chosen by words."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stored import Table, differing

SPEED = {"ant": "slow", "bee": "fast"}


def animals() -> Iterator[str]:
    yield from ("ant", "bee", "cat")


def with_wings(animal: str) -> bool:
    return animal == "bee"


def speed(animal: str) -> str:
    return SPEED.get(animal, f"as {animal}s are")


def table(path: Path) -> Table[str]:
    return Table(path, "Speeds.", animals, with_wings, speed)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_is_written_is_what_is_compared(tmp_path: Path, jobs: str) -> None:
    one = table(tmp_path / "lines.txt")
    assert one.stored() == {}
    assert one.main(["--jobs", jobs]) == 1
    assert one.main(["--write", "--jobs", jobs]) == 0
    assert one.path.read_text() == "ant: slow\nbee: fast\ncat: as cats are\n"
    assert one.main(["--jobs", jobs]) == 0


def test_only_chosen_cases_are_written_or_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = table(tmp_path / "lines.txt")
    one.main(["--write", "--case", "a t"])  # the words may stand anywhere in a name
    assert list(one.stored()) == ["ant", "cat"]
    one.main(["--write", "--quick"])
    assert list(one.stored()) == ["ant", "bee", "cat"]
    monkeypatch.setitem(SPEED, "ant", "slower")
    assert one.main(["--quick"]) == 0
    assert one.main(["--case", "an"]) == 1
    assert list(one.compare(["ant", "bee"])) == ["ant\n  stored slow\n  now    slower"]
    one.main(["--write", "--case", "bee"])
    assert one.stored()["ant"] == "slow"


def test_lines_of_what_is_no_case_any_more_are_left_out(tmp_path: Path) -> None:
    one = table(tmp_path / "lines.txt")
    one.path.write_text("dodo: gone\ncat: asleep\n")
    one.main(["--write", "--case", "ant"])
    assert one.stored() == {"ant": "slow", "cat": "asleep"}


def test_another_file_may_be_asked_for(tmp_path: Path) -> None:
    one = table(tmp_path / "lines.txt")
    other = tmp_path / "other.txt"
    assert one.main(["--write", "--file", str(other)]) == 0
    assert not one.path.exists()
    assert one.main(["--file", str(other)]) == 0


def test_a_case_without_a_line_differs() -> None:
    assert differing(None, "fast")
    assert not differing("fast", "fast")
