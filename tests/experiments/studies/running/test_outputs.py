"""What is kept of a case's run, against the run itself."""

import json
import math
from dataclasses import replace

import pytest

from experiments.studies.case import Case, step_of
from experiments.studies.running.outputs import (
    NAMES,
    Outputs,
    fastest_alone,
    overflow_of,
    run_case,
)
from hardware import load_array
from simulator import DEPLOYED, Execution, overflow, shares
from tests.planners.wide_graphs import every_pair_added
from workloads import load_network

LENET = load_network("lenet")
CASES = {
    "published": Case(LENET, "accpar", load_array("accpar-mixed"), 512),
    "one device": Case(LENET, "owt", load_array("accpar-homogeneous", ["devices.0.count=1"]), 512),
    "energy": Case(load_network("hypar-lenet-c"), "hypar", load_array("hypar-16"), 256),
    "deployed": Case(LENET, "accpar", load_array("tpu-v3-8"), 5, execution=DEPLOYED),
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES), scope="module")
def both(request: pytest.FixtureRequest) -> tuple[Case, Outputs]:
    case: Case = request.param
    return case, run_case(case)


def test_every_name_is_known_and_json_gives_the_same_back(both: tuple[Case, Outputs]) -> None:
    _, outputs = both
    assert outputs.keys() <= set(NAMES)
    assert json.loads(json.dumps(outputs, allow_nan=False)) == outputs


def test_numbers_are_the_timelines(both: tuple[Case, Outputs]) -> None:
    case, outputs = both
    _, timeline = step_of(case)
    assert outputs["iteration_s"] == timeline.iteration_s
    assert outputs["energy_j"] == timeline.energy_j
    assert outputs["traffic_bytes"] == timeline.traffic_bytes
    spent = [outputs[name] for name in ("computing", "communicating", "waiting")]
    assert spent == list(shares(timeline))
    assert math.isclose(sum(spent), 1.0)


def test_what_the_published_model_has_not() -> None:
    outputs = run_case(CASES["published"])
    assert outputs["peak_memory_bytes"] is None
    assert outputs["memory"] == []
    assert not {"idle_cores", "cores_over_memory"} & outputs.keys()
    assert overflow_of(CASES["published"], outputs) is None


def test_unlike_devices() -> None:
    """AccPar hardly uses the slower half; HyPar spreads evenly; alike devices have no slow half."""
    uneven = run_case(CASES["published"])
    even = run_case(replace(CASES["published"], planner="hypar"))
    alike = run_case(CASES["one device"])
    assert (uneven["uneven"], even["uneven"], alike["uneven"]) == (True, False, False)
    assert uneven["slow_share"] < 0.05
    assert even["slow_share"] == pytest.approx(0.5)
    assert alike["slow_share"] is None


def test_memory_and_idle_cores_of_the_deployed_model() -> None:
    outputs = run_case(CASES["deployed"])
    _, timeline = step_of(CASES["deployed"])
    (memory,) = timeline.memory
    assert outputs["peak_memory_bytes"] == memory.peak_bytes
    assert outputs["cores_over_memory"] == 0
    assert outputs["idle_cores"] == timeline.idle_cores
    assert [device["device"] for device in outputs["memory"]] == ["tpu-v3"]


def test_the_sentence_about_memory_is_the_simulators_own() -> None:
    array = load_array("tpu-v3-8", ["devices.0.hbm.capacity=1 MiB"])
    case = Case(LENET, "owt", array, 512, execution=DEPLOYED)
    outputs = json.loads(json.dumps(run_case(case)))  # as a store gives it back
    _, timeline = step_of(case)
    fault = overflow_of(case, outputs)
    assert fault == overflow("lenet", "owt", array.name, timeline.memory)
    assert fault is not None
    assert fault.startswith(f"lenet under owt does not fit in the memory of {array.name}: tpu-v3: ")
    renamed = replace(case, network=replace(LENET, name="other"))
    assert renamed.key == case.key
    assert (overflow_of(renamed, outputs) or "").startswith("other under owt")


def test_exact_plans_and_others() -> None:
    exact = run_case(CASES["published"])
    assert (exact["exact"], exact["plan_gap"]) == (True, 0.0)
    case = Case(every_pair_added(13), "accpar", CASES["published"].array, 64)
    wide, (plan, _) = run_case(case), step_of(case)
    assert wide["exact"] is False
    assert wide["plan_gap"] == plan.gap
    assert 0 <= wide["plan_gap"] < 1


def test_unfolded_is_the_same_step_and_another_case() -> None:
    array = load_array("accpar-mixed", ["devices.0.count=2", "devices.1.count=2"])
    for execution in (Execution(), DEPLOYED):
        folded = Case(LENET, "accpar", array, 64, execution=execution)
        unfolded = replace(folded, folded=False)
        assert folded.key != unfolded.key
        few, many = step_of(folded)[1], step_of(unfolded)[1]
        assert few.iteration_ps == many.iteration_ps
        assert len(few.resources) < len(many.resources)
        close, exact = run_case(folded), run_case(unfolded)
        for name in ("iteration_s", "computing", "exact", "uneven", "idle_cores", "memory"):
            assert close.get(name) == exact.get(name)


def test_the_fastest_kind_alone_runs_the_arrays_software() -> None:
    array = load_array("mixed-a100-h100", usual=True)
    alone = fastest_alone(array)
    assert [device.name for device, _ in alone.group.kinds] == ["h100-sxm"]
    assert alone.stack == array.stack is not None
    assert alone.model == array.model


def test_rounding_leaves_no_class_of_memory_below_nothing() -> None:
    """Uneven shares of several kinds: a store refuses negative bytes when it is read again."""
    execution = replace(DEPLOYED, whole_shards=False)
    for name in ("accpar-mixed", "mixed-v100-t4"):
        for batch in (512, 1024):
            case = Case(load_network("lenet"), "accpar", load_array(name), batch, "time")
            outputs = run_case(replace(case, execution=execution))
            assert min(min(one["by_class"]) for one in outputs["memory"]) >= 0
