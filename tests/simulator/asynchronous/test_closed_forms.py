"""Synchronous methods without slowdown take their formulas' time, to the picosecond.

n workers of one board each on a switch: B is a port's bandwidth, a its latency,
W the bytes, t the local step. The formulas are written here by hand.
"""

from math import ceil

import pytest

from hardware import load_array
from simulator import DEPLOYED
from simulator.asynchronous.cluster import Cluster, Setting
from simulator.asynchronous.local_step import server_update_ps
from simulator.asynchronous.registry import load_algorithm
from simulator.asynchronous.run import Run
from tests.simulator.asynchronous.clusters import LATENCY, PORT, array, lenet, one_slow, watched

SIZES = (2, 3, 5, 8, 16, 64, 256)
PARAMETERS = lenet().parameters
W = 4.0 * PARAMETERS
TURNS = 3


def within_ps(ours_ps: int, seconds: float, operations: int) -> None:
    """Each exchange, and each of its latencies, is rounded up to a picosecond."""
    assert abs(ours_ps - seconds * 1e12) <= operations + 1e-9 * seconds * 1e12


def step_ps(workers: int = 2) -> int:
    return Cluster(Setting(lenet(), array(workers), workers, 4, DEPLOYED)).steps[0].duration_ps


def test_the_bytes_are_the_networks() -> None:
    cluster = Cluster(Setting(lenet(), array(2), 2, 4, DEPLOYED))
    assert cluster.gradient_bytes == W  # float32 gradients, biases too
    assert cluster.model_bytes == W


@pytest.mark.parametrize("n", SIZES)
def test_all_reduce(n: int) -> None:
    """t + 2 (n - 1) a + 2 (n - 1) / n W / B, round a ring."""
    timeline = watched("all-reduce", n, TURNS, options={"algorithm": "ring"}).timeline
    ring_s = 2 * (n - 1) * LATENCY + 2 * (n - 1) / n * W / PORT
    within_ps(timeline.makespan_ps, TURNS * (step_ps() / 1e12 + ring_s), 2 * TURNS)


@pytest.mark.parametrize("n", [2, 16, 256])
def test_all_reduce_with_a_slow_worker_is_its_step_and_the_exchange(n: int) -> None:
    fast = watched("all-reduce", n, TURNS).timeline.makespan_ps
    slow = watched("all-reduce", n, TURNS, slow=one_slow(5.0)).timeline.makespan_ps
    assert slow - fast == TURNS * 4 * step_ps()


@pytest.mark.parametrize(("n", "shards"), [(n, s) for n in SIZES for s in (1, 2, 7) if s <= n])
def test_synchronous_parameter_servers(n: int, shards: int) -> None:
    """t + n W / (S B) there and back, two latencies, and the server's own update.

    The servers stand on boards of their own.
    """
    method = {"shards": str(shards)}
    ours = watched("ps", n, TURNS, spare=shards, options=method)
    server = ours.run.cluster.devices[0]
    update_s = server_update_ps(server, n * W / shards, W / shards) / 1e12
    turn_s = step_ps() / 1e12 + 2 * (n * W / (shards * PORT) + LATENCY) + update_s
    within_ps(ours.timeline.makespan_ps, TURNS * turn_s, 6 * TURNS)


def test_a_servers_update_reads_every_gradient_and_the_weights_and_writes_them() -> None:
    """n gradients of 2 B and weights of 4 B, at three quarters of 1e11 B/s."""
    device = watched("ps", 2, 1, spare=1).run.cluster.devices[0]
    assert server_update_ps(device, 4 * 3e6, 3e6) == ceil(6 * 3e6 / 7.5e10 * 1e12)
    narrow = load_array("a100-cluster", ["devices.0.arithmetic.gradients=2 B"])
    cluster = Cluster(Setting(lenet(), narrow, 2, 32, DEPLOYED), 1)
    assert (cluster.gradient_bytes, cluster.model_bytes) == (2 * PARAMETERS, 4 * PARAMETERS)
    a100 = cluster.devices[0]
    rate = a100.hbm_bytes_per_s * a100.roofline.memory_efficiency / 1e12
    wanted_ps = (3 * 2 + 2 * 4) * PARAMETERS / rate
    assert cluster.server_update(0, 1, 3).duration_ps == pytest.approx(wanted_ps, abs=1)


@pytest.mark.parametrize(("workers", "part"), [(1, 1), (4, 1 / 4), (8, 1 / 8)])
def test_a_server_on_a_chip_or_a_core_has_its_part_of_the_board(workers: int, part: float) -> None:
    """One TPU v3 board has four chips of 900 GB/s, and eight cores."""
    board = load_array("tpu-v3-8")
    cluster = Cluster(Setting(lenet(), board, workers, 32, DEPLOYED), 1)
    device, _ = board.group.kinds[0]
    rate = 4 * 9e11 * device.roofline.memory_efficiency * part
    moved = cluster.gradient_bytes + 2 * cluster.model_bytes
    took_ps = cluster.server_update(0, 1, 1).duration_ps
    assert took_ps == pytest.approx(moved / rate * 1e12, rel=1e-6)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_local_sgd(n: int, steps: int) -> None:
    """h t, then an all-reduce."""
    options = {"steps": str(steps), "algorithm": "ring"}
    timeline = watched("local-sgd", n, 2 * steps, options=options).timeline
    ring_s = 2 * (n - 1) * LATENCY + 2 * (n - 1) / n * W / PORT
    within_ps(timeline.makespan_ps, 2 * (steps * step_ps() / 1e12 + ring_s), 4)


@pytest.mark.parametrize("boards", [2, 4, 16, 64])
def test_hierarchical_all_reduce(boards: int) -> None:
    """Inside boards of four chips first, then rings of W / 4 between boards, then back.

    A chip of the 2 x 2 mesh has two links, by which 3/4 W leave and come: 3/8 W / B
    and two hops, before and after. Four rings share a board's port: W / 4 each,
    2 (b - 1) / b W / B in all, by messages to everybody at once (two latencies), or
    between two boards by one swap.
    """
    n, micro_batches = 4 * boards, 2
    where = array(boards, chips=4)
    cluster = Cluster(Setting(lenet(), where, n, 4, DEPLOYED))
    run = Run(cluster, micro_batches)
    load_algorithm("hierarchical").start(run)
    timeline, _ = run.run()
    inside_s = 3 / 8 * W / PORT + 2 * LATENCY
    across_s = 2 * (boards - 1) / boards * W / PORT + (1 if boards == 2 else 2) * LATENCY
    step_s = cluster.steps[0].duration_ps / 1e12
    within_ps(
        timeline.makespan_ps, micro_batches * (step_s + 2 * inside_s + across_s), 12 * micro_batches
    )


def test_a_worker_of_several_cores_sends_from_each_of_them() -> None:
    """A board of four chips: four times a quarter of the bytes, by the one port."""
    single = Cluster(Setting(lenet(), array(4), 4, 4, DEPLOYED))
    wide = Cluster(Setting(lenet(), array(4, chips=4), 4, 4, DEPLOYED))
    assert wide.unit == "board"
    for made in (single, wide):
        (job,) = made.swap(0, 1).jobs
        through_s = job.load.seconds_per_byte(made.wires.bandwidth) * job.flow_bytes
        assert through_s == pytest.approx(W / PORT, rel=1e-12)
