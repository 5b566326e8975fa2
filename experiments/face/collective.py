"""``accelarray.collective``: the time of one collective on an array's wires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from experiments.collective import CollectiveResult
from experiments.collective import collective as simulated
from experiments.face.asked import changed
from experiments.face.forms import explicit
from experiments.face.inputs import array_of
from experiments.output import UsageError, hearing
from hardware import in_bytes, parse_quantity

if TYPE_CHECKING:
    from experiments.face.forms import ArrayLike, ArrayOptions, Changes, Progress

COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast")


@explicit(
    collective='"all-reduce", "reduce-scatter", "all-gather", "all-to-all" or "broadcast"',
)
def collective(
    collective: str,
    bytes: str | float,  # noqa: A002  (the command's --bytes)
    array: ArrayLike = "accpar-mixed",
    *,
    algorithm: str = "auto",
    set: Changes = (),  # noqa: A002
    progress: Progress | None = None,
    **options: Unpack[ArrayOptions],
) -> CollectiveResult:
    """Simulate one collective over all nodes of an array.

    Raises CollectiveError, SpecError or UsageError.
    """
    size_bytes = parse_bytes(bytes if isinstance(bytes, str) else f"{float(bytes)!r} B")
    if collective not in COLLECTIVES:
        raise UsageError(f"collective {collective!r}: one of {', '.join(COLLECTIVES)}")
    place = array_of(array, changed(set, options))
    with hearing(progress, 3) as done:
        return simulated(place, collective, size_bytes, algorithm, done)


def parse_bytes(text: str) -> float:
    """``100000000`` or ``100 MB``; raises UsageError."""
    try:
        return parse_quantity(in_bytes(text), "B")
    except ValueError as error:
        raise UsageError(f"--bytes {text!r}: {error}, or a whole number of bytes") from None
