"""Stages that are copied beside the same stages written by rules of their own."""

from dataclasses import fields
from operator import attrgetter

import pytest

from experiments.studies.case import Case, plan_of
from experiments.studies.model_options import with_options
from hardware import load_array
from planners import AXES
from simulator import Program, deployed, program_of
from simulator.engine.operations import Operation, Worker
from simulator.lowering import pipeline as lowering
from simulator.lowering.copied import CopyingWriter
from tests.effort import calls
from workloads import load_network

LLAMA, EXPERTS = "llama3-8b:layers=8:seq=128", "mixtral-8x7b:layers=4:seq=64"
WHAT = attrgetter(*(field.name for field in fields(Operation) if field.name != "jobs"))


def asked(name: str, array: list[str], **options: str) -> Case:
    """A step on so many nodes of eight."""
    found = load_array("h100-cluster", array)
    words = {"tied": "copies"} | options
    return Case(load_network(name), AXES, found, 96, execution=with_options(deployed(found), words))


def written_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stage by its own rules."""
    each = property(lambda self: range(len(self._pipeline.stages)))
    monkeypatch.setattr(lowering._Writing, "_alike", each)


def what(operation: Operation) -> object:
    """All that there is to it; of its jobs their links, one by one."""
    jobs = [
        (job.name, job.flow_bytes, job.latency_s, load.links.tolist(), load.flows.tolist())
        for job in operation.jobs
        for load in [job.load.everywhere()]
    ]
    return WHAT(operation), jobs


def lines(worker: Worker) -> object:
    """What a worker does, in its order."""
    template = [(what(task.operation), task._replace(operation=None)) for task in worker.template]  # type: ignore[arg-type]
    assert worker.itinerary is not None
    where = worker.first, worker.multiplicity, worker.sites, worker.hbm
    return template, where, worker.itinerary.lines


CASES = [
    pytest.param(asked(LLAMA, ["nodes=2"], parallel="pp=4,tp=4,sp"), id="sp"),
    pytest.param(asked(LLAMA, ["nodes=2"], parallel="pp=8,tp=2", micro_batch="8"), id="in a node"),
    pytest.param(
        asked(LLAMA, ["nodes=2"], parallel="pp=4,tp=2", update="sharded", overlap="none"), id="dp"
    ),
    pytest.param(
        asked(LLAMA, ["nodes=3"], parallel="pp=4,dp=3,tp=2", micro_batch="1", recompute="full"),
        id="replicas",
    ),
    pytest.param(
        asked(EXPERTS, ["nodes=2"], parallel="pp=4,ep=2,tp=2", recompute="selective"), id="experts"
    ),
    pytest.param(asked("gpt2:layers=4:seq=64", ["nodes=1"], parallel="pp=4,tp=2"), id="tied"),
]


def program(case: Case, *, folded: bool) -> Program:
    return program_of(case.network, plan_of(case), case.array, case.execution, folded=folded)


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_copies_are_what_would_be_written(
    *, case: Case, folded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line by line: names, times, needs, parties, sites, memory, and every link of every job."""
    copied = program(case, folded=folded)
    written_apart(monkeypatch)
    apart = program(case, folded=folded)
    assert [lines(worker) for worker in copied.workers] == [
        lines(worker) for worker in apart.workers
    ]
    assert copied.sites == apart.sites
    assert copied.memory == apart.memory


def test_stages_that_are_handed_unlike_things_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth stage of eight, and the fifth, gather what the other node sends them."""
    case = asked(LLAMA, ["nodes=2"], parallel="pp=8,tp=2", micro_batch="8")
    seen: list[bool] = []
    write = CopyingWriter.write_all

    def watched(writer: CopyingWriter) -> None:
        write(writer)
        seen.append(writer.copied)

    monkeypatch.setattr(CopyingWriter, "write_all", watched)
    program(case, folded=True)
    assert seen == [True, False, False, True, True]  # of the third to the seventh


def test_many_stages_cost_little_more_than_a_few() -> None:
    """Of 8 stages on 8 nodes three are written; what is left to do for others is a third."""

    def cost(name: str, nodes: int, stages: int) -> int:
        case = asked(name, [f"nodes={nodes}"], parallel=f"pp={stages},tp=8")
        program(case, folded=True)  # what is kept by the network
        return calls(lambda: program(case, folded=True))

    few, many = cost("llama3-8b:layers=12:seq=128", 3, 3), cost("llama3-8b:layers=32:seq=128", 8, 8)
    assert many < 2 * few
