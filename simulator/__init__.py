"""What happens, when: lowering a plan to operations and running them on SimPy."""

from hardware import Array
from planners import Plan
from simulator.collectives.algorithms import COLLECTIVES, CollectiveError
from simulator.collectives.choice import ALGORITHMS, chosen, run_alone
from simulator.collectives.closed_forms import closed_form
from simulator.engine.errors import DeadlockError, OutOfMemoryError, SimulationError
from simulator.engine.machine import Machine, run
from simulator.engine.occupancy import DeviceMemory, overflow
from simulator.engine.operations import PICOSECONDS, Branch, Leaf, Operation, Program
from simulator.engine.timeline import Record, Shares, Timeline
from simulator.lowering.deployed import lower_deployed
from simulator.lowering.execution import DEPLOYED, PUBLISHED, Execution
from simulator.lowering.folding import fold
from simulator.lowering.published import lower
from workloads import Network

MODEL_VERSION = 3
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
    plan does not fit, SimulationError beyond the limits.
    """
    return run(program_of(network, plan, array, execution, folded=folded))


def program_of(
    network: Network,
    plan: Plan,
    array: Array,
    execution: Execution = PUBLISHED,
    *,
    folded: bool = True,
) -> Program:
    """What ``simulate`` runs."""
    if not folded and array.group.cores > MOST_PROCESSES:
        raise SimulationError(
            f"unfolded, {array.group.cores:,} cores are too many processes (at most "
            f"{MOST_PROCESSES:,}); folded they give the same result"
        )
    if execution.model == "deployed":
        cores = execution.planned(array)
        return lower_deployed(network, plan, cores, execution, folded=folded)
    program = lower(network, plan, array)
    return fold(program) if folded else program


__all__ = [
    "ALGORITHMS",
    "COLLECTIVES",
    "DEPLOYED",
    "MODEL_VERSION",
    "PICOSECONDS",
    "PUBLISHED",
    "Branch",
    "CollectiveError",
    "DeadlockError",
    "DeviceMemory",
    "Execution",
    "Leaf",
    "Machine",
    "Operation",
    "OutOfMemoryError",
    "Program",
    "Record",
    "Shares",
    "SimulationError",
    "Timeline",
    "chosen",
    "closed_form",
    "fold",
    "lower",
    "overflow",
    "program_of",
    "run",
    "run_alone",
    "simulate",
]
