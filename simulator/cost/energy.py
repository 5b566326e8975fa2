"""What operations cost in joules, by the parameters of the devices that do them.

Both execution models come here, and count what their records count:

    computing   FLOPs / 2 x mac  +  HBM bytes x hbm      on each core
    receiving   bytes received x transfer                by each side of an exchange

Published, an operation's FLOPs are the paper's and it moves nothing in HBM.
Deployed, FLOPs are two a multiply-accumulate (with the padding of a matrix
unit that is filled whole, which it does compute), HBM bytes are the
roofline's, tiles included, and what an exchange's cores receive at least, whatever
its algorithm, is paid alike on every wire, inside a chip as well. Zero for a device whose spec says
nothing; ``Timeline.energy_j`` is None then.
"""

from __future__ import annotations

from collections.abc import Sequence

from hardware import Device, Group


def computing_j(device: Device, flops: float, hbm_bytes: float = 0.0) -> float:
    """Joules of FLOPs, of which a multiply-add is two, and of bytes read and written in HBM."""
    if device.energy is None:
        return 0.0
    return flops / 2 * device.energy.mac_j + hbm_bytes * device.energy.hbm_j_per_byte


def receiving_j(sides: Sequence[Group], received: Sequence[float]) -> float:
    """Joules of the bytes each side receives; a side of several kinds pays their mean.

    Each of what a side's bisection ends in (accelerators, or cores) receives as much.
    """
    return sum(
        amount * transfer_j_per_byte(side) for side, amount in zip(sides, received, strict=True)
    )


def transfer_j_per_byte(group: Group) -> float:
    """Joules of a byte that each accelerator, or core, of a group receives, on average."""
    joules = 0.0
    for (device, _), many in zip(group.kinds, group.leaves, strict=True):
        joules += device.energy.transfer_j_per_byte * many if device.energy else 0.0
    return joules / group.size
