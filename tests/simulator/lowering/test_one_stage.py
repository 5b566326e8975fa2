"""One stage and one micro-batch are the step as it is without stages, to the picosecond."""

from dataclasses import replace

import pytest

from hardware import load_array
from planners import PLANNERS, Pipeline, Place, Plan, Stage, load_planner
from simulator import DEPLOYED, PUBLISHED, Execution, Timeline, shares, simulate
from workloads import ZOO, load_network

EXECUTIONS = {
    "published": PUBLISHED,
    "deployed": DEPLOYED,
    "no overlap": replace(DEPLOYED, overlap=False),
    "exact": replace(DEPLOYED, whole_shards=False, bucket_bytes=0.0),
}
ARRAYS = {
    "accpar-mixed": "published",
    "accpar-homogeneous": "published",
    "hypar-16": "published",
    "tpu-v3-8": "deployed",
    "tpu-mixed": "deployed",
    "ethernet-100g": "deployed",
    "ring-8": "deployed",
}
GRAPHS = ("gpt2", "bert-base:seq=16", "gnmt:seq=5", "inception-v3", "densenet121", "mobilenet-v2")
DEFAULT = [
    ("lenet", "hypar", "accpar-mixed", "published"),
    ("resnet18", "accpar", "accpar-mixed", "published"),
    ("alexnet", "owt", "hypar-16", "published"),
    ("vgg16", "data_parallel", "tpu-v3-8", "deployed"),
    ("resnet18", "accpar", "tpu-mixed", "deployed"),
    ("alexnet", "accpar", "tpu-mixed", "no overlap"),
    ("lenet", "hypar", "ring-8", "exact"),
    ("gpt2", "hypar", "tpu-v3-8", "deployed"),
]
EVERY = [
    (network, planner, array, execution)
    for network in (*ZOO, *GRAPHS)
    for planner in PLANNERS
    for array, model in ARRAYS.items()
    for execution in (["published"] if model == "published" else [*EXECUTIONS][1:])
]


def staged(plan: Plan, schedule: str, size: int) -> Plan:
    """The same plan as a pipeline of one stage."""
    stage = Stage(0, 0, plan)
    pipeline = Pipeline((stage,), (Place(0, size),), schedule, 1)
    return replace(plan, root=None, pipeline=pipeline)


def facts(timeline: Timeline) -> dict[str, object]:
    """Everything that must be the same."""
    return {
        "time": timeline.iteration_ps,
        "totals": timeline.totals(),
        "shares": shares(timeline),
        "traffic": timeline.traffic_bytes,
        "energy": timeline.energy_j,
        "links": timeline.link_bytes.tolist(),
        "memory": [m.peak_bytes for m in timeline.memory],
        "flops": timeline.flops_by_device(),
        "records": sorted(
            (r.kind, r.layer, r.phase, r.level, r.start_ps, r.end_ps, r.multiplicity)
            for r in timeline
        ),
    }


@pytest.mark.parametrize(
    ("network", "planner", "array", "execution"),
    [
        *DEFAULT,
        *(pytest.param(*case, marks=pytest.mark.slow) for case in EVERY if case not in DEFAULT),
    ],
)
def test_nothing_changes(network: str, planner: str, array: str, execution: str) -> None:
    model: Execution = EXECUTIONS[execution]
    net, hardware = load_network(network), load_array(array)
    planned = model.planned(hardware)
    plan = load_planner(planner)(net, planned, 64)
    plain = facts(simulate(net, plan, hardware, model))
    found = simulate(net, staged(plan, "1f1b", planned.group.size), hardware, model)
    assert facts(found) == plain
    assert {record.micro_batch for record in found} == {0}


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zero-bubble"])
def test_whatever_the_schedule(schedule: str) -> None:
    """Even zero bubble, where errors come first: of one micro-batch without overlap the sum."""
    net, hardware = load_network("alexnet"), load_array("accpar-mixed")
    plan = load_planner("accpar")(net, hardware, 64)
    plain = simulate(net, plan, hardware)
    found = simulate(net, staged(plan, schedule, hardware.group.size), hardware)
    if schedule == "zero-bubble":
        assert found.totals() == plain.totals()
    else:
        assert facts(found) == facts(plain)


def test_unfolded_too() -> None:
    net, hardware = load_network("lenet"), load_array("tpu-v3-8")
    plan = load_planner("hypar")(net, DEPLOYED.planned(hardware), 64)
    plain = simulate(net, plan, hardware, DEPLOYED, folded=False)
    found = simulate(net, staged(plan, "1f1b", 8), hardware, DEPLOYED, folded=False)
    assert facts(found) == facts(plain)
