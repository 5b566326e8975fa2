"""What operations cost in joules, by the parameters of the devices that do them.

Zero for a device whose spec says nothing; ``Timeline.energy_j`` is None then.
"""

from __future__ import annotations

from collections.abc import Sequence

from hardware import Device, Group


def computing_j(device: Device, flops: float) -> float:
    """Joules of FLOPs: a multiply-add is two."""
    return 0.0 if device.energy is None else flops / 2 * device.energy.mac_j


def receiving_j(sides: Sequence[Group], received: Sequence[float]) -> float:
    """Joules of the bytes each side receives; a side of several kinds pays their mean."""
    return sum(
        amount * _transfer_j_per_byte(side) for side, amount in zip(sides, received, strict=True)
    )


def _transfer_j_per_byte(group: Group) -> float:
    each = [(d.energy.transfer_j_per_byte if d.energy else 0.0, n) for d, n in group.kinds]
    return sum(joules * count for joules, count in each) / group.size
