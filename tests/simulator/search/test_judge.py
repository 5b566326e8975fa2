"""The judge keeps the first of the fastest plans, and simulates none twice."""

from dataclasses import replace

from hardware import load_array
from planners import PLANNERS, TIME
from simulator import DEPLOYED, simulate
from simulator.search.judge import Judge
from workloads import load_network

NETWORK = load_network("alexnet")
ARRAY = DEPLOYED.planned(load_array("tpu-v3-8"))


def test_the_fastest_is_kept() -> None:
    judge = Judge(NETWORK, ARRAY, DEPLOYED)
    plans = [PLANNERS[name](NETWORK, ARRAY, 512, TIME) for name in PLANNERS]
    taken = [simulate(NETWORK, plan, ARRAY, DEPLOYED).iteration_s for plan in plans]
    for plan in plans:
        judge.seconds(plan)
    assert judge.best_s == min(taken)
    assert judge.best is plans[taken.index(min(taken))]


def test_the_same_splits_are_simulated_once() -> None:
    judge = Judge(NETWORK, ARRAY, DEPLOYED)
    plan = PLANNERS["accpar"](NETWORK, ARRAY, 512, TIME)
    first = judge.seconds(plan)
    spent = judge.spent
    assert judge.seconds(replace(plan, planner="another")) == first
    assert (judge.evaluations, judge.spent) == (1, spent)


def test_a_plan_with_an_idle_half_is_another() -> None:
    """A share of 1 that a planner ended at is charged, a half that sits out is not."""
    boards = load_array("accpar-mixed", ["devices.0.count=1", "devices.1.count=1"])
    plan = PLANNERS["data_parallel"](NETWORK, boards, 512, TIME)
    assert plan.root is not None
    only = tuple(replace(p, share=0.0) for p in plan.root.partitions)
    judge = Judge(NETWORK, boards, replace(DEPLOYED, model="published"))
    charged = judge.seconds(replace(plan, root=replace(plan.root, partitions=only)))
    idle = judge.seconds(replace(plan, root=replace(plan.root, partitions=only, idle=True)))
    assert idle < charged
