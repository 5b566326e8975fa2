"""Which lanes a run has, what they are called, and what is on them."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accelarray
from experiments.output import UsageError
from experiments.pictures.lanes import BOARD, Slice, chart, chosen, labels, sites, tracks
from experiments.studies.case import Case, step_of
from hardware import load_array
from planners import load_planner
from simulator import Execution, Timeline, simulate
from simulator.lowering.pipeline.transfers import BETWEEN
from tests.strategies import arrays, networks, plans, timelines
from workloads import load_network

LENET = load_network("lenet")
ONE = load_array("accpar-homogeneous", ["devices.0.count=1"])


def run(*changes: str, folded: bool = True, planner: str = "data_parallel") -> Timeline:
    array = load_array("accpar-mixed", changes)
    return simulate(LENET, load_planner(planner)(LENET, array, 512), array, folded=folded)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.booleans())
def test_sites_are_the_array(data: st.DataObject, folded: bool) -> None:
    network, array = data.draw(networks(most=3)), data.draw(arrays())
    plan = data.draw(plans(network, array, 4))
    timeline = simulate(network, plan, array, folded=folded)
    found = sites(timeline)
    numbers = [number for site in found for number in site.resources]
    assert numbers == list(range(len(timeline.resources)))
    for site in found:
        names = {timeline.resources[number].name.partition(".")[0] for number in site.resources}
        assert names == {site.name.partition(".")[0]}
        assert site.level in (BOARD, len(site.above))
    boards = [site for site in found if site.level == BOARD]
    assert sum(site.multiplicity for site in boards) == array.group.size == found[0].boards
    devices = [device.name for device, count in array.group.kinds for _ in range(count)]
    for site in found:  # the first board of the first of them, counted over the whole array
        assert devices[site.first] == site.devices[0]
        assert set(devices[site.first : site.first + site.boards]) == set(site.devices)
    if not folded:
        assert [site.first for site in boards] == list(range(array.group.size))
    called = labels(found, timeline, folded=folded)
    assert max(Counter(called.values()).values()) == 1


def test_lanes_of_the_mixed_array() -> None:
    timeline = run()
    lanes = chart("", timeline, sites(timeline), folded=True).lanes
    called = [lane.label for lane in lanes]
    assert called[:2] == [
        "links between the array's halves (level 0)",
        "links between halves (level 1) of accpar-tpu-v2",
    ]
    assert called[8] == "128 x accpar-tpu-v2, 1,024 cores"
    assert called[-2] == "links between halves (level 7) of accpar-tpu-v3, 64 x"
    assert len(called) == 1 + 2 * 7 + 2
    shares = timeline.totals()
    computing = sum(total.core_ps for (_, kind), total in shares.items() if kind == "compute")
    assert 1024 * (lanes[8].busy_ps + lanes[-1].busy_ps) == computing


def test_classes_of_one_device_are_told_apart() -> None:
    timeline = run("devices.0.count=3", "devices.1.count=3")
    called = labels(sites(timeline), timeline, folded=True)
    cores = [label for label in called.values() if "cores" in label]
    assert "1 x accpar-tpu-v2, 8 cores" in cores
    assert "2 x accpar-tpu-v3, 16 cores" in cores
    timeline = run("devices.0.count=6", "devices.1.device=accpar-tpu-v2", "devices.1.count=4")
    cores = [x for x in labels(sites(timeline), timeline, folded=True).values() if "cores" in x]
    assert len(cores) == len(set(cores)) > 1
    assert any(", from board " in label for label in cores)


def test_chosen_boards_have_lanes_of_their_own() -> None:
    timeline = run("devices.0.count=4", "devices.1.count=4", folded=False)
    shown = chosen(sites(timeline), "board0, 5-6")
    called = [lane.label for lane in chart("", timeline, shown, folded=False).lanes]
    assert called == [
        "links between the array's halves (level 0), boards 0-7",
        "links between halves (level 1), boards 0-3",
        "links between halves (level 2), boards 0-1",
        "board0, accpar-tpu-v2, 8 cores",
        "links between halves (level 1), boards 4-7",
        "links between halves (level 2), boards 4-5",
        "board5, accpar-tpu-v3, 8 cores",
        "links between halves (level 2), boards 6-7",
        "board6, accpar-tpu-v3, 8 cores",
    ]


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ("", "expected names or numbers"),
        ("tpu", "expected names or numbers"),
        ("-1", "expected names or numbers"),
        ("1,,2", "expected names or numbers"),
        ("link0.0", "expected names or numbers"),
        ("4", r"boards are 0\.\.\.3"),
        ("board1,board99", r"boards are 0\.\.\.3"),
        ("3-1", "a range goes up: write 1-3"),
    ],
)
def test_boards_that_are_not_there(devices: str, words: str) -> None:
    timeline = run("devices.0.count=2", "devices.1.count=2", folded=False)
    with pytest.raises(UsageError, match=words):
        chosen(sites(timeline), devices)


def test_memories_and_odd_cores_have_lanes_when_they_do_something() -> None:
    array = load_array("accpar-mixed", ["devices.0.count=1", "devices.1.count=1"])
    plan = load_planner("owt")(LENET, array, 512)
    idle = simulate(LENET, plan, array)
    called = [lane.label for lane in chart("", idle, sites(idle), folded=False).lanes]
    assert len(called) == 3
    busy = simulate(LENET, plan, array, folded=False)
    first, *_ = busy.all_resources.workers
    for row in (row for row, number in enumerate(busy.columns.resource) if number in first.cores):
        if busy.columns.resource[row] == first.cores[-1]:
            busy.columns.resource[row] = first.memories[0]
    lanes = chart("", busy, sites(busy), folded=False).lanes
    busy_ps = {lane.label: lane.busy_ps for lane in lanes if lane.label.startswith("board0.")}
    assert list(busy_ps) == [
        "board0.chip0.core0 and 6 alike",
        "board0.chip3.core1",
        "board0.chip0.hbm",
    ]
    alike, odd, memory = busy_ps.values()
    assert memory == alike > odd == 0


def deployed(planner: str = "data_parallel", *, folded: bool = True) -> Timeline:
    """Four boards of two kinds, and a batch that does not go round."""
    array = load_array("accpar-mixed-switch", ["devices.0.count=2", "devices.1.count=2"])
    case = Case(LENET, planner, array, 50, execution=Execution("deployed"), folded=folded)
    return step_of(case)[1]


@settings(max_examples=40, deadline=None)
@given(timelines())
def test_slices_of_a_lane_never_overlap_and_none_is_lost(timeline: Timeline) -> None:
    everything = sites(timeline)
    numbers = [number for site in everything for number in site.resources]
    assert numbers == list(range(len(timeline.resources)))
    lanes = chart("", timeline, everything, folded=False).lanes
    assert max(Counter(lane.label for lane in lanes).values(), default=1) == 1
    for lane in lanes:
        for before, after in pairwise(lane.slices):
            assert before.end_ps <= after.start_ps
    if timeline.program.wires:
        assert sum(len(lane.slices) for lane in lanes) == len(timeline)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=25))
def test_links_have_as_many_rows_as_exchanges_are_under_way_at_once(
    spans: list[tuple[int, int]],
) -> None:
    plan = load_planner("owt")(LENET, ONE, 1)
    operation = simulate(LENET, plan, ONE).operations[0]
    slices = [Slice(start, start + length, operation) for start, length in spans]
    rows = tracks(slices)
    assert sorted(s for row in rows for s in row) == sorted(slices)
    for row in rows:
        for before, after in pairwise(row):
            assert before.end_ps <= after.start_ps
    if all(length for _, length in spans):
        most = max((sum(a <= at < a + n for a, n in spans) for at in range(40)), default=0)
        assert len(rows) == most


def test_lanes_of_single_cores() -> None:
    """The mixed pair of boards by core: those with equal shards share a lane."""
    timeline = deployed()
    everything = sites(timeline)
    cores = [site for site in everything if site.level == BOARD]
    assert sum(site.multiplicity for site in cores) == 32
    assert {site.unit for site in everything} == {"core"}
    lanes = chart("", timeline, everything, folded=True).lanes
    called = [lane.label for lane in lanes]
    numbers = [label.split(" core")[0] for label in called if " of accpar" in label]
    assert sum(int(n) for n in numbers if n.isdigit()) == 32
    assert all(lane.slices for lane in lanes)
    assert not any("board" in label for label in called)
    own = [lane.slices for lane in lanes if lane.label[0].isdigit()]
    assert len(own) == len(set(own))


def test_chosen_cores_have_lanes_of_their_own() -> None:
    timeline = deployed(folded=False)
    shown = chosen(sites(timeline), "core0, 17-18")
    called = [lane.label for lane in chart("", timeline, shown, folded=False).lanes]
    of_cores = [label for label in called if label.startswith("core")]
    assert of_cores == [
        "core0, accpar-tpu-v2",
        "core17, accpar-tpu-v3",
        "core18, accpar-tpu-v3",
    ]
    assert "collectives (level 0), cores 0-31" in called
    with pytest.raises(UsageError, match=r"cores are 0\.\.\.31"):
        chosen(sites(timeline), "32")
    with pytest.raises(UsageError, match="names or numbers of cores, as core0,core3"):
        chosen(sites(timeline), "board0")


def test_chosen_devices_keep_what_stages_send_each_other() -> None:
    step = accelarray.simulate(
        "gpt2:layers=2:seq=32",
        array="h100-cluster",
        batch=4,
        parallel="pp=2,dp=2",
        set=["nodes=1", "devices.0.count=4"],
        folded=False,
    )
    every = sites(step.timeline)
    assert any(site.level == BETWEEN for site in every)
    assert [site.name for site in chosen(every, "0-3")] == [site.name for site in every]
