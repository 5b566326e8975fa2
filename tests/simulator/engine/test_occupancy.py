"""How full memories are, in words."""

from dataclasses import replace

from simulator import DeviceMemory, overflow
from simulator.engine.operations import readable

GIB = 2.0**30
FULL = DeviceMemory("small", 3 * GIB, 2 * GIB, "conv forward", 8, 5)
FITTING = DeviceMemory("large", 3 * GIB, 4 * GIB, "", 2, 0)


def test_sizes_for_people() -> None:
    assert readable(8 * 2**30) == "8.00 GiB"
    assert readable(2**30 - 1) == "1024.00 MiB"
    assert readable(2**19) == "0.50 MiB"


def test_a_memory_says_where_it_is_fullest() -> None:
    assert str(FULL) == "peak 3.00 GiB of 2.00 GiB a core, at conv forward"
    assert str(FITTING) == "peak 3.00 GiB of 4.00 GiB a core"
    assert (FULL.fits, FITTING.fits) == (False, True)


def test_only_what_does_not_fit_is_named_with_what_helps() -> None:
    assert overflow("net", "owt", "array", [FITTING]) is None
    assert overflow("net", "owt", "array", [FITTING, FULL]) == (
        "net under owt does not fit in the memory of array: small: peak 3.00 GiB of 2.00 GiB a "
        "core, at conv forward (5 of 8 cores); take a smaller batch, more devices or another "
        "planner"
    )
    both = overflow("net", "owt", "array", [FULL, replace(FULL, device="other")])
    assert both is not None
    assert "(5 of 8 cores); other: peak" in both


def test_of_many_stages_the_fullest_are_named() -> None:
    stages = [replace(FULL, device=f"stage {n}", peak_bytes=(n + 3) * GIB) for n in range(20)]
    said = overflow("net", "owt", "array", stages)
    assert said is not None
    assert "array: stage 19: peak 22.00 GiB" in said
    assert "; stage 17: peak 20.00 GiB of 2.00 GiB a core, at conv forward (5 of 8 cores); " in said
    assert "and 17 more; take a smaller batch" in said
    assert "stage 16" not in said
