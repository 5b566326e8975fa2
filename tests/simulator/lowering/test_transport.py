"""Whole steps' requests as jobs: those of a slow implementation that follows every message."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.studies.case import Case, plan_of
from hardware import Wires, load_array, wires_of
from planners import AXES, Axes, Staging, load_planner
from simulator import DEPLOYED, program_of
from simulator.collectives.choice import offer
from simulator.collectives.groups import Rows
from simulator.engine.jobs import Job
from simulator.lowering.step import exchanges
from simulator.lowering.step.exchanges import carried
from simulator.sharding.redistribute import Request
from tests.simulator.collectives import slow_collectives as slow
from tests.simulator.collectives.slow_collectives import predicted_ps
from workloads import load_network

Found = list[tuple[Request, Wires, tuple[Job, ...]]]

CASES = [
    ("alexnet", "accpar", "accpar-mixed", ("devices.0.count=8", "devices.1.count=8"), 64),
    ("resnet18", "accpar", "accpar-mixed", ("devices.0.count=3", "devices.1.count=2"), 100),
    ("lenet", "data_parallel", "accpar-homogeneous", ("devices.0.count=32",), 100),
    ("vgg11", "accpar", "tpu-v3-8", (), 64),
    ("alexnet", "model_parallel", "tpu-v3-pod", ("devices.0.count=8",), 4),
    ("alexnet", "owt", "hypar-16-torus", (), 36),
    ("alexnet", "accpar", "tpu-mixed", ("devices.0.count=4", "devices.1.count=4"), 50),
]


def requests(network: str, planner: str, array: str, changes: tuple[str, ...], batch: int) -> Found:
    """What lowering asks for, and the jobs that it gets."""
    found: Found = []

    def recorded(
        request: Request, wires: Wires, algorithm: str
    ) -> tuple[tuple[Job, ...], tuple[float, float]]:
        jobs, received = carried(request, wires, algorithm)
        found.append((request, wires, jobs))
        return jobs, received

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchanges, "carried", recorded)
        machines, layers = load_array(array, changes), load_network(network)
        plan = load_planner(planner)(layers, DEPLOYED.planned(machines), batch)
        program_of(layers, plan, machines, DEPLOYED)
    return found


def wanted(request: Request, wires: Wires) -> list[Job]:
    ways = []
    for groups in (request.groups[0], request.padded):
        if groups is not None:
            firsts = request.mesh.copies.rows().ravel()
            rows = np.add.outer(firsts, groups.rows()).reshape(-1, groups.size)
            found = slow.jobs(wires, request.collective, rows, float(request.bytes[0]), "auto")
            assert found is not None
            ways.append(found[1])
    return min(ways, key=lambda jobs: slow.alone_ps(wires, jobs))


@pytest.mark.parametrize(("network", "planner", "array", "changes", "batch"), CASES)
def test_every_request_becomes_the_jobs_of_all_its_messages(
    network: str, planner: str, array: str, changes: tuple[str, ...], batch: int
) -> None:
    found = requests(network, planner, array, changes, batch)
    assert {request.collective for request, _, _ in found}
    for request, wires, jobs in found:
        if request.collective == "swap":
            firsts = request.mesh.copies.rows().ravel()
            halves = [np.add.outer(firsts, half.rows()).ravel() for half in request.groups]
            amounts = [np.tile(bytes_, len(firsts)) for bytes_ in request.bytes]
            flows, largest, latency_s = slow.swap(wires, *halves, *amounts)
            (job,) = jobs
            assert job.load.flows.tolist() == flows[job.load.links].tolist()
            assert (flows > 0).sum() == len(job.load.links)
            assert (job.flow_bytes, job.latency_s) == (largest, latency_s)
            continue
        others = wanted(request, wires)
        assert len(jobs) == len(others)
        for job, other in zip(jobs, others, strict=True):
            assert slow.same(replace(job, load=job.load.unfolded()), other)


def test_idle_cores_stand_between_the_others_where_that_is_cheaper() -> None:
    """21 samples on the 32 cores of a torus: 21 of its places are no box."""
    found = requests("lenet", "data_parallel", "tpu-v3-pod", ("devices.0.count=4",), 21)
    saved = [
        predicted_ps(wires, carried(request._replace(padded=None), wires, "auto")[0])
        - predicted_ps(wires, jobs)
        for request, wires, jobs in found
        if request.padded is not None
    ]
    assert saved
    assert min(saved) > 0


def test_equal_requests_are_carried_once() -> None:
    found = requests(*CASES[0])
    jobs = [jobs for request, _, jobs in found if request.collective != "swap"]
    assert len({id(one) for one in jobs}) < len(jobs)


@pytest.mark.parametrize("seq", [16, 64, 1024])
def test_a_send_inside_a_node_is_half_of_what_two_swap(seq: int) -> None:
    """By the same protocols: an all-to-all of two sends half of its tensor each way."""
    array = load_array("a100-cluster", ["nodes=1", "devices.0.count=2"])
    network = load_network(f"gpt2:layers=2:seq={seq}")
    staging = Staging(parallel=Axes.parse("pp=2,dp=1"), micro_batch=1)
    execution = replace(DEPLOYED, staging=staging)
    case = Case(network, AXES, array, 4, execution=execution)
    program = program_of(network, plan_of(case), array, execution)
    tasks = (task for worker in program.workers for task in worker.template)
    (send, *_) = [one.operation for one in tasks if one.operation.kind == "send"]
    assert send.bytes == 2 * 768 * seq
    swapped = offer(wires_of(array), "all-to-all", Rows(np.array([[0, 1]])), 2 * send.bytes)
    took = sum(job.alone_ps(wires_of(array).bandwidth) for job in send.jobs)
    own_piece_ps = 1e12 * send.bytes / 480e9  # which an all-to-all copies besides
    assert took + own_piece_ps == pytest.approx(swapped.alone_ps, rel=1e-6)
