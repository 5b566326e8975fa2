"""The mean time between micro-batches where no rhythm is seen."""

from simulator.analysis.period import mean_period


def test_the_mean_is_of_the_second_half_of_those_that_count() -> None:
    """The first are slow, and the last one hurries."""
    assert mean_period([50, 60, 70, 80, 81], 4) == 10


def test_of_few_it_is_the_whole_runs() -> None:
    """A pipeline that is filled once for five micro-batches takes no longer than its run."""
    assert mean_period([50, 55, 60, 65, 70], 2) == 14
    assert mean_period([50], 1) == 50
