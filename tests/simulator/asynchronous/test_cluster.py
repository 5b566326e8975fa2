"""Which devices workers are, what they send, and where parameter servers stand."""

from dataclasses import replace

import pytest

from hardware import load_array
from planners.built_in import data_parallel
from simulator import DEPLOYED, PUBLISHED, closed_form, deployed, simulate
from simulator.asynchronous.cluster import Cluster, Setting
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.local_step import local_step
from simulator.collectives.choice import jobs
from simulator.engine.operations import Operation
from tests.simulator.asynchronous.clusters import LATENCY, PORT, array, lenet
from tests.simulator.collectives.slow_collectives import predicted_ps
from workloads import load_network


def on(name: str, workers: int, *, published: bool = False) -> Cluster:
    where = load_array(name)
    execution = PUBLISHED if published else DEPLOYED
    return Cluster(Setting(lenet(), where, workers, 8, execution))


@pytest.mark.parametrize(
    ("workers", "unit", "nodes"), [(8, "core", 1), (4, "chip", 1), (1, "board", 1), (6, "core", 1)]
)
def test_workers_are_the_largest_units_that_are_enough(workers: int, unit: str, nodes: int) -> None:
    cluster = on("tpu-v3-8", workers)
    assert cluster.unit == unit
    assert len(cluster.ranks) == workers
    assert len(set(cluster.nodes)) == nodes


def test_the_first_of_more_boards_are_workers() -> None:
    cluster = on("accpar-mixed-switch", 16)
    assert cluster.unit == "board"
    assert len(cluster.free) == 240
    assert [len(ranks) for ranks in cluster.ranks] == [8] * 16


def test_nodes_are_boards_of_several_workers_or_tiers() -> None:
    assert on("tpu-v3-pod", 1024).nodes == [i // 4 for i in range(1024)]
    assert on("h100-cluster", 32).nodes == [i // 8 for i in range(32)]
    assert on("dgx-h100", 8).nodes == [0] * 8
    assert on("accpar-mixed-switch", 16).nodes == [*range(16)]


def test_too_many_workers() -> None:
    with pytest.raises(
        TrainingError, match="has 1 board, 4 chips, 8 cores; take 8 workers or fewer"
    ):
        on("tpu-v3-8", 9)
    with pytest.raises(TrainingError, match="--workers 0"):
        on("tpu-v3-8", 0)


def test_the_step_of_a_core_is_the_networks_on_one_core() -> None:
    """As simulate has it for an array of that one core."""
    from hardware import Array, Group

    network = load_network("resnet18")
    device = array(1).group.kinds[0][0]
    alone = Array("one", "", Group(((device, 1),)))
    plan = data_parallel(network, DEPLOYED.planned(alone), 16)
    wanted = simulate(network, plan, alone, DEPLOYED)
    cluster = Cluster(Setting(network, array(4), 4, 16, DEPLOYED))
    step = cluster.steps[2]
    assert step.duration_ps == wanted.iteration_ps
    assert step.flops == sum(total.flops for total in wanted.totals().values())
    assert sum(step.bound_s) * 1e12 == pytest.approx(step.duration_ps, rel=1e-9)


def test_the_step_of_a_core_is_what_each_core_of_its_chip_computes() -> None:
    """A chip of two cores splits 16 samples into eight each: what one computes is our step."""
    from hardware import Array, Group
    from simulator.analysis.stalls import core_steps

    network = load_network("resnet18")
    ((device, _),) = load_array("tpu-v3-8").group.kinds
    chip = Array("chip", "", Group(((replace(device, chips=1), 1),)))
    plan = data_parallel(network, DEPLOYED.planned(chip), 16)
    (both,) = {time.computing for time in core_steps(simulate(network, plan, chip, DEPLOYED))}
    cluster = Cluster(Setting(network, load_array("tpu-v3-8"), 8, 8, DEPLOYED))
    # each of some sixty operators is rounded up to a picosecond; the update's gradient is summed
    assert cluster.steps[0].duration_ps == pytest.approx(both, abs=100)


def test_the_step_of_a_board_sums_its_cores_gradients() -> None:
    core, board = on("tpu-v3-8", 8), on("tpu-v3-8", 1)
    assert core.steps[0].duration_ps < board.steps[0].duration_ps < 8 * core.steps[0].duration_ps


def test_published_workers_are_boards_at_their_peak() -> None:
    """FLOPs of the papers' step over a board's peak; one number format, weights alone."""
    cluster = on("accpar-homogeneous", 128, published=True)
    assert {len(ranks) for ranks in cluster.ranks} == {1}
    assert cluster.gradient_bytes == cluster.model_bytes == 2 * lenet().weights
    peak = cluster.devices[0].peak_flops_per_s
    step = cluster.steps[0]
    assert step.duration_ps == pytest.approx(step.flops * 8 / peak * 1e12, rel=1e-3)


def alone_ps(cluster: Cluster, operation: Operation) -> int:
    return sum(job.alone_ps(cluster.bandwidth) for job in operation.jobs)


def test_a_swap_is_what_recursive_doubling_does_for_two() -> None:
    cluster = on("ring-8", 8)
    size = cluster.model_bytes
    for a, b in ((0, 1), (2, 6)):
        ends = [int(cluster.ranks[w][0]) for w in (a, b)]
        other = jobs(cluster.wires, "all-reduce", ends, size, "recursive-doubling")
        assert alone_ps(cluster, cluster.swap(a, b)) == predicted_ps(cluster.wires, other)
    assert cluster.swap(0, 1) is cluster.swap(1, 0)


def test_an_all_reduce_is_the_collective_that_is_cheapest() -> None:
    cluster = Cluster(Setting(lenet(), array(8), 8, 4, DEPLOYED))
    made = cluster.all_reduce(range(8), 4e6, "gradients", "ring")
    wanted = closed_form(cluster.wires, "all-reduce", list(range(8)), 4e6, "ring")
    assert alone_ps(cluster, made) / 1e12 == pytest.approx(wanted, abs=1e-12)
    assert cluster.all_reduce([3], 4e6, "gradients").jobs == ()
    assert alone_ps(cluster, cluster.all_reduce(range(8), 4e6, "gradients")) <= alone_ps(
        cluster, made
    )


def test_a_message_to_several_leaves_by_one_port() -> None:
    cluster = Cluster(Setting(lenet(), array(8), 8, 4, DEPLOYED))
    for many in (1, 3, 7):
        took = alone_ps(cluster, cluster.send(0, range(1, 1 + many), 1e6, "model"))
        assert took == pytest.approx((many * 1e6 / PORT + LATENCY) * 1e12, abs=2)


def over_links(cluster: Cluster, operation: Operation) -> dict[str, float]:
    """Bytes over every link."""
    moved: dict[str, float] = {}
    for job in operation.jobs:
        for link, flows in zip(job.load.links.tolist(), job.load.flows.tolist(), strict=True):
            name = cluster.ports.names[link]
            moved[name] = moved.get(name, 0.0) + flows * job.flow_bytes
    return moved


def test_a_swap_goes_both_ways() -> None:
    cluster = Cluster(Setting(lenet(), array(4), 4, 4, DEPLOYED))
    size = cluster.model_bytes
    wanted = {f"board{board} {way}": size for board in (1, 3) for way in ("up", "down")}
    assert over_links(cluster, cluster.swap(1, 3)) == wanted
    assert cluster.swap(1, 3).bytes == 2 * size


@pytest.mark.parametrize("chips", [1, 2, 4])
def test_a_boards_chips_share_an_all_reduce(chips: int) -> None:
    """Each sums a part of the bytes with its like on other boards: the port has the whole."""
    cluster = Cluster(Setting(lenet(), array(4, chips=chips), 4, 4, DEPLOYED))
    operation = cluster.all_reduce(range(4), 8e6, "gradients", "ring")
    moved = over_links(cluster, operation)
    assert {name: moved[name] for name in moved if name.endswith("up")} == {
        f"board{board} up": pytest.approx(2 * 3 / 4 * 8e6) for board in range(4)
    }
    sent = cluster.send(2, [0], 8e6, "model")
    assert over_links(cluster, sent)["board2 up"] == pytest.approx(8e6)
    assert over_links(cluster, sent)["board0 down"] == pytest.approx(8e6)


def test_servers_stand_on_free_boards_first_then_evenly_beside_workers() -> None:
    free = Cluster(Setting(lenet(), array(6), 4, 4, DEPLOYED), 2)
    assert [int(cores[0]) for cores in free._beside] == [4, 5]
    beside = Cluster(Setting(lenet(), array(4), 4, 4, DEPLOYED), 2)
    assert [int(cores[0]) for cores in beside._beside] == [0, 2]
    # a worker's own server is reached by that server's port alone
    assert len(beside.by_port("push", 0, 0, 1e6).jobs[0].load.links) == 1
    assert len(beside.by_port("push", 1, 0, 1e6).jobs[0].load.links) == 3
    assert over_links(free, free.by_port("push", 1, 0, 1e6)) == dict.fromkeys(
        ("board1 up", "board4 down", "server 0 in"), 1e6
    )
    assert over_links(free, free.by_port("pull", 1, 1, 1e6)) == dict.fromkeys(
        ("board5 up", "board1 down", "server 1 out"), 1e6
    )
    assert beside.ports.names[-4:] == ("server 0 in", "server 0 out", "server 1 in", "server 1 out")


def test_a_servers_port_is_as_wide_as_a_boards() -> None:
    where = replace(array(4), topology=replace(array(4).topology, bytes_per_s=5e8))
    for setting, port in ((array(4), PORT), (where, 5e8)):
        cluster = Cluster(Setting(lenet(), setting, 4, 4, DEPLOYED), 1)
        assert cluster.bandwidth[-2:].tolist() == [port, port]


def test_a_servers_port_gives_the_stacks_share_and_has_its_half_size() -> None:
    """As the boards' ports do: half of the bandwidth, at which half a message's bytes go too."""
    plain = array(4).with_devices(lambda old: replace(old, network_half_bytes=1e6))
    half = replace(plain, topology=replace(plain.topology, share=0.5))
    cluster = Cluster(Setting(lenet(), half, 4, 4, DEPLOYED), 1)
    assert (
        set(cluster.bandwidth[-2:].tolist()) == {PORT / 2} == {float(cluster.wires.bandwidth[-1])}
    )
    for latency_s in (cluster.ports.latency_s[0], cluster.wires.message_latency_s(0, 1)):
        assert latency_s == pytest.approx(LATENCY + 1e6 / PORT)  # from 1 MB at PORT to half


def test_bytes_over_every_link_are_those_that_were_sent() -> None:
    from tests.simulator.asynchronous.clusters import watched

    n, k = 5, 7
    ours = watched("ps", n, k, spare=1)
    moved = dict(zip(ours.run.cluster.ports.names, ours.timeline.moved, strict=True))
    size = ours.run.cluster.model_bytes
    assert moved["server 0 in"] == pytest.approx(n * k * size)
    assert moved["server 0 out"] == pytest.approx(n * k * size)
    assert moved["board2 up"] == pytest.approx(k * size)


@pytest.mark.parametrize(
    ("workers", "nodes", "together", "chips"),
    [(8, 1, True, 8), (8, 4, True, 8), (1, 4, True, 1), (16, 2, True, 16), (16, 2, False, 1)],
)
def test_a_worker_waits_for_the_slowest_of_those_who_train(
    workers: int, nodes: int, together: bool, chips: int
) -> None:
    """Not for boards that have nothing to do; one that keeps its own pace waits for nobody."""
    where = load_array("h100-cluster", [f"nodes={nodes}", "stack=nemo-mlperf"])
    network = load_network("gpt2:layers=1")
    setting = Setting(network, where, workers, 32, deployed(where))
    found = Cluster(setting, together=together).steps[0].duration_ps
    device, _ = where.group.kinds[0]
    own = replace(device, roofline=device.roofline.waiting(chips))
    assert own.roofline.variation > 0
    assert found == local_step(network, own, "board", 32, setting.execution).operation.duration_ps
