"""Both cost models by hand, on numbers that a reader can check."""

import numpy as np
import pytest

from planners.pipeline.cost_models import Paper, Repo
from planners.pipeline.masks import bits, neighbours, reachable, topological
from planners.pipeline.profile import Profile, ProfileNode
from planners.pipeline.states import states_of

WORK, WEIGHTS = np.array([12.0]), np.array([30.0])


@pytest.mark.parametrize(
    ("replicas", "paper", "repo"),
    [
        (1, 12.0, 12.0),
        (2, max(12, 2 * 30 / 2 / 10) / 2, (12 + 4 * 30 / 2 / 10) / 2),
        (3, max(12, 2 * 2 / 3 * 30 / 10) / 3, (12 + 4 * 2 / 3 * 30 / 10) / 3),
    ],
)
def test_a_stage(replicas: int, paper: float, repo: float) -> None:
    """12 s of work, 30 B of parameters, links of 10 B/s."""
    count = np.array([float(replicas)])
    assert Paper().stage_s(WORK, WEIGHTS, count, 10.0) == pytest.approx([paper])
    assert Repo().stage_s(WORK, WEIGHTS, count, 10.0) == pytest.approx([repo])


def test_an_exchange_that_takes_longer_than_the_work() -> None:
    """The paper's does it meanwhile, the program's afterwards."""
    two = np.array([2.0])
    assert Paper().stage_s(WORK, WEIGHTS, two, 1.0) == [15.0]  # 30 s of exchange, over two
    assert Repo().stage_s(WORK, WEIGHTS, two, 1.0) == [36.0]  # 12 s and 60 s, over two


def test_links() -> None:
    into, out, replicas = np.array([6.0, 1.0]), np.array(4.0), np.array([[1.0], [2.0]])
    one_link = Paper().links_s(into, out, replicas, 2.0)
    assert one_link is not None
    assert one_link.tolist() == [[6.0, 1.0], [6.0, 1.0]]  # replicas do not help
    over_replicas = Repo(1.0).links_s(into, out, replicas, 2.0)
    assert over_replicas is not None
    assert over_replicas.tolist() == [[6.0, 4.0], [3.0, 2.0]]
    assert Repo().links_s(into, out, replicas, 2.0) is None
    halved = Paper(2.0).links_s(into, out, replicas, 2.0)
    assert halved is not None
    assert halved.tolist() == [[3.0, 0.5]] * 2
    fourth = Repo(4.0).links_s(into, out, replicas, 2.0)
    assert fourth is not None
    assert fourth.tolist() == [[1.5, 1.0], [0.75, 0.5]]


def test_what_crosses() -> None:
    """a feeds b and c; at the cut after all three the program still counts a."""
    nodes = tuple(ProfileNode(n, "", 1.0, 0.0, 2.0**i, 1.0) for i, n in enumerate("abcde"))
    states = states_of(Profile("p", nodes, ((0, 1), (0, 2), (1, 3), (2, 4))))
    sets = [set(states.names(None, j)) for j in range(len(states))]
    after_three = sets.index(set("abc"))
    assert Paper().crossing_bytes(states)[after_three] == 2 + 4
    assert Repo().crossing_bytes(states)[after_three] == 1 + 2 + 4
    assert Paper().crossing_bytes(states)[-1] == Repo().crossing_bytes(states)[-1] == 0
    assert states.counted_bytes[-1] > 0  # Repo has not changed the states themselves


def test_what_is_said_of_the_answer() -> None:
    assert Paper().assumptions() == [
        "The paper's cost model: activations between stages are always counted."
    ]
    assert Paper(2.5).assumptions()[0].endswith("always counted, divided by 2.5.")
    assert "are not counted; --activation-ratio 1 does" in Repo().assumptions()[0]
    assert Repo(2.0).assumptions()[0].endswith("are counted, divided by 2.")


def test_masks() -> None:
    assert list(bits(0b1010)) == [1, 3]
    assert list(bits(0)) == []
    edges = [(0, 1), (1, 2), (0, 2)]
    before, after = neighbours(3, edges)
    assert before == [0, 0b001, 0b011]
    assert after == [0b110, 0b100, 0]
    assert topological(3, edges) == [0, 1, 2]
    assert reachable([0, 1, 2], before) == [0, 0b001, 0b011]
    assert reachable([2, 1, 0], after) == [0b110, 0b100, 0]
    assert topological(4, [(1, 2), (2, 1), (2, 3)]) == [0]  # 3 is behind the cycle
