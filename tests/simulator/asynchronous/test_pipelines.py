"""Learning with a pipeline's weight versions, against PipeDream's formula and serial runs."""

import numpy as np
import pytest
from numpy.typing import NDArray

from hardware import load_array
from planners import Staging
from planners.built_in import data_parallel
from simulator import DEPLOYED, Timeline, simulate
from simulator.analysis.stages import passes
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.learning.pipelines import Stages, learn_pipeline
from simulator.asynchronous.learning.problems import PROBLEMS, Problem, load_problem
from simulator.engine.operations import Part
from tests.simulator.asynchronous.clusters import lenet, watched

Floats = NDArray[np.float64]


def timeline(stages: int, batches: int, schedule: str = "pipedream", many: int = 1) -> Timeline:
    from dataclasses import replace

    from experiments.studies.case import Case, step_of

    staging = Staging(stages, many, schedule, batches=batches)
    array = load_array("ring-8", [f"devices.0.count={stages}"])
    execution = replace(DEPLOYED, staging=staging)
    return step_of(Case(lenet(), "data_parallel", array, 4 * many, execution=execution))[1]


def delayed(problem: Problem, stages: int, batches: int) -> Floats:
    """PipeDream's w(t + 1) = w(t) - r grad f(w_1(t - n + 1), w_2(t - n + 2), ..., w_n(t)).

    Stage s of n (from 0) takes its gradient on its weights n - 1 - s updates before.
    """
    pieces = np.array_split(np.arange(problem.size), stages)
    history = [problem.start()]
    for t in range(batches):
        met = history[0].copy()
        for s, here in enumerate(pieces):
            met[here] = history[max(t - (stages - 1 - s), 0)][here]
        history.append(history[-1] - problem.rate * problem.gradient(met, 0, t))
    return history[-1]


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("name", PROBLEMS)
def test_pipedream_learns_as_its_formula_says(stages: int, name: str) -> None:
    problem = load_problem(name, 2)
    found = learn_pipeline(problem, timeline(stages, 20)).model
    np.testing.assert_allclose(found, delayed(problem, stages, 20), rtol=1e-12, atol=1e-14)


def test_two_buffers_are_one_update_late() -> None:
    """2BW: w(t + 1) = w(t) - r grad f(w(t - 1)), of batches of four micro-batches."""
    problem = load_problem("logistic", 2)
    found = learn_pipeline(problem, timeline(3, 12, "2bw", 4)).model
    history = [problem.start()]
    for t in range(12):
        met = history[max(t - 1, 0)]
        mean = np.mean([problem.gradient(met, 0, 4 * t + m) for m in range(4)], axis=0)
        history.append(history[-1] - problem.rate * mean)
    np.testing.assert_allclose(found, history[-1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("schedule", "many"), [("pipedream", 1), ("2bw", 4)])
def test_nobody_computes_with_weights_from_the_future(schedule: str, many: int) -> None:
    """A version is there when a forward pass begins: so many updates have ended by then."""
    ran = timeline(4, 10, schedule, many)
    for worker in range(len(ran.program.workers)):
        done = list(passes(ran, worker))
        ends = [one.end_ps for one in done if Part.UPDATE in one.parts]
        for one in done:
            if Part.FORWARD in one.parts:
                there = sum(end <= one.start_ps for end in ends)
                assert one.version <= there
                if schedule == "pipedream":  # the newest there is
                    assert one.version == there


def test_staleness_is_how_many_stages_follow() -> None:
    """Steadily n - 1 - s updates, on each of n stages as often."""
    n, batches = 4, 40
    counts = Stages(timeline(n, batches)).staleness
    assert sum(counts.values()) == n * batches
    assert set(counts) == {0, 1, 2, 3}
    assert counts[3] == batches - 3  # the first stage, but for its first three
    assert Stages(timeline(3, 10, "2bw", 4)).staleness[1] == 3 * 9 * 4


def test_loss_is_against_simulated_seconds() -> None:
    ran = timeline(3, 30)
    found = learn_pipeline(load_problem("quadratic"), ran)
    assert found.curve[0][0] == 0
    assert found.curve[-1][0] == pytest.approx(ran.makespan_s, rel=0.05)
    assert found.curve[-1][1] < 0.5 * found.curve[0][1]
    assert found.curve[-1][1] == load_problem("quadratic").loss(found.model)
    half = found.curve[0][1] / 2
    times = [
        learn_pipeline(load_problem("quadratic"), timeline(3, many), half).reached_s
        for many in (30, 300)
    ]
    assert times[0] == times[1] is not None


def test_what_has_no_stages_is_refused() -> None:
    problem = load_problem("quadratic")
    with pytest.raises(TrainingError, match="this run has none"):
        learn_pipeline(problem, watched("all-reduce", 2, 2).timeline)
    array = load_array("ring-8", ["devices.0.count=2"])
    plain = simulate(lenet(), data_parallel(lenet(), DEPLOYED.planned(array), 8), array, DEPLOYED)
    with pytest.raises(TrainingError, match="this run has none"):
        learn_pipeline(problem, plain)
