"""The dynamic program in NumPy against the same recurrence written in plain sets, on graphs."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from planners.pipedream import Level, Profile, ProfileNode, Repo, plan_stages, states_of
from tests.planners.pipedream.slow_graphs import SlowRepo

ROOT = Path(__file__).parents[3]
RESNET = ROOT / "experiments" / "published" / "profiles" / "resnet18.txt"


def random_profile(dice: random.Random) -> Profile:
    """Up to six layers in one connected graph, now and then with a second source."""
    count = dice.randint(1, 6)
    nodes = tuple(
        ProfileNode(
            f"n{i}",
            "",
            float(dice.randint(0, 9)),
            float(dice.randint(0, 9)),
            float(dice.randint(0, 12)),
            float(dice.randint(0, 6)),
        )
        for i in range(count)
    )
    edges = set()
    for target in range(1, count):
        if target == count - 1 or dice.random() < 0.6:
            edges |= {(source, target) for source in dice.sample(range(target), 1)}
        if dice.random() < 0.5:
            edges.add((dice.randrange(target), target))
    lonely = [v for v in range(count - 1) if not any(v in edge for edge in edges)]
    edges |= {(v, count - 1) for v in lonely}
    profile = Profile("random", nodes, tuple(sorted(edges)))
    return profile if _connected(count, edges) else random_profile(dice)


def _connected(count: int, edges: set[tuple[int, int]]) -> bool:
    reached = {0}
    for _ in range(count):
        reached |= {v for edge in edges if reached & set(edge) for v in edge}
    return len(reached) == count


@pytest.mark.parametrize("seed", range(150))
def test_both_writings_agree(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  (not cryptography)
    profile = random_profile(dice)
    many = dice.choice([1, 1, 2, 2, 3])
    levels = [
        (dice.randint(1, 4 if many < 3 else 2), dice.choice([1.0, 3.0, 20.0])) for _ in range(many)
    ]
    ratio = dice.choice([None, 1.0, 4.0])
    slow = SlowRepo(profile, levels, ratio)
    states = states_of(profile)
    assert len(states) == len(slow.states)
    plan = plan_stages(states, [Level(*level) for level in levels], Repo(ratio))
    assert plan.pipeline_s == pytest.approx(slow.answer(), rel=1e-12, abs=1e-12)


def test_graphs_with_second_sources_and_branches_are_among_them() -> None:
    """Otherwise the comparison above would be one of chains."""
    found = [random_profile(random.Random(seed)) for seed in range(150)]  # noqa: S311
    sources = [set(range(len(p.nodes))) - {b for _, b in p.edges} for p in found]
    assert sum(len(one) > 1 for one in sources) > 20
    assert sum(len(states_of(p)) > len(p.nodes) for p in found) > 40


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
