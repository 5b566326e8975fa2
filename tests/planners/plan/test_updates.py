"""How weights are updated, as a plan says it; and what that moves, counted element by element."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, Device, Group, load_array
from planners import (
    PLANNERS,
    TIME,
    Partition,
    Pipeline,
    Place,
    Plan,
    PlanError,
    Split,
    Stage,
    Update,
    load_planner,
    predict,
)
from planners.order import Item, Kind, Phase, received
from planners.partition import II, III, WHOLE, I
from planners.plan.updates import (
    UPDATE_ORDERS,
    bucket_words,
    check_updates,
    kept_by_sides,
    sharded,
    update_order_words,
    updates_of,
)
from simulator import Timeline, simulate
from tests.planners.slow_sizes import sizes
from workloads import Builder, Network, load_network, partition_graph

REPLICATED, SHARDED, *_ = Update


def plan_of(*updates: Update) -> Plan:
    array = load_array("accpar-homogeneous", ["devices.0.count=4"])
    plan = load_planner("data_parallel")(load_network("lenet"), array, 64)
    return replace(plan, updates=updates)


def test_a_plan_says_how_each_layer_is_updated_and_is_read_again() -> None:
    plan = plan_of(SHARDED, REPLICATED, REPLICATED, SHARDED)
    written = json.loads(json.dumps(plan.to_json()))
    assert written["updates"] == ["sharded", "replicated", "replicated", "sharded"]
    assert Plan.from_json(written) == plan
    assert sharded(plan.updates) == {0, 3}


def test_replicated_is_not_written_down() -> None:
    assert updates_of([REPLICATED] * 4) == ()
    plan = plan_of()
    assert "updates" not in plan.to_json()
    assert Plan.from_json(plan.to_json() | {"updates": ["replicated"] * 4}) == plan


@pytest.mark.parametrize(
    ("updates", "said"),
    [((SHARDED,), "1 updates for 4 layers"), ((REPLICATED,) * 4, "none where all are replicated")],
)
def test_one_for_each_layer_or_none(updates: tuple[Update, ...], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_of(*updates)
    with pytest.raises(PlanError, match="whose: "):
        check_updates(updates, "", ["a"] * 4, "whose", stages=False)


def test_weights_in_parts_are_those_of_all_layers() -> None:
    with pytest.raises(PlanError, match=r"weights are kept in parts \('weights'\) of all layers"):
        plan_of(Update.WEIGHTS, SHARDED, SHARDED, SHARDED)
    for update in (Update.GRADIENTS, Update.WEIGHTS):
        plan = plan_of(*[update] * 4)
        assert Plan.from_json(plan.to_json()) == plan


def test_another_word_is_refused() -> None:
    data = plan_of().to_json() | {"updates": ["half"] * 4}
    with pytest.raises(PlanError, match=r"updates.0: 'half': must be one of 'repl"):
        Plan.from_json(data)


def test_a_split_of_type_i_shares_out_by_devices() -> None:
    """Of 8 and 4: 2/3 and 1/3, whatever the samples' share is."""
    partitions = [Partition(I, 0.25), Partition(II, 0.5), Partition(I, 0.5)]
    own = kept_by_sides(frozenset({0, 1}), partitions, (8, 4))
    assert own[0] == pytest.approx((2 / 3, 1 / 3))
    assert own[1:] == [None, None]


def test_a_side_receives_gradients_of_its_part_and_the_others_new_weights() -> None:
    """Of 2,304 weights 8 of 12 devices update 1,536, and receive the other 768 when new."""
    graph = partition_graph(network())
    size, partitions = [sizes(graph[0], 8, WHOLE)], [Partition(I, 0.5)]
    kept = kept_by_sides(frozenset({0}), partitions, (8, 4))
    gradient, weights = (
        received(item, graph, partitions, size, kept=kept)
        for item in (Item(Kind.SUMS, Phase.GRADIENT, 0), Item(Kind.WEIGHTS, Phase.UPDATE, 0))
    )
    assert gradient == pytest.approx((1536, 768))
    assert weights == pytest.approx((768, 1536))


# One fully connected layer on boards of two kinds: 48 x 48 weights, each an element with its place.
SIDE, BYTES = 48, 2.0
KINDS = {
    "I": (I, (0.5,)),
    "II": (II, (0.25, 0.5, 0.75)),
    "III": (III, (0.25, 0.5, 0.75)),
}
Elements = frozenset[tuple[int, int]]


def network() -> Network:
    net = Builder("one", SIDE, 1)
    net.fc("fc", SIDE)
    return net.build()


def array_of(boards: tuple[int, int]) -> Array:
    device = Device("a", 1, 1, 1e12, 1e9, 1e9, 1e9)
    kinds = ((device, boards[0]), (replace(device, name="b", network_bytes_per_s=2e9), boards[1]))
    return Array("two", "", Group(kinds))


@st.composite
def trees(draw: st.DrawFn, group: Group, cuts: int = 2) -> Split | None:
    """Any types; at most ``cuts`` that cut the weights, so that all of them cut whole rows."""
    if group.size == 1:
        return None
    names = ["I", "I", "II", "III"] if cuts else ["I"]
    type_, shares = KINDS[draw(st.sampled_from(names))]
    share = draw(st.sampled_from(shares))
    left = cuts - (type_ is not I)
    below = tuple(draw(trees(half, left)) for half in group.halves())
    return Split((Partition(type_, share),), 0.0, below)


class Counted:
    """Who updates which element, and what each split's sides receive of them."""

    def __init__(self, root: Split | None, group: Group) -> None:
        self.updates: list[Elements] = []
        self.gradient = self.weights = 0
        rows = columns = range(SIDE)
        every = [(i, j) for i in rows for j in columns]
        order = np.random.default_rng(0).permutation(len(every))
        mixed = [every[i] for i in order]  # so that a cut of rows or columns cuts any part evenly
        self.go(root, group, (rows, columns), mixed)

    def go(
        self,
        split: Split | None,
        group: Group,
        held: tuple[range, range],
        mine: list[tuple[int, int]],
    ) -> None:
        """A group that holds rows and columns, and is to update some of the elements there."""
        if split is None:
            self.updates.append(frozenset(mine))
            return
        (partition,) = split.partitions
        first, second = group.halves()
        if partition.type is I:  # dealt in turn to all boards, of which the first half has so many
            sides = [
                [e for k, e in enumerate(mine) if (k % group.size < first.size) is (i == 0)]
                for i in (0, 1)
            ]
            rows, columns = map(len, held)  # a side has the sum of each, on one of its boards
            self.gradient += rows * columns
            self.weights += rows * columns
            for i, half in enumerate((first, second)):
                self.go(split.halves[i], half, held, sides[i])
            return
        axis = 0 if partition.type is II else 1
        cut = held[axis]
        at = cut.start + round(len(cut) * partition.share)
        for i, half in enumerate((first, second)):
            part = range(cut.start, at) if i == 0 else range(at, cut.stop)
            below = (part, held[1]) if axis == 0 else (held[0], part)
            self.go(split.halves[i], half, below, [e for e in mine if e[axis] in part])


def moved(timeline: Timeline, phase: Phase, kind: Kind) -> float:
    total = timeline.totals().get((phase, kind))
    return total.bytes / BYTES if total else 0.0


@settings(max_examples=60, deadline=None)
@given(st.data(), st.tuples(st.sampled_from((1, 2, 3, 4)), st.sampled_from((1, 2, 4))))
def test_bytes_are_those_of_elements_counted_one_by_one(
    data: st.DataObject, boards: tuple[int, int]
) -> None:
    """Types of any kind above and below one another; boards of two kinds, 2 to 8 of them."""
    array = array_of(boards)
    root = data.draw(trees(array.group))
    plan = Plan("any", "one", 8, "time", ("fc",), root, updates=(SHARDED,))
    counted = Counted(root, array.group)
    assert sum(map(len, counted.updates)) == SIDE * SIDE, "each element once"
    assert len(frozenset().union(*counted.updates)) == SIDE * SIDE
    timeline = simulate(network(), plan, array)
    for phase, kind, wanted in (
        (Phase.GRADIENT, Kind.SUMS, counted.gradient),
        (Phase.UPDATE, Kind.WEIGHTS, counted.weights),
    ):
        assert moved(timeline, phase, kind) == pytest.approx(wanted, rel=0.03)


@pytest.mark.parametrize("boards", [1, 2, 8, 64])
def test_to_share_out_an_update_moves_what_an_all_reduce_does(boards: int) -> None:
    """At each of log2(n) levels half of the weights as gradients, and half as new ones."""
    array = load_array("accpar-homogeneous", [f"devices.0.count={boards}"])
    net = load_network("alexnet")
    plan = load_planner("data_parallel")(net, array, 512)
    shared = replace(plan, updates=(SHARDED,) * len(plan.nodes))
    weights = sum(layer.weights for layer in net.layers) * array.group.arithmetic.element_bytes
    link = array.group.kinds[0][0].network_bytes_per_s
    levels = (boards - 1).bit_length()
    wanted = predict(net, plan, array)
    assert predict(net, shared, array) == pytest.approx(wanted, rel=1e-9)
    timeline = simulate(net, shared, array)
    assert timeline.iteration_s == pytest.approx(wanted, rel=1e-6)
    half = (boards - 1) * weights
    for phase, kind in ((Phase.GRADIENT, Kind.SUMS), (Phase.UPDATE, Kind.WEIGHTS)):
        assert moved(timeline, phase, kind) * BYTES == pytest.approx(half)
    assert wanted > levels * weights / link


def test_who_sits_out_updates_nothing() -> None:
    """Two of four boards work: as two boards alone."""
    net, large = network(), array_of((2, 2))
    halves = Split((Partition(I, 0.5),), 0.0, (None,))
    root = Split((Partition(I, 1.0),), 0.0, (halves, halves), idle=True)
    plan = Plan("any", "one", 8, "time", ("fc",), root, updates=(SHARDED,))
    timeline = simulate(net, plan, large)
    assert moved(timeline, Phase.GRADIENT, Kind.SUMS) == SIDE * SIDE
    assert moved(timeline, Phase.UPDATE, Kind.WEIGHTS) == SIDE * SIDE
    assert timeline.iteration_s == pytest.approx(predict(net, plan, large), rel=1e-6)


PLAN = PLANNERS["data_parallel"](load_network("lenet"), load_array("tpu-v3-8"), 64, TIME)

said = pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("update_order", order) for order in UPDATE_ORDERS),
        ("bucket_bytes", 0.0),
        ("bucket_bytes", 1e6),
    ],
)


@said
def test_how_gradients_travel_and_weights_are_updated_is_read_again(key: str, value: Any) -> None:
    plan = replace(PLAN, **{key: value})
    data = json.loads(json.dumps(plan.to_json()))
    assert data[key] == value
    assert Plan.from_json(data) == plan
    assert key not in PLAN.to_json()
    assert Plan.from_json(PLAN.to_json()) == PLAN


@said
def test_a_pipelines_stages_say_it(key: str, value: Any) -> None:
    stages = (Stage(0, 0, replace(PLAN, **{key: value})),)
    piped = replace(PLAN, root=None, pipeline=Pipeline(stages, (Place(0, 8),), "gpipe", 1))
    assert Plan.from_json(piped.to_json()) == piped
    with pytest.raises(PlanError, match="in the plans of its stages"):
        replace(piped, **{key: value})


def test_a_places_parts_and_turns_are_read_again() -> None:
    """Of two replicas, as JSON has them: lists in a list."""
    plans = PLAN, replace(PLAN, planner="other")
    stages = (Stage(0, 0, PLAN, plans=plans),)
    place = Place(0, 6, 2, parts=((0, 4), (4, 2)), turns=(2, 1))
    piped = replace(PLAN, root=None, pipeline=Pipeline(stages, (place,), "gpipe", 1))
    assert Plan.from_json(json.loads(json.dumps(piped.to_json()))) == piped


@pytest.mark.parametrize("size", [-1.0, float("inf"), float("nan"), "many", [1]])
def test_what_is_no_size_is_refused(size: Any) -> None:
    with pytest.raises(PlanError):
        Plan.from_json(PLAN.to_json() | {"bucket_bytes": size})


def test_another_order_is_refused() -> None:
    with pytest.raises(PlanError, match="'soon' is none of layers, arrival"):
        Plan.from_json(PLAN.to_json() | {"update_order": "soon"})


def test_in_words() -> None:
    assert update_order_words("arrival") == "updates as gradients arrive"
    assert update_order_words("layers") == "updates in the layers' order"
    assert bucket_words(0.0) == "each gradient by itself"
    assert bucket_words(25e6) == "gradients in buckets of 25 MB"


@pytest.mark.parametrize(
    ("name", "array", "counts", "planner"),
    [
        ("alexnet", "accpar-homogeneous", (6,), "accpar"),
        ("lenet", "accpar-mixed", (3, 2), "accpar"),
        ("alexnet", "accpar-mixed", (3, 2), "data_parallel"),
    ],
)
def test_of_unlike_halves_the_engine_takes_what_is_predicted(
    name: str, array: str, counts: tuple[int, ...], planner: str
) -> None:
    """Other sums and boundaries go as they do where nothing is shared out."""
    few = load_array(array, [f"devices.{i}.count={n}" for i, n in enumerate(counts)])
    net = load_network(name)
    plan = load_planner(planner)(net, few, 512)
    shared = replace(plan, updates=(SHARDED,) * len(plan.nodes))
    for one in (plan, shared):
        wanted = predict(net, one, few)
        assert simulate(net, one, few).iteration_s == pytest.approx(wanted, rel=1e-7)


def test_of_unlike_halves_the_larger_part_decides() -> None:
    """Of 3 boards 2 update 2/3: at the top split 2/3 of the weights there, and 2/3 back."""
    array, net = load_array("accpar-homogeneous", ["devices.0.count=3"]), load_network("alexnet")
    plan = load_planner("data_parallel")(net, array, 510)
    shared = replace(plan, updates=(SHARDED,) * len(plan.nodes))
    weights = sum(layer.weights for layer in net.layers) * array.group.arithmetic.element_bytes
    link = array.group.kinds[0][0].network_bytes_per_s
    longer = predict(net, shared, array) - predict(net, plan, array)
    assert longer == pytest.approx((4 / 3 - 1) * weights / link)
