"""Where a graph can be cut, against all subsets of its nodes; and plans of branching graphs."""

import math
import random
from itertools import combinations

import pytest

from planners import PlanError
from planners.pipeline.cost_models import Level, Paper, Repo
from planners.pipeline.pipedream import plan_stages
from planners.pipeline.profile import Profile, ProfileNode
from planners.pipeline.states import states_of


def profile(edges: dict[str, str], dice: random.Random | None = None) -> Profile:
    """Nodes by letters; edges as {"a": "bc"}."""
    names = sorted({*edges, *"".join(edges.values())})
    values = [[dice.randint(0, 9) if dice else 1 for _ in range(3)] for _ in names]
    return Profile(
        "graph",
        tuple(
            ProfileNode(n, "", v[0], 0.0, v[1], v[2]) for n, v in zip(names, values, strict=True)
        ),
        tuple((names.index(a), names.index(b)) for a in edges for b in edges[a]),
    )


def cuts(graph: Profile, *, first_source: bool = False) -> list[set[str]]:
    states = states_of(graph, first_source=first_source)
    return [set(states.names(None, j)) for j in range(len(states))]


def test_a_chain_and_a_diamond() -> None:
    assert cuts(profile({"a": "b", "b": "c"})) == [{"a"}, {"a", "b"}, {"a", "b", "c"}]
    diamond = [set("a"), set("ab"), set("ac"), set("abc"), set("abcd")]
    assert cuts(profile({"a": "bc", "b": "d", "c": "d"})) == diamond


def test_any_source_may_begin() -> None:
    graph = profile({"a": "b", "b": "d", "c": "d"})
    assert cuts(graph) == [set("a"), set("c"), set("ab"), set("ac"), set("abc"), set("abcd")]


def test_in_the_program_other_sources_come_with_what_needs_them() -> None:
    graph = profile({"a": "b", "b": "d", "c": "d"})
    assert cuts(graph, first_source=True) == [set("a"), set("ab"), set("abcd")]
    assert not states_of(graph, first_source=True).every
    assert states_of(graph).every


def test_many_cuts_of_several_sources_begin_with_the_first() -> None:
    """Twelve inputs of one sum have 4,096 sets that hold what leads to them."""
    nodes = tuple(ProfileNode(str(i), "", 1.0, 0.0, 1.0, 1.0) for i in range(14))
    edges = (*((i, 12) for i in range(12)), (12, 13))
    states = states_of(Profile("wide", nodes, edges))
    assert not states.every
    assert [len(states.names(None, j)) for j in range(len(states))] == [1, 13, 14]


def test_unconnected_parts_begin_with_their_firsts_each() -> None:
    found = cuts(profile({"a": "c", "b": "c", "d": "e"}), first_source=True)
    assert set("b") not in found
    assert found[-1] == set("abcde")


def test_unconnected_parts_are_all_there() -> None:
    found = cuts(profile({"a": "b", "c": "d"}))
    assert sorted(map(len, found)) == [1, 1, 2, 2, 2, 3, 3, 4]
    assert found[-1] == set("abcd")


def random_graph(dice: random.Random, count: int) -> Profile:
    """A later node has up to two earlier ones that feed it: several sources, perhaps parts."""
    names = "abcdefg"[:count]
    edges: dict[str, str] = dict.fromkeys(names, "")
    for i, name in enumerate(names[1:], 1):
        for source in dice.sample(names[:i], dice.randint(0, min(2, i))):
            edges[source] = edges.get(source, "") + name
    return profile(edges, dice)


def closed(graph: Profile) -> list[set[int]]:
    """All sets of nodes, none of them empty, that have what leads to their members."""
    everyone = range(len(graph.nodes))
    subsets = (set(s) for n in everyone for s in combinations(everyone, n + 1))
    return [s for s in subsets if all(a in s for a, b in graph.edges if b in s)]


@pytest.mark.parametrize("seed", range(40))
def test_every_closed_set_is_a_state(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  (not cryptography)
    graph = random_graph(dice, dice.randint(1, 7))
    states = states_of(graph)
    wanted = closed(graph)
    names = [node.name for node in graph.nodes]
    found = [{names.index(name) for name in states.names(None, j)} for j in range(len(states))]
    assert sorted(map(sorted, found)) == sorted(map(sorted, wanted))
    assert [len(one) for one in found] == sorted(map(len, found))
    for j, own in enumerate(found):
        assert states.time_s[j] == sum(graph.nodes[v].forward_s for v in own)
        assert states.activation_bytes[j] == sum(graph.nodes[v].activation_bytes for v in own)
        assert states.parameter_bytes[j] == sum(graph.nodes[v].parameter_bytes for v in own)
        live = {a for a, b in graph.edges if a in own and b not in own}
        assert states.sent_bytes[j] == sum(graph.nodes[v].activation_bytes for v in live)
        assert states.counted_bytes[j] >= states.sent_bytes[j]
        assert set(states.below[j]) == {k for k, other in enumerate(found) if other < own}


def test_what_the_program_counts_beyond_what_is_sent() -> None:
    states = states_of(profile({"a": "bc", "b": "d", "c": "e"}))
    names = [set(states.names(None, j)) for j in range(len(states))]
    both = names.index(set("abc"))
    assert states.sent_bytes[both] == 2  # of b and c
    assert states.counted_bytes[both] == 3  # and of a, which feeds c beside b


def test_stages_list_layers_after_what_they_need() -> None:
    nodes = tuple(ProfileNode(name, "", 1.0, 0.0, 1.0, 1.0) for name in "cab")
    states = states_of(Profile("turned", nodes, ((1, 2), (2, 0))))
    assert states.names(None, 2) == ("a", "b", "c")
    assert states.names(0, 2) == ("b", "c")


def test_too_many_branches_are_refused() -> None:
    nodes = tuple(ProfileNode(str(i), "", 1.0, 0.0, 1.0, 1.0) for i in range(20))
    with pytest.raises(PlanError, match="more than 3000 ways to cut it in two"):
        states_of(Profile("wide", nodes, tuple((0, i) for i in range(1, 20))))


def slow_paper(graph: Profile, machines: int, bandwidth: float) -> float:
    """The paper's formula over all rows of growing closed sets and all numbers of replicas."""
    sets = closed(graph)
    everyone = set(range(len(graph.nodes)))

    def stage(own: set[int], replicas: int) -> float:
        work = sum(graph.nodes[v].forward_s for v in own)
        weights = sum(graph.nodes[v].parameter_bytes for v in own)
        return max(work, 2 * (replicas - 1) / replicas * weights / bandwidth) / replicas

    def rest(done: set[int], left: int) -> float:
        if done == everyone:
            return 0.0 if not left else math.inf
        live = {a for a, b in graph.edges if a in done and b not in done}
        link = 2 * sum(graph.nodes[v].activation_bytes for v in live) / bandwidth
        return min(
            (
                max(link, stage(one - done, r), rest(one, left - r))
                for one in sets
                if done < one
                for r in range(1, left + 1)
            ),
            default=math.inf,
        )

    return rest(set(), machines)


@pytest.mark.parametrize("seed", range(30))
def test_every_plan_of_small_graphs(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  (not cryptography)
    graph, machines = random_graph(dice, dice.randint(1, 5)), dice.randint(1, 3)
    bandwidth = dice.choice([1.0, 4.0, 1000.0])
    plan = plan_stages(states_of(graph), [Level(machines, bandwidth)], Paper())
    assert plan.pipeline_s == pytest.approx(slow_paper(graph, machines, bandwidth), rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_order_in_the_file_does_not_matter(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  (not cryptography)
    graph = random_graph(dice, 6)
    place = dice.sample(range(6), 6)
    nodes = [graph.nodes[place.index(v)] for v in range(6)]
    moved = Profile("moved", tuple(nodes), tuple((place[a], place[b]) for a, b in graph.edges))
    levels = [Level(2, 3.0), Level(2, 2.0)]
    for model in (Paper(), Repo(1.0)):
        first, second = (plan_stages(states_of(one), levels, model) for one in (graph, moved))
        assert first.pipeline_s == second.pipeline_s
