"""The problems' gradients against differences of their losses."""

import numpy as np
import pytest

from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.learning.problems import PROBLEMS, Problem, Quadratic, load_problem
from simulator.engine.jobs import Floats


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradients_are_slopes_of_the_loss(name: str) -> None:
    """The mean gradient over all data, against central differences of the loss on them."""
    problem = load_problem(name, 4)
    rng = np.random.default_rng(1)
    model = rng.standard_normal(problem.size) * 0.5
    gradient = full_gradient(problem, model)
    slopes = np.zeros(problem.size)
    for i in range(problem.size):
        step = np.zeros(problem.size)
        step[i] = 1e-5
        slopes[i] = (problem.loss(model + step) - problem.loss(model - step)) / 2e-5
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-7)


def full_gradient(problem: Problem, model: Floats) -> Floats:
    if isinstance(problem, Quadratic):  # without its noise
        return np.asarray(problem.curvature * (model - problem.optimum))
    inputs, targets = problem.inputs, problem.targets  # type: ignore[attr-defined]
    problem._batch = lambda *_: (inputs, targets)  # type: ignore[attr-defined]
    return np.asarray(problem.gradient(model, 0, 0))


def test_the_quadratics_optimum_is_known() -> None:
    problem = Quadratic(2)
    assert problem.loss(problem.optimum) == 0
    noise = [problem.gradient(problem.optimum, w, k) for w in range(30) for k in range(30)]
    assert np.abs(np.mean(noise, axis=0)).max() < 0.02
    assert np.std(noise) == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("name", PROBLEMS)
def test_batches_depend_on_seed_worker_and_iteration_alone(name: str) -> None:
    one, same, other = load_problem(name, 1), load_problem(name, 1), load_problem(name, 2)
    model = one.start() + 0.1
    first = one.gradient(model, 3, 4)
    one.gradient(model, 0, 0)
    assert (same.gradient(model, 3, 4) == first).all()
    assert (one.gradient(model, 3, 4) == first).all()
    for changed in (
        one.gradient(model, 3, 5),
        one.gradient(model, 4, 4),
        other.gradient(model, 3, 4),
    ):
        assert (changed != first).any()


def test_an_unknown_problem_is_named() -> None:
    with pytest.raises(TrainingError, match="'imagenet': one of quadratic, logistic, two-layer"):
        load_problem("imagenet")
