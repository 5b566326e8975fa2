"""How a step changes when its machine does: relations that hold whatever the right answer is.

Small random networks, plans, arrays, wires and options, and a few steps of the zoo, under
both models; the plan stays. What a relation does not promise is named where it is asked:

- **Graham's anomaly.** Where exchanges overlap with computing, or meet on links, a machine
  with one part faster may be slower: what is over sooner meets something else. ``auto``
  chooses an algorithm for an exchange alone, so another one may be chosen that meets more.
  Without overlap, and with one message a link, nothing of this happens.
- **Picoseconds** are whole: every duration is rounded, up to one for each operation in turn.
- **Places.** A ring, torus or mesh tells its nodes apart, so kinds in the other order are
  another machine, and so are a kind's chips on wires of their own in two entries.
- **Remainders** of whole shards go to the first cores: a mirrored plan rounds otherwise.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hardware import Array, ChipLinks, Device, Group, Topology, Wires, wires_of
from hardware.topology import Joins
from planners import Plan, Split, load_planner
from planners.cost.prediction import predict
from planners.partition import Partition
from simulator import Execution, Timeline, simulate
from simulator.engine import VARIABLE
from simulator.search.bounds import is_layout, step_bound
from tests.strategies import arrays, networks, plans
from workloads import Network, load_network

FEW, MANY = 12, 556
"""Examples of each of fifteen relations: 345 and 8,340 together."""
ANOMALY = 0.06
"""The most that a faster part may cost where exchanges overlap or share links."""
PLACELESS = ("tree", "switch", "bus", "fully_connected")
ZOO = ("lenet", "alexnet")


class Step(NamedTuple):
    """A plan of a network on an array."""

    network: Network
    plan: Plan
    array: Array
    execution: Execution

    def run(self, **changes: float) -> Timeline:
        """The step with devices' and wires' numbers multiplied."""
        array = scaled(self.array, changes) if changes else self.array
        return simulate(self.network, self.plan, array, self.execution)

    @property
    def deployed(self) -> bool:
        return self.execution.model == "deployed"

    @property
    def in_turn(self) -> bool:
        """Whether operations run one after the other and exchanges never share a link."""
        return not self.deployed


def scaled(array: Array, by: Mapping[str, float]) -> Array:
    """The array with peak, hbm, network (and links), latency and overhead times so much."""

    def of(name: str) -> float:
        return by.get(name, 1.0)

    def device(one: Device) -> Device:
        return replace(
            one,
            chip_peak_flops_per_s=one.chip_peak_flops_per_s * of("peak"),
            hbm_bytes_per_s=one.hbm_bytes_per_s * of("hbm"),
            network_bytes_per_s=one.network_bytes_per_s * of("network"),
            network_latency_s=one.network_latency_s * of("latency"),
            links=one.links
            and replace(
                one.links,
                bytes_per_s=one.links.bytes_per_s * of("network"),
                latency_s=one.links.latency_s * of("latency"),
            ),
            roofline=replace(one.roofline, overhead_s=one.roofline.overhead_s * of("overhead")),
        )

    kinds = tuple((device(one), count) for one, count in array.group.kinds)
    return replace(array, group=replace(array.group, kinds=kinds))


@st.composite
def steps(draw: st.DrawFn, kinds: int = 3) -> Step:
    """Any step: one in eight of the zoo, the rest random."""
    array = draw(arrays(3, kinds))
    links = ChipLinks(999, draw(st.floats(1e5, 1e7)), draw(st.sampled_from((0.0, 1e-6))))
    latency_s = draw(st.sampled_from((0.0, 1e-6)))
    boards = tuple(
        (replace(d, links=links, network_latency_s=latency_s), n) for d, n in array.group.kinds
    )
    kind = draw(st.sampled_from((*PLACELESS, "ring", "torus", "mesh")))
    joins: Joins = draw(st.sampled_from(("boards", "chips")))
    array = replace(array, group=Group(boards), topology=Topology(kind, joins))
    if kind != "bus" and draw(st.integers(0, 3)) == 0:
        execution = Execution()
    else:
        execution = Execution(
            "deployed",
            overlap=draw(st.booleans()),
            whole_shards=draw(st.booleans()),
            bucket_bytes=draw(st.sampled_from((0.0, 100.0, 25e6))),
        )
    if draw(st.integers(0, 7)) == 0:
        network = load_network(draw(st.sampled_from(ZOO)))
        planner = load_planner(draw(st.sampled_from(("data_parallel", "owt", "hypar", "accpar"))))
        plan = planner(network, execution.planned(array), 24)
    else:
        network = draw(networks(5))
        plan = draw(plans(network, execution.planned(array), 24))
    return Step(network, plan, array, execution)


def slack_ps(*timelines: Timeline) -> int:
    """What rounding to whole picoseconds may add up to."""
    return sum(
        max(1, len(operation.jobs)) for timeline in timelines for operation in timeline.operations
    )


def not_slower(step: Step, **changes: float) -> None:
    before, after = step.run(), step.run(**changes)
    most = before.iteration_ps * (1.0 if step.in_turn else 1.0 + ANOMALY)
    assert after.iteration_ps <= most + slack_ps(before, after)


def faster_links_are_not_slower(step: Step) -> None:
    not_slower(step, network=2.0)
    not_slower(step, network=2.0, hbm=2.0)


def a_faster_peak_or_memory_is_not_slower(step: Step) -> None:
    not_slower(step, peak=2.0)
    not_slower(step, hbm=2.0)


def shorter_latencies_and_overheads_are_not_slower(step: Step) -> None:
    not_slower(step, latency=0.5)
    not_slower(step, overhead=0.5)


def all_twice_as_fast_is_half_as_long(step: Step) -> None:
    before = step.run()
    after = step.run(peak=2.0, hbm=2.0, network=2.0, latency=0.5, overhead=0.5)
    assert abs(2 * after.iteration_ps - before.iteration_ps) <= 2 * slack_ps(before, after)


def two_entries_of_a_kind_are_one(step: Step) -> None:
    """The bisection halves counts as it parts kinds: five boards are three and two."""
    device, count = step.array.group.kinds[0]
    assume(count > 1)
    second = count // 2
    wires = replace(step.array.topology, joins="boards")
    step = step._replace(array=replace(step.array, topology=wires))
    parted = replace(step.array, group=Group(((device, count - second), (device, second))))
    root = step.plan.root
    assert root is not None
    apart = replace(step.plan, root=replace(root, halves=(root.halves[0], root.halves[-1])))
    other = step._replace(array=parted, plan=apart if second == count - second else step.plan)
    before, after = step.run(), other.run()
    assert abs(before.iteration_ps - after.iteration_ps) <= slack_ps(before, after)


def folded_is_unfolded(step: Step) -> None:
    unfolded = simulate(*step, folded=False)
    assert step.run().iteration_ps == unfolded.iteration_ps


def no_bound_is_broken(step: Step) -> None:
    """No core computes longer than the step takes, and no link carries more than it can."""
    timeline = step.run()
    slack_s = 1e-12 * slack_ps(timeline)
    for worker in timeline.program.workers:
        work = sum(task.operation.duration_ps for task in worker.template if not task.parties)
        assert work <= timeline.iteration_ps
    if step.deployed:
        carried = np.array(timeline.link_bytes)
        bandwidth = wires_of(step.array).bandwidth
        assert (carried / bandwidth).max(initial=0.0) <= timeline.iteration_s + slack_s


def without_wires_only_computing_is_left(step: Step) -> None:
    """Links of no time and no latency, inside chips too: cores wait for others' computing."""
    timeline = step.run(network=1e12, latency=0.0)
    alone = [
        sum(task.operation.duration_ps for task in worker.template if not task.parties)
        for worker in timeline.program.workers
    ]
    assert timeline.iteration_ps >= max(alone)
    one_kind = len(step.array.group.kinds) == 1 and step.array.group.kinds[0][0].cores_per_chip == 1
    if one_kind and len(timeline.program.workers) == 1:
        assert timeline.iteration_ps <= max(alone) * (1 + 1e-3) + slack_ps(timeline)


def mirrored_kinds_take_as_long(step: Step) -> None:
    """Both kinds in the other order, and the plan with its halves swapped.

    In rings: halving-doubling pairs members by their numbers, which are others then.
    """
    assume(len(step.array.group.kinds) == 2)
    assume(not step.deployed or step.array.topology.kind in PLACELESS)
    execution = replace(step.execution, whole_shards=False)
    if step.deployed:
        execution = replace(execution, algorithm="ring")
    step = step._replace(execution=execution)
    root = step.plan.root
    assert root is not None
    shares = [round(p.share * 1024) / 1024 for p in root.partitions]  # 1 - share is exact

    def mirrored(shares: list[float], halves: tuple[Split | None, ...], array: Array) -> Timeline:
        pairs = zip(root.partitions, shares, strict=True)
        split = Split(tuple(Partition(p.type, share) for p, share in pairs), 0.0, halves)
        return step._replace(plan=replace(step.plan, root=split), array=array).run()

    kinds = step.array.group.kinds[::-1]
    before = mirrored(shares, root.halves, step.array)
    swapped = replace(step.array, group=Group(kinds))
    after = mirrored([1 - share for share in shares], root.halves[::-1], swapped)
    assert after.iteration_ps == pytest.approx(before.iteration_ps, rel=1e-6, abs=slack_ps(before))


def names_change_nothing(step: Step) -> None:
    """Other names, in another alphabetical order, of all layers."""
    number = {layer.name: i for i, layer in enumerate(step.network.layers)}

    def other(name: str) -> str:
        return f"layer {len(number) - number[name]:03}" if name in number else name

    layers = tuple(
        replace(
            layer,
            name=other(layer.name),
            inputs=tuple(map(other, layer.inputs)),
            shared=other(layer.shared),
        )
        for layer in step.network.layers
    )
    network = replace(step.network, layers=layers)
    plan = replace(step.plan, nodes=tuple(map(other, step.plan.nodes)))
    before, after = step.run(), step._replace(network=network, plan=plan).run()
    assert after.iteration_ps == before.iteration_ps
    assert after.traffic_bytes == before.traffic_bytes
    assert [one.peak_bytes for one in after.memory] == [one.peak_bytes for one in before.memory]


def accelerations_change_nothing(step: Step) -> None:
    before = step.run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "1")
        after = step.run()
    assert after.iteration_ps == before.iteration_ps
    assert after.traffic_bytes == pytest.approx(before.traffic_bytes, rel=1e-12)
    assert tuple(after.link_bytes) == pytest.approx(tuple(before.link_bytes), rel=1e-12)


def memory_is_in_the_end_what_it_was(step: Step) -> None:
    """What computations take more, others give back; nothing is given back before it is taken."""
    for worker in step.run().program.workers:
        level, most = 0.0, 0.0
        for task in worker.template:
            level += task.held.more
            most = max(most, level)
            assert level >= -1e-9 * most
        assert level == pytest.approx(0.0, abs=1e-9 * most)


def bytes_sent_are_bytes_received(step: Step) -> None:
    """What nodes send up through their ports, of each sort, nodes get down through theirs."""
    assume(step.deployed)
    assert_sent_is_received(step.run())


def assert_sent_is_received(timeline: Timeline) -> None:
    wires = timeline.program.wires
    assert isinstance(wires, Wires)
    both: dict[str, Counter[str]] = {"up": Counter(), "down": Counter()}
    for name, moved in zip(wires.names, timeline.link_bytes, strict=True):
        place, _, direction = name.rpartition(" ")
        if direction in both and not re.search(r"\d-\d", place):  # a tree's inner links join any
            both[direction][re.sub(r"\d+", "#", place)] += moved
    assert both["up"] == pytest.approx(both["down"], rel=1e-9)


def a_plan_takes_what_is_predicted_also_from_its_file(step: Step) -> None:
    timeline = step.run()
    again = Plan.from_json(json.loads(json.dumps(step.plan.to_json())))
    assert step._replace(plan=again).run().iteration_ps == timeline.iteration_ps
    if not step.deployed:
        said_s = predict(step.network, step.plan, step.array)
        slack_s = slack_ps(timeline) * 1e-12
        assert said_s == pytest.approx(timeline.iteration_s, rel=1e-9, abs=slack_s)


def no_step_is_below_its_lower_bound(step: Step) -> None:
    array, batch = step.execution.planned(step.array), step.plan.batch
    layout, timeline = is_layout(step.network, step.plan, array), step.run()
    bound = step_bound(
        *(step.network, array, batch, step.execution),
        layout=layout,
        bucket_bytes=step.plan.bucket_bytes,
    )
    slack_s = slack_ps(timeline) * 1e-12
    assert bound is None or bound.seconds <= timeline.iteration_s * (1 + 1e-9) + slack_s


RELATIONS: dict[Callable[[Step], None], int] = {
    faster_links_are_not_slower: 3,
    a_faster_peak_or_memory_is_not_slower: 3,
    shorter_latencies_and_overheads_are_not_slower: 3,
    all_twice_as_fast_is_half_as_long: 3,
    two_entries_of_a_kind_are_one: 1,
    folded_is_unfolded: 3,
    no_bound_is_broken: 3,
    without_wires_only_computing_is_left: 1,
    mirrored_kinds_take_as_long: 2,
    names_change_nothing: 3,
    accelerations_change_nothing: 2,
    memory_is_in_the_end_what_it_was: 3,
    bytes_sent_are_bytes_received: 3,
    a_plan_takes_what_is_predicted_also_from_its_file: 3,
    no_step_is_below_its_lower_bound: 3,
}
"""Every relation, and of how many kinds its arrays are at most."""


def check(relation: Callable[[Step], None], examples: int) -> None:
    quiet = settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    quiet(given(steps(RELATIONS[relation]))(relation))()


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.__name__)
def test_relations_of_200_steps(relation: Callable[[Step], None]) -> None:
    check(relation, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.__name__)
def test_relations_of_5000_steps(relation: Callable[[Step], None]) -> None:
    check(relation, MANY)
