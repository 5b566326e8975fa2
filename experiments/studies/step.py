"""One training step, planned and simulated: what every study is made of."""

from __future__ import annotations

from hardware import Array
from planners import TIME, Objective, Plan, load_planner
from simulator import PUBLISHED, Execution, Timeline, simulate
from workloads import Network


def plan_step(
    network: Network,
    planner: str,
    array: Array,
    batch: int,
    objective: Objective = TIME,
    execution: Execution = PUBLISHED,
) -> Plan:
    """The plan of the planner called ``planner``; it sees the array as ``execution`` runs it."""
    solve = load_planner(planner)
    return solve(network, execution.planned(array), batch, objective)


def run_step(
    network: Network,
    planner: str,
    array: Array,
    batch: int,
    objective: Objective = TIME,
    execution: Execution = PUBLISHED,
    *,
    folded: bool = True,
) -> tuple[Plan, Timeline]:
    """Plan, then simulate."""
    plan = plan_step(network, planner, array, batch, objective, execution)
    return plan, simulate(network, plan, array, execution, folded=folded)
