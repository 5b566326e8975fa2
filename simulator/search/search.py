"""The planner that asks the simulator: never slower than any other one's plan that flushes."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from math import inf
from operator import itemgetter

from hardware import Array
from planners import TIME, Objective, Plan, PlanError, Staging
from planners.errors import check_batch
from simulator.collectives.algorithms import CollectiveError
from simulator.cost.memory import capacity_bytes
from simulator.engine.errors import OutOfMemoryError
from simulator.engine.replay import run
from simulator.lowering.execution import DEPLOYED, PUBLISHED, Execution
from simulator.lowering.models import rules_of
from simulator.lowering.step.training_step import training_step
from simulator.search.bounds import work_bound_s
from simulator.search.candidates import (
    alone,
    of_planners,
    on_subset,
    planned,
    powers_of_two,
    with_one_share,
)
from simulator.search.judge import Judge
from simulator.search.layout_search import LayoutSearch
from simulator.search.shares import best_share, with_better_shares, with_other_buckets
from workloads import Network

NAME = "search"
FAIR = 1.5
"""Data parallelism's share is improved where it takes less than so many times the best step.

Improving gains no more than that, if a kind's true speed lies between an even one and that of its
peak. Worst is a kind of twice the speed and an infinite peak: an even share takes 1/2 of the time,
the best 1/3.
"""


def search(
    network: Network,
    array: Array,
    batch: int,
    objective: Objective = TIME,
    *,
    execution: Execution | None = None,
    enough_s: float = inf,
) -> Plan:
    """The plan whose simulated step is shortest, of planners without stages and of its own.

    Judged by the step itself under ``execution`` (None: deployed where the array
    ends in cores, else published), folded; the objective prices the result, and is
    what the other planners plan by. Candidates are the built-in planners' plans,
    these with one share for all layers where kinds of devices part, data parallelism with
    the best one, and the built-in planners' on every power of two of each kind, all other
    devices idle; deployed also layouts of one kind; each with its updates as ``execution.update``
    asks, as gradients arrive unless ``execution`` says otherwise. The best also have buckets of
    other sizes, unless ``execution`` says one. With strict memory the best of all is taken if it
    fits; else only what fits counts, if anything does. Where the ``execution`` leaves stages open,
    the best pipeline over kinds of devices (``stages_over_kinds``) is in place of it where that is
    faster. Of plans that do not fit one that takes ``enough_s`` is answered as it is, as one that
    fits would take longer still.
    """
    check_batch(batch)
    if execution is None:
        execution = DEPLOYED if array.group.leaf == "core" else PUBLISHED
    if execution.staging and execution.staging.is_open:
        return _with_stages(network, array, batch, objective, execution)
    if execution.strict_memory:
        free = replace(execution, strict_memory=False)
        plan = search(network, array, batch, objective, execution=free)
        step = training_step(rules_of(network, plan, array, free, folded=True))
        if all(one.fits for one in step.memory) or run(step).iteration_s >= enough_s:
            return plan
    trained = execution.model == "deployed" and not execution.inference
    judge = Judge(network, array, execution, arrival=trained and not execution.update_order)
    if execution.model == "deployed":  # before the others, of which a good one rules most out
        _layouts(judge, batch, objective)
    for plan in of_planners(network, array, batch, objective):
        for one in (plan, *with_one_share(plan, array.group)):
            judge.seconds(one)
    if len(array.group.kinds) > 1:
        fairest = partial(best_share, execution=execution, enough_s=FAIR * judge.best_s)
        fair = planned(fairest, network, array, batch, objective)
        if fair is not None:
            judge.seconds(fair)
    _subsets(judge, batch, objective)
    with_better_shares(judge)
    with_other_buckets(judge)
    return judge.answer(objective, NAME, f"no planner has a plan for {network.name!r}")


def _with_stages(
    network: Network, array: Array, batch: int, objective: Objective, execution: Execution
) -> Plan:
    """The best pipeline, or the best plan without one: of those that fit the faster one."""
    from simulator.search.kinds.over_kinds import check_kinds, simulated_s, stages_over_kinds

    check_open(execution.staging or Staging())
    check_kinds(array, execution)
    whole = replace(execution, staging=None, strict_memory=True)
    found, reasons = list[tuple[float, Plan]](), list[str]()
    for staged in (True, False):
        try:
            if staged:
                plan = stages_over_kinds(network, array, batch, objective, execution)
            else:
                least_s = min((seconds for seconds, _ in found), default=inf)
                plan = search(network, array, batch, objective, execution=whole, enough_s=least_s)
            found.append((simulated_s(network, plan, array, execution), plan))
        except (PlanError, CollectiveError, OutOfMemoryError) as error:
            reasons.append(str(error))
    if not found:
        raise PlanError(reasons[0])
    return replace(min(found, key=itemgetter(0))[1], planner=NAME)


def check_open(staging: Staging) -> None:
    """Raise PlanError where anything is named that a search of stages chooses, or leaves out."""
    open_ = Staging(stages=0)
    for one in fields(Staging):
        if getattr(staging, one.name) != getattr(open_, one.name):
            flag = one.name.replace("_", "-")
            raise PlanError(f"stages=auto: the search takes no {flag}; leave it out")


BYTE_PRICES = (0.1, 0.4, 1.6, 6.4, 25.6)
"""Of a core's whole memory, in the seconds of a step, tried in turn where a plan must fit."""


def _layouts(judge: Judge, batch: int, objective: Objective) -> None:
    """Layouts of every subset of one kind; where some do not fit, smaller ones."""
    like = Plan.blank(NAME, judge.network, batch, objective)
    LayoutSearch(judge, like).run()
    if judge.unfit:
        work_s = work_bound_s(judge.network, judge.array, batch, judge.execution)
        whole_s = min(judge.best_s, 4 * work_s) / capacity_bytes(judge.array.group.kinds)
        for price in BYTE_PRICES:
            LayoutSearch(judge, like, price * whole_s).run()


def _subsets(judge: Judge, batch: int, objective: Objective) -> None:
    """The planners' plans for subsets whose work alone does not take longer than the best."""
    network, array = judge.network, judge.array
    for device, size in powers_of_two(array):
        part = alone(array, device, size)
        if part and work_bound_s(network, part, batch, judge.execution) < judge.best_s:
            for plan in on_subset(network, array, batch, objective, device, size):
                judge.seconds(plan)
