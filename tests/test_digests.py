"""Steps leave the records that they left when the digests were stored."""

import pytest

from tests import digests

CASES = list(digests.cases())
QUICK = [case for case in CASES if digests.quick(case)]
CORE = QUICK[:: len(QUICK) // 50][:50]


def test_every_case_is_stored_once() -> None:
    names = [str(case) for case in CASES]
    assert len(set(names)) == len(names)
    assert list(digests.TABLE.stored()) == names


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=str(case), marks=[pytest.mark.core] * (case in CORE)) for case in QUICK],
)
def test_records_are_as_stored(case: digests.Case) -> None:
    assert digests.measured(case) == digests.TABLE.stored()[str(case)]


@pytest.mark.slow
def test_all_records_are_as_stored() -> None:
    assert not list(digests.TABLE.compare(CASES))
