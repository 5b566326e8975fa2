"""The ranking leaves out none of the fastest layouts, beside an estimate of every one."""

from dataclasses import replace

import numpy as np

from simulator.search.closed_form.ranking import Ranking
from tests.simulator.search.closed_form.test_first_pass import SMALL, asked, passing


def test_the_ranking_has_the_fastest_that_fit() -> None:
    """What is computed again only where less does not fit."""
    of = replace(asked(*SMALL[0]), varied=("tp", "sp", "pp", "vp", "micro-batch", "update"))
    first = passing(of)
    every = {of.layout(c): first.estimate(of.layout(c)) for c in of.choices()}
    room = float(np.median([one.share for one in every.values()]))
    ranking = Ranking(first, 20, room)
    for split in of.splits():
        ranking.add(split, map(of.layout, of.of(split)))
    fitting = sorted(one.seconds for one in every.values() if one.share <= room)
    found = sorted(one.seconds for one in ranking.fitting.values())
    assert found[:20] == fitting[:20]
    assert len(ranking.fitting) < len(fitting)


def test_the_ranking_knows_that_a_number_of_blocks_is_not_all_of_them() -> None:
    """What two blocks that compute again take is below what all eight would."""
    of = asked("gpt2:layers=8", "h100-cluster", ("nodes=1",), 64)
    of = replace(of, varied=("tp", "micro-batch", "update"))
    of = replace(of, execution=replace(of.execution, recompute="2"))
    first, every = passing(of), [of.layout(one) for one in of.choices()]
    ranking = Ranking(first, 5, 1.0)
    for split in of.splits():
        ranking.add(split, map(of.layout, of.of(split)))
    fastest = sorted(first.estimate(one).seconds for one in every)[:5]
    assert sorted(one.seconds for one in ranking.fitting.values())[:5] == fastest
