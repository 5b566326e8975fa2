"""Phaze's placement against its formula over all placements, and what its program printed."""

import json
import math
import random
from itertools import combinations
from pathlib import Path

import pytest

from planners import PlanError
from planners.pipeline.phaze import PhazeLayers, Training, layers_of, phaze, read_phaze
from planners.pipeline.profile import Profile, ProfileNode


def toy(count: int = 24) -> PhazeLayers:
    """Layers of 10 and 20 ms, 200 MB of parameters, 1 GB of activations, edges of 16 MB."""
    return PhazeLayers(
        "toy",
        tuple(map(str, range(count))),
        (0.01,) * count,
        (0.02,) * count,
        (200e6,) * count,
        (1e9,) * count,
        tuple((i, i + 1, 16e6) for i in range(count - 1)),
    )


@pytest.mark.parametrize(
    ("devices", "seconds", "pipelines", "stages"),
    [(8, 48.596943, 4, [12] * 2), (16, 25.394216, 4, [6] * 4), (64, 7.407936, 8, [3] * 8)],
)
def test_what_the_program_printed(
    devices: int, seconds: float, pipelines: int, stages: list[int]
) -> None:
    """msr-fiddle/phaze fed7cde, Solver/device_placement, with SGD and 32 GB a device."""
    plan = phaze(toy(), devices, Training(512, 4 * 2.0**30, 32e9))
    assert plan.batch_s == pytest.approx(seconds, rel=1e-6)
    assert plan.pipelines == pipelines
    assert [len(nodes) for nodes in plan.stages] == stages
    assert not plan.notes


def slow_batch(layers: PhazeLayers, ends: list[int], pipelines: int, how: Training) -> float:
    """The formula for stages that end before these layers, one event after the other."""
    starts = [0, *ends[:-1]]
    slowest = 0.0
    for number, (first, end) in enumerate(zip(starts, ends, strict=True)):
        behind = len(ends) - number - 1
        own = range(first, end)

        def arrival(layer: int, forward: bool, own: range = own) -> float:
            pairs = [(a, b, s) if forward else (b, a, s) for a, b, s in layers.edges]
            return max((s for a, b, s in pairs if b == layer and a not in own), default=0.0)

        forward = backward = 0.0
        for layer in own:
            start = max(forward, arrival(layer, True) / how.bytes_per_s)
            forward = start + layers.forward_s[layer]
        if how.recompute and behind:
            backward = sum(layers.forward_s[layer] for layer in own)
        for layer in reversed(own):
            start = max(backward, arrival(layer, False) / how.bytes_per_s)
            backward = start + layers.backward_s[layer]
        weights = sum(layers.parameter_bytes[layer] for layer in own)
        kept = sum(layers.activation_bytes[layer] for layer in own)
        stash = kept
        if how.recompute:
            stash = sum(s for a, b, s in layers.edges if b in own and a not in own)
        if (3 if how.adam else 2) * weights + kept + behind * stash > how.memory_bytes:
            return math.inf
        slowest = max(slowest, forward + backward)
    rounds = math.ceil(how.micro_batches / pipelines) + len(ends) - 1
    first_weights = sum(layers.parameter_bytes[: ends[0]])
    return slowest * rounds + 4 * (pipelines - 1) / pipelines * first_weights / how.bytes_per_s


def slow_least(layers: PhazeLayers, devices: int, how: Training) -> float:
    count = len(layers.layers)
    return min(
        slow_batch(layers, [*cuts, count], pipelines, how)
        for stages in range(1, min(count, devices) + 1)
        for cuts in combinations(range(1, count), stages - 1)
        for pipelines in range(1, min(devices // stages, how.micro_batches) + 1)
    )


def random_layers(dice: random.Random) -> PhazeLayers:
    count = dice.randint(1, 6)
    skips = [(a, b) for a in range(count) for b in range(a + 2, count) if dice.random() < 0.3]
    edges = sorted({*((i, i + 1) for i in range(count - 1)), *skips})

    def values() -> tuple[float, ...]:
        return tuple(float(dice.randint(0, 9)) for _ in range(count))

    return PhazeLayers(
        "random",
        tuple(map(str, range(count))),
        values(),
        values(),
        values(),
        values(),
        tuple((a, b, float(dice.randint(0, 30))) for a, b in edges),
    )


@pytest.mark.parametrize("seed", range(150))
def test_all_placements_of_few_layers(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  (not cryptography)
    layers, devices = random_layers(dice), dice.randint(1, 8)
    how = Training(
        dice.randint(1, 9),
        float(dice.randint(1, 9)),
        float(dice.choice([1000, 60, 40, 20])),
        dice.random() < 0.5,
        dice.random() < 0.5,
    )
    wanted = slow_least(layers, devices, how)
    if math.isinf(wanted):
        with pytest.raises(PlanError, match="no placement on"):
            phaze(layers, devices, how)
        return
    plan = phaze(layers, devices, how)
    assert plan.batch_s == pytest.approx(wanted, rel=1e-12)
    assert sum(plan.stages, ()) == layers.layers
    ends = [sum(map(len, plan.stages[: i + 1])) for i in range(len(plan.stages))]
    assert slow_batch(layers, ends, plan.pipelines, how) == pytest.approx(wanted, rel=1e-12)
    assert plan.pipelines * len(plan.stages) <= devices


def test_a_profiles_layers() -> None:
    nodes = [ProfileNode(n, "", 1.0, 2.0, 8.0, 4.0) for n in "cba"]
    layers = layers_of(Profile("p", tuple(nodes), ((2, 1), (1, 0), (2, 0))))
    assert layers.layers == ("a", "b", "c")
    assert set(layers.edges) == {(0, 1, 8.0), (1, 2, 8.0), (0, 2, 8.0)}
    assert not phaze(layers, 1, Training(1, 1.0, 1e9)).notes  # a chain with a skip


def test_branches_are_cut_in_one_order_and_that_is_said() -> None:
    nodes = [ProfileNode(n, "", 1.0, 2.0, 8.0, 4.0) for n in "abcd"]
    layers = layers_of(Profile("p", tuple(nodes), ((0, 1), (0, 2), (1, 3), (2, 3))))
    (said,) = phaze(layers, 2, Training(1, 1.0, 1e9)).notes
    assert "other orders are not tried" in said


def test_too_much_is_refused() -> None:
    with pytest.raises(PlanError, match="at most 1000 on 10000"):
        phaze(toy(1001), 1, Training(1, 1.0, 1e18))
    with pytest.raises(PlanError, match="at most 1000 on 10000"):
        phaze(toy(2), 10_001, Training(1, 1.0, 1e18))


def as_file(layers: PhazeLayers) -> dict[str, object]:
    """Phaze's JSON, layers last to first, ids from -1 on."""
    rows = zip(
        layers.forward_s,
        layers.backward_s,
        layers.parameter_bytes,
        layers.activation_bytes,
        strict=True,
    )
    keys = ("optimalLatencyFw", "optimalLatencyBw", "parameterSize", "activationSize")
    nodes = [{"id": i - 1} | dict(zip(keys, row, strict=True)) for i, row in enumerate(rows)]
    edges = [
        {"sourceId": a - 1, "destId": b - 1, "communicationCost": s} for a, b, s in layers.edges
    ]
    return {"nodes": {"1": nodes[::-1]}, "edges": {"1": edges}}


def test_phazes_own_files(tmp_path: Path) -> None:
    path = tmp_path / "toy.json"
    path.write_text(json.dumps(as_file(toy())))
    layers = read_phaze(path)
    assert layers.layers[:2] == ("-1", "0")
    plan = phaze(layers, 16, Training(512, 4 * 2.0**30, 32e9))
    assert plan.batch_s == pytest.approx(25.394216, rel=1e-6)
