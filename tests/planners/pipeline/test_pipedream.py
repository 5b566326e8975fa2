"""The dynamic program against every pipeline of short chains, and against the program's answers."""

import json
import math
import os
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from planners import PlanError
from planners.pipeline.cost_models import Level, Paper, Repo
from planners.pipeline.pipedream import Rules, plan_stages
from planners.pipeline.profile import Profile, ProfileNode, planned_part, read_profile
from planners.pipeline.states import states_of
from tests.planners.pipeline import slow_pipedream as slow

DATA = Path(__file__).parents[2] / "data" / "pipedream"
PROFILES = Path(__file__).parents[3] / "experiments" / "published" / "profiles"
ORACLE = [json.loads(line) for line in (DATA / "oracle.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("line", ORACLE, ids=lambda o: f"{o['profile']}-{o['n']}-{o['bw'][-1]:g}")
def test_the_programs_answers(line: dict) -> None:  # type: ignore[type-arg]
    profile, _ = planned_part(read_profile(PROFILES / f"{line['profile']}.txt"))
    states = states_of(profile, first_source=True)
    assert len(states) == line["states"]
    assert not line["mem"]
    levels = [
        Level(count, bandwidth) for count, bandwidth in zip(line["n"], line["bw"], strict=True)
    ]
    rules = Rules(line["straight"], line["fewer"])
    plan = plan_stages(states, levels, Repo(line["acr"]), rules)
    assert plan.single_s == pytest.approx(line["total"], rel=1e-12)
    assert plan.pipeline_s == pytest.approx(line["pp"], rel=1e-12)
    assert plan.data_parallel_s == pytest.approx(line["dp"], rel=1e-12)
    replicas = sum(stage.replicas for stage in plan.stages)
    assert replicas == math.prod(line["n"]) or line["fewer"]


def test_the_oracle_is_whole() -> None:
    assert len(ORACLE) == 57
    assert {len(line["n"]) for line in ORACLE} == {1, 2}


def random_chain(dice: random.Random) -> slow.Chain:
    count = dice.randint(1, 6)
    return slow.Chain(
        *([Fraction(dice.choice([0, *range(20)])) for _ in range(count)] for _ in range(3))
    )


def as_states(chain: slow.Chain) -> list[tuple[str, Profile]]:
    """The chain with its nodes in order, and in reverse."""
    nodes = [
        ProfileNode(f"layer{i}", "", float(chain.work[i]), 0.0, float(chain.outputs[i]), float(w))
        for i, w in enumerate(chain.weights)
    ]
    edges = [(i, i + 1) for i in range(len(nodes) - 1)]
    last = len(nodes) - 1
    turned = tuple((last - a, last - b) for a, b in edges)
    return [
        ("in order", Profile("chain", tuple(nodes), tuple(edges))),
        ("reversed", Profile("chain", tuple(reversed(nodes)), turned)),
    ]


@pytest.mark.parametrize("seed", range(120))
@pytest.mark.parametrize("model", ["paper", "repo"])
def test_every_pipeline_of_short_chains(model: str, seed: int) -> None:
    dice = random.Random(1000 * seed + (model == "paper"))  # noqa: S311  (not cryptography)
    chain = random_chain(dice)
    levels = [
        (dice.randint(1, 4), Fraction(dice.randint(1, 9))) for _ in range(dice.choice([1, 1, 2]))
    ]
    ratio = dice.choice([None, Fraction(1), Fraction(2)])
    rules: dict[str, Fraction] = {}
    if dice.random() < 0.3:
        rules["straight"] = Fraction(1)
    if dice.random() < 0.4:
        rules["memory"] = Fraction(dice.randint(10, 120))
    brute = slow.in_repo if model == "repo" else slow.in_paper
    wanted = brute(chain, levels, ratio, **rules)
    ours = Repo if model == "repo" else Paper
    memory = float(rules["memory"]) if "memory" in rules else None
    for how, profile in as_states(chain):
        planned = [Level(count, float(bandwidth)) for count, bandwidth in levels]
        args = (
            planned,
            ours(None if ratio is None else float(ratio)),
            Rules("straight" in rules, False, memory),
        )
        if wanted == slow.INFINITE:
            with pytest.raises(PlanError, match="devices"):
                plan_stages(states_of(profile), *args)
            continue
        plan = plan_stages(states_of(profile), *args)
        assert plan.pipeline_s == pytest.approx(float(wanted), rel=1e-12, abs=1e-12), how
        names = [name for stage in plan.stages for name in stage.nodes]
        assert names == [f"layer{i}" for i in range(len(chain.work))]
        assert sum(stage.replicas for stage in plan.stages) == math.prod(c for c, _ in levels)


@pytest.mark.parametrize("seed", range(60))
def test_machines_in_machines_under_light_exchanges(seed: int) -> None:
    """Where it decides whether a unit's inner links carry an exchange: light last layers."""
    dice = random.Random(seed)  # noqa: S311  (not cryptography)
    count = dice.randint(2, 4)
    work = [Fraction(dice.randint(4, 12)) for _ in range(count)]
    weights = [Fraction(dice.randint(0, 3)) for _ in range(count)]
    chain = slow.Chain(work, [Fraction(dice.randint(0, 2)) for _ in range(count)], weights)
    levels = [(dice.randint(2, 3), Fraction(8)), (dice.randint(2, 5), Fraction(dice.randint(1, 3)))]
    planned = [Level(machines, float(bandwidth)) for machines, bandwidth in levels]
    plan = plan_stages(states_of(as_states(chain)[0][1]), planned, Repo(1.0))
    assert plan.pipeline_s == pytest.approx(float(slow.in_repo(chain, levels, Fraction(1))))


def stage_times(profile: Profile, plan: object, bandwidth: float) -> list[float]:
    """The paper's times of a plan's stages and cuts on one level, from the plan alone."""
    at = {node.name: node for node in profile.nodes}
    names = [node.name for node in profile.nodes]
    found, done = [], set[str]()
    for stage in plan.stages:  # type: ignore[attr-defined]
        own = [at[name] for name in stage.nodes]
        work = sum(node.forward_s + node.backward_s for node in own)
        weights = sum(node.parameter_bytes for node in own)
        replicas = stage.replicas
        found.append(max(work, 2 * (replicas - 1) / replicas * weights / bandwidth) / replicas)
        live = {a for a, b in profile.edges if names[a] in done and names[b] not in done}
        found.append(2 * sum(profile.nodes[v].activation_bytes for v in live) / bandwidth)
        done |= set(stage.nodes)
    assert done == set(names)
    return found


@pytest.mark.parametrize("name", ["vgg16", "resnet18", "squeezenet1_0", "gnmt"])
@pytest.mark.parametrize("devices", [2, 5, 8])
def test_a_plan_takes_what_it_says(name: str, devices: int) -> None:
    profile, _ = planned_part(read_profile(PROFILES / f"{name}.txt"))
    plan = plan_stages(states_of(profile), [Level(devices, 3e9)], Paper())
    assert max(stage_times(profile, plan, 3e9)) == pytest.approx(plan.pipeline_s, rel=1e-9)


def test_what_more_machines_and_fewer_rules_can_only_help() -> None:
    profile, _ = planned_part(read_profile(PROFILES / "resnet18.txt"))
    states = states_of(profile)
    free = [
        plan_stages(states, [Level(n, 1e9)], Repo(1.0), Rules(fewer=True)).pipeline_s
        for n in range(1, 9)
    ]
    assert free == sorted(free, reverse=True)
    all_of_them = plan_stages(states, [Level(8, 1e9)], Repo(1.0)).pipeline_s
    straight = plan_stages(states, [Level(8, 1e9)], Repo(1.0), Rules(straight=True)).pipeline_s
    assert free[-1] <= all_of_them <= straight


def test_minibatches_in_flight() -> None:
    profile, _ = planned_part(read_profile(PROFILES / "vgg16.txt"))
    plan = plan_stages(states_of(profile), [Level(16, 1.25e9)], Paper())
    assert [stage.replicas for stage in plan.stages] == [15, 1]  # the paper's 15-1
    assert plan.in_flight == 2


def test_progress_is_told_once_per_level_and_state() -> None:
    chain = slow.Chain(*([Fraction(i + 1) for i in range(4)] for _ in range(3)))
    told: list[str] = []
    states = states_of(as_states(chain)[0][1])
    plan_stages(states, [Level(2, 1.0), Level(3, 1.0)], Repo(), done=told.append)
    assert len(told) == 2 * 4


def test_a_straight_pipeline_needs_a_layer_for_each_device() -> None:
    chain = slow.Chain(*([Fraction(1)] * 3 for _ in range(3)))
    states = states_of(as_states(chain)[0][1])
    assert len(plan_stages(states, [Level(3, 1.0)], Paper(), Rules(straight=True)).stages) == 3
    with pytest.raises(PlanError, match=r"4 devices has as many stages, .* cut into 3 at most"):
        plan_stages(states, [Level(4, 1.0)], Paper(), Rules(straight=True))


def test_a_table_that_would_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planners.pipeline.pipedream.MOST_NUMBERS", 100)
    chain = slow.Chain(*([Fraction(1)] * 6 for _ in range(3)))
    states = states_of(as_states(chain)[0][1])
    plan_stages(states, [Level(2, 1.0)], Paper())
    with pytest.raises(PlanError, match="6 ways to cut it in two and a level of 2"):
        plan_stages(states, [Level(2, 1.0), Level(2, 1.0)], Paper())


ROOT = Path(__file__).parents[3]
RESNET = ROOT / "experiments" / "published" / "profiles" / "resnet18.txt"


def test_plans_do_not_depend_on_the_hash_seed() -> None:
    command = [sys.executable, "-m", "experiments.cli", "plan", "--profile", str(RESNET)]
    command += ["--planner", "pipedream", "--cost-model", "repo", "--format", "json"]
    command += ["--hierarchy", "4@10 GB/s,2@1 GB/s"]
    printed = {
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        ).stdout
        for seed in ("1", "2")
    }
    (text,) = printed
    assert sum(stage["replicas"] for stage in json.loads(text)["stages"]) == 8
