"""The search finds steps as short as those that are stored."""

import pytest

from tests.simulator.search import found

CASES = list(found.cases())
QUICK = [case for case in CASES if found.quick(case)]


def test_every_case_is_stored_once() -> None:
    names = [str(case) for case in CASES]
    assert len(set(names)) == len(names)
    assert list(found.TABLE.stored()) == names


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_a_step_is_as_stored(case: found.Case) -> None:
    stored = found.TABLE.stored().get(str(case))
    assert found.differs(stored, found.measured(case)) == ""


@pytest.mark.slow
def test_all_steps_are_as_stored() -> None:
    """A few minutes."""
    assert not list(found.TABLE.compare(CASES))


def test_a_longer_step_is_a_loss_and_a_shorter_one_wants_to_be_stored() -> None:
    """By more than a billionth, which rounding may be."""
    assert not found.differs("5000000000 ps", "5000000004 ps")
    assert "LOST" in found.differs("5000000000 ps", "5000000006 ps")
    assert "--write" not in found.differs("5000000000 ps", "5000000006 ps")
    assert "--write" in found.differs("5000000000 ps", "4999999994 ps")
    assert "--write" in found.differs(None, "1 ps")
