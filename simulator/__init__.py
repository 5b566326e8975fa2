"""What happens, when: lowering a plan to operations and running them on SimPy."""

from dataclasses import replace

from hardware import Array
from planners import Plan, PlanError
from simulator.analysis.exposed_communication import Shares, shares
from simulator.collectives.algorithms import COLLECTIVES, CollectiveError
from simulator.collectives.choice import ALGORITHMS, chosen, offer, offers, run_alone
from simulator.collectives.closed_forms import closed_form
from simulator.collectives.offers import Offer
from simulator.cost.recompute import check
from simulator.engine.errors import DeadlockError, OutOfMemoryError, SimulationError
from simulator.engine.machine import Machine
from simulator.engine.operations import (
    Communicator,
    DeviceMemory,
    Operation,
    Program,
    Task,
    Worker,
    overflow,
)
from simulator.engine.picoseconds import PICOSECONDS
from simulator.engine.replay import replay, run
from simulator.engine.timeline import Record, Timeline
from simulator.lowering.execution import DEPLOYED, PUBLISHED, Execution, deployed, usual
from simulator.lowering.pipeline.program import step_program
from simulator.lowering.pipeline.steady import in_the_long_run
from simulator.lowering.schedules.registry import schedule_of
from workloads import Network, NetworkError

MODEL_VERSION = 38
"""Changes whenever any result does: stored results of another version are not used."""


MOST_PROCESSES = 1 << 20
"""Cores that an unfolded run may simulate, a few kilobytes each."""


def simulate(
    network: Network,
    plan: Plan,
    array: Array,
    execution: Execution = PUBLISHED,
    *,
    folded: bool = True,
) -> Timeline:
    """One training step of ``network`` under ``plan`` on ``array``.

    The plan must be made for the array as the execution model has it
    (``execution.planned(array)``).
    ``folded`` simulates one of each class of devices that do the same; without
    it every core and link is. Times, bytes and FLOPs are the same. Whether
    the step fits in memory is for the caller to ask (``Timeline.memory``), unless
    ``execution.strict_memory``: then OutOfMemoryError. Raises PlanError when the
    plan does not fit, SimulationError beyond the limits, or where a pipeline's schedule
    deadlocks, with who waits for what.
    """

    def program(batches: int = 1) -> Program:
        return program_of(network, plan, array, execution, folded=folded, batches=batches)

    if plan.pipeline is None:
        return run(program())
    schedule = schedule_of(plan.pipeline.schedule)
    try:
        if schedule.flushes and not execution.inference:
            return run(program())
        whole = schedule.whole_batch and not execution.inference
        return in_the_long_run(plan.pipeline, program, whole_batch=whole)
    except DeadlockError as error:
        raise SimulationError(f"schedule {schedule.name!r}: {error}") from error


def program_of(
    network: Network,
    plan: Plan,
    array: Array,
    execution: Execution = PUBLISHED,
    *,
    folded: bool = True,
    batches: int = 1,
) -> Program:
    """What ``simulate`` runs; raises PlanError when the plan is for another network.

    Of several ``batches`` where a pipeline's schedule does not flush, and in inference.
    """
    if not folded and array.group.cores > MOST_PROCESSES:
        raise SimulationError(
            f"unfolded, {array.group.cores:,} cores are too many processes (at most "
            f"{MOST_PROCESSES:,}); folded they give the same result"
        )
    _check_recompute(network, execution)
    return step_program(network, plan, array, execution, folded=folded, batches=batches)


def memory_of(
    network: Network, plan: Plan, array: Array, execution: Execution, batches: int = 1
) -> tuple[DeviceMemory, ...]:
    """``Timeline.memory`` of a step that is not run; what does not fit is no error here.

    Of several ``batches`` where a pipeline's schedule does not flush, and in inference.
    Raises PlanError as ``program_of`` does.
    """
    free = replace(execution, strict_memory=False)
    return program_of(network, plan, array, free, batches=batches).memory


def _check_recompute(network: Network, execution: Execution) -> None:
    try:
        check(network, execution.recompute)
    except NetworkError as error:
        raise PlanError(str(error)) from None
