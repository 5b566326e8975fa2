"""Layouts of like cores: the likely best ones, in order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from hardware import Array, Device
from planners.partition import I
from simulator.lowering.execution import Execution
from simulator.planning.branches import with_branches
from simulator.planning.chain import Chain
from simulator.planning.lifting import leaves_of
from simulator.planning.tables import Cores, Tables
from workloads import Network

MOST_CORES = 1 << 10
"""Of one kind; more are planned by the other planners alone."""


def first_cores(array: Array, device: Device, size: int) -> Cores | None:
    """The first ``size`` cores of a kind; None unless they halve into alike ones all the way."""
    most = leaves_of(array.group, device)
    if size & (size - 1) or most & (most - 1) or size > MOST_CORES:
        return None
    first = array.first
    for other, _ in array.group.kinds:
        if other == device:
            break
        first += leaves_of(array.group, other)
    return Cores(array, device, first, size.bit_length() - 1)


@lru_cache(maxsize=64)
def tables_of(
    network: Network,
    batch: int,
    cores: Cores,
    execution: Execution,
    *,
    hollow: bool = False,
    runs: int | None = None,
) -> Tables:
    """The costs of a network on like cores (kept for the last few)."""
    return Tables(network, batch, cores, execution, hollow=hollow, runs=runs)


def layouts(chain: Chain) -> Iterator[tuple[int, ...]]:
    """Layouts by the numbers of their states, likely ones first, each once."""
    seen = set[tuple[int, ...]]()
    for picks in _likely(chain):
        if picks not in seen:
            seen.add(picks)
            yield picks


def _likely(chain: Chain) -> Iterator[tuple[int, ...]]:
    for found in chain.best():
        yield found.picks
        yield from with_branches(chain, found.weight)
    samples = (I,) * chain.tables.cores.levels
    if all(samples in costs.states.numbers for costs in chain.nodes):
        yield tuple(costs.states.numbers[samples] for costs in chain.nodes)
