"""Ways to reduce that need wires of their own: cables between nodes, or a switch that sums."""

from __future__ import annotations

from typing import cast

import numpy as np

from simulator.collectives.cable_rings import Strung, strung
from simulator.collectives.cache import cached
from simulator.collectives.groups import Groups
from simulator.collectives.messages import Carried, Pattern, following, phase_of


def nothing(groups: Groups) -> str | None:  # noqa: ARG001
    """What most ways need of wires."""
    return None


def one_group(groups: Groups) -> str | None:
    """What one to many is not of: groups that run together."""
    return None if groups.count == 1 else f"it is of one group, not of {groups.count} at once"


def cables(groups: Groups) -> str | None:
    """What rings on cables need that is not there."""
    if _strung(groups) is not None:
        return None
    return "cable-rings needs members on cables (topology.levels), as many rings for all"


def summing_switch(groups: Groups) -> str | None:
    """What sums in a switch need that is not there."""
    if _reduces(groups):
        return None
    return "in-switch needs a switch that sums (reduces), with a port for each member"


def _strung(groups: Groups) -> Strung | None:
    return cached("cables", groups.key, lambda: strung(groups.wires, groups.rows))


def _reduces(groups: Groups) -> float:
    """The part of their ports' bandwidth at which a switch sums what members send; 0: none.

    Of members on one switch, each with a port of its own.
    """
    for subnet in groups.wires.subnets:
        region, node = subnet.region[groups.rows], np.sort(subnet.node[groups.rows])
        if region.min() >= 0 and (region == region[:, :1]).all():
            alone = bool((np.diff(node) > 0).all())
            return getattr(subnet.fabric, "reduces", 0.0) if alone else 0.0
    return 0.0


def cable_rings(groups: Groups) -> Pattern:
    """Rings on cables of their own, each both ways, or a chain; see ``cable_rings``.

    Of two members a cable is a ring. Along a chain sums come to its end and go back: both
    ways of a cable carry all once, piece behind piece.
    """
    n, found = groups.size, cast("Strung", _strung(groups))  # there is: a rule of the algorithm
    carried = Carried(groups.loaded(found.flows), found.far)
    if found.rings:
        ways = found.rings * (2 if n > 2 else 1)
        return (phase_of(carried, (n - 1) / n / ways, n - 1),)
    return (phase_of(carried, 0.5, n - 1),)


def in_switch(groups: Groups) -> Pattern:
    """The switch sums what all send, and sends everyone the sum (NVLink SHARP, NCCL's NVLS).

    Each of n members asks for the sum of its piece and hands it out: a piece is sent by
    all and comes once, then is sent once and comes to all. A port carries S (1 + 1/n)
    each way, half in each of two steps, at the part of its bandwidth at which the
    switch sums: links count as busy with what they could have carried meanwhile.
    """
    n = groups.size
    carried = groups.carry(*following(np.arange(n), 0, both_ways=False))  # each port once
    return (phase_of(carried, (n + 1) / n / _reduces(groups), 2),)
