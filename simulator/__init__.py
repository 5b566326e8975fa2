"""What happens, when: lowering a plan to operations and running them on SimPy."""

from hardware import Array
from planners import Plan
from simulator.lower import lower
from simulator.machine import DeadlockError, Machine, run
from simulator.program import Branch, Leaf, Operation, Program
from simulator.timeline import Record, Shares, Timeline
from workloads import Network


def simulate(network: Network, plan: Plan, array: Array) -> Timeline:
    """One training step of ``network`` under ``plan`` on ``array``."""
    return run(lower(network, plan, array))


__all__ = [
    "Branch",
    "DeadlockError",
    "Leaf",
    "Machine",
    "Operation",
    "Program",
    "Record",
    "Shares",
    "Timeline",
    "lower",
    "run",
    "simulate",
]
