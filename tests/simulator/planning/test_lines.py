"""Lines in time, by hand: who waits for whom, and what links that are shared cost."""

import numpy as np
import pytest

from hardware import by_core, load_array, wires_of
from simulator.planning.contention import Contention, Way
from simulator.planning.curves import curves_of
from simulator.planning.lines import Line, run


class Fixed(Contention):
    """Latencies and shared links as a test wants them."""

    def __init__(self, shared: float = 0.0, idle_s: float = 0.0) -> None:
        self.given = shared, idle_s

    def shared(self, one: Way, other: Way) -> float:
        del one, other
        return self.given[0]

    def idle_s(self, way: Way) -> float:
        del way
        return self.given[1]


WAY = ("all-reduce", 1)


def test_products_come_one_after_the_other_in_their_order() -> None:
    """The second waits for an exchange of 5 s, and the third for the second."""
    lines = [Line(2.0, ()), Line(5.0, (0,), WAY), Line(1.0, (1,)), Line(4.0, ())]
    assert run(lines, Fixed()) == 2 + 5 + 1 + 4


def test_exchanges_go_on_beside_products() -> None:
    lines = [Line(2.0, ()), Line(5.0, (0,), WAY), Line(9.0, ()), Line(1.0, (1,))]
    assert run(lines, Fixed()) == 2 + 9 + 1


def test_on_links_of_their_own_exchanges_do_not_meet() -> None:
    lines = [Line(3.0, (), WAY), Line(5.0, (), WAY)]
    assert run(lines, Fixed()) == 5


def test_on_the_same_links_they_share() -> None:
    """Both at half speed: the first has 3 s and takes 6; of the other's 5 s 2 are left then."""
    lines = [Line(3.0, (), WAY), Line(5.0, (), WAY)]
    assert run(lines, Fixed(shared=1.0)) == 8


def test_half_of_the_time_on_the_same_links() -> None:
    """At two thirds: 3 s take 4.5, and 2 s are left."""
    lines = [Line(3.0, (), WAY), Line(5.0, (), WAY)]
    assert run(lines, Fixed(shared=0.5)) == pytest.approx(6.5)


def test_latency_holds_no_link() -> None:
    """2 s each on the links, at once 4, and then the latency of 1 s."""
    lines = [Line(3.0, (), WAY), Line(3.0, (), WAY)]
    assert run(lines, Fixed(shared=1.0, idle_s=1.0)) == 5


def test_who_shares_links_on_a_board() -> None:
    """Cores of a chip talk inside it: pairs of chips side by side have links of their own."""
    array = by_core(load_array("tpu-v3-8"))
    contention = Contention(curves_of(wires_of(array), 0, 3, "auto"))
    assert contention.shared(("all-reduce", 4), ("all-reduce", 4)) == pytest.approx(1)
    assert contention.shared(("all-reduce", 4), ("all-reduce", 1)) == 0
    both = contention.shared(("all-reduce", 7), ("all-reduce", 4))
    assert both == contention.shared(("all-reduce", 4), ("all-reduce", 7))
    assert 0 < both <= 1


def test_latency_is_what_a_byte_takes() -> None:
    array = by_core(load_array("tpu-v3-8"))
    curves = curves_of(wires_of(array), 0, 3, "auto")
    idle_s = Contention(curves).idle_s(("all-gather", 6))
    assert 0 < idle_s < 1e-4
    assert idle_s == curves.of_masks("all-gather", np.array([6]), np.ones(1))[0]
