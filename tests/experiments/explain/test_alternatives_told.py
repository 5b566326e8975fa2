"""What frees memory is told with its cost: what frees most, and what costs least."""

from experiments.explain.freeing import Freed, best_of

GIB = 2.0**30


def freed(what: str, gib: float, fits: bool, seconds: float | None) -> Freed:
    return Freed(what, 80 * GIB - gib * GIB, gib * GIB, fits, None, seconds)


def test_the_fitting_change_that_costs_least_is_told_too() -> None:
    large = freed("--micro-batch 1", 60, True, 0.1)
    cheap = freed("--micro-batch 16", 30, True, 0.004)
    unpriced = freed("--zero 1", 10, True, None)
    assert best_of([large, cheap, unpriced]) == [
        "--micro-batch 1 frees 60.00 GiB; then the step fits; it takes 100.0 ms longer.",
        "Least time of those simulated: --micro-batch 16 frees 30.00 GiB; then the step fits; "
        "it takes 4.000 ms longer.",
    ]
    assert len(best_of([cheap, unpriced])) == 1


def test_what_does_not_suffice_is_told_so() -> None:
    little = freed("--zero 1", 5, False, None)
    assert best_of([little]) == ["--zero 1 frees 5.00 GiB; the step does not fit then either."]
    enough = freed("--micro-batch 1", 4, True, -0.25)
    assert best_of([little, enough])[1].endswith("then the step fits; it takes 250.0 ms less.")
    assert not best_of([freed("--zero 1", -1, False, None)])
