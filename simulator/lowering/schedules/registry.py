"""Pipeline schedules by name: the built-in ones, then other packages' entry points.

Papers are given as recalled. Of p ranks and m micro-batches the bubble of GPipe and of 1F1B
is (p - 1) / m of the ideal time; interleaved, with v stages a rank, (p - 1) / (v m).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hardware.reader import hint
from planners import PlanError
from planners.plugins import installed, load_plugin, place_of
from simulator.lowering.schedules.file import ENDING, read_schedule
from simulator.lowering.schedules.schedule import (
    BACKWARD,
    ERRORS,
    FORWARD,
    WEIGHTS,
    Pass,
    Rank,
    Schedule,
    no_virtual,
)


def gpipe(rank: Rank) -> Iterator[Pass]:
    """All forward, then all backward (Huang et al., NeurIPS 2019, arXiv 1811.06965)."""
    for chunk in range(rank.virtual):
        for number in range(rank.micro_batches):
            yield Pass(FORWARD, number, chunk)
    for chunk in reversed(range(rank.virtual)):
        for number in range(rank.micro_batches):
            yield Pass(BACKWARD, number, chunk)


def alternate(rank: Rank) -> Iterator[Pass]:
    """1F1B: some forward first, then forward and backward in turn, then what is left.

    PipeDream-Flush (Narayanan et al., ICML and SC 2021, arXiv 2104.04473): rank s of p
    computes p - s - 1 micro-batches ahead, and at most p - s are in flight instead of m. Where
    places have unlike numbers of replicas, it is PipeDream's number (``instructions.ahead``):
    with fewer ahead, one replica in front of four would wait for the first for ever.

    PipeDream's 1F1B-RR (SOSP 2019; the public runtime, msr-fiddle/pipedream, commit 7db6a1c):
    a replica of stage s computes floor((R - 1 - sum of r_i for i < s) / r_s) minibatches ahead,
    R ranks in all. No flush: weights of every minibatch in flight are kept (weight stashing).
    """
    ahead = min(rank.ahead, rank.micro_batches)
    for number in range(ahead):
        yield Pass(FORWARD, number)
    for number in range(rank.micro_batches):
        if number + ahead < rank.micro_batches:
            yield Pass(FORWARD, number + ahead)
        yield Pass(BACKWARD, number)


def zero_bubble(rank: Rank) -> Iterator[Pass]:
    """ZB-H1 (Qi et al., ICLR 2024, arXiv 2401.10241): weights' gradients fill what is idle.

    Errors go back at once. Rank s begins with gradients of weights s micro-batches late, so
    that all hold as many as under 1F1B. The last of three ranks, five micro-batches:

        F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 F4 B4 W2 W3 W4
    """
    many = rank.micro_batches
    ahead, late = min(rank.ahead, many), rank.rank
    for number in range(ahead):
        yield Pass(FORWARD, number)
    for number in range(many):
        if number + ahead < many:
            yield Pass(FORWARD, number + ahead)
        yield Pass(ERRORS, number)
        if number >= late:
            yield Pass(WEIGHTS, number - late)
    for number in range(max(many - late, 0), many):
        yield Pass(WEIGHTS, number)


def interleaved(rank: Rank) -> Iterator[Pass]:
    """Interleaved 1F1B (Narayanan et al., SC 2021): several stages a rank.

    Micro-batches go through in groups of p, each group through all stages of a rank, backward
    the other way round. Of two ranks with two stages each, rank 1 takes a, b, c, d so:
    forward a0 b0 a1 b1 c0 d0 c1 d1, backward a1 b1 a0 b0 c1 d1 c0 d0; the first
    (p - s - 1) * 2 + (v - 1) * p = 2 forward passes first, then in turn.
    """
    passes = rank.micro_batches * rank.virtual
    ahead = min((rank.ranks - rank.rank - 1) * 2 + (rank.virtual - 1) * rank.ranks, passes)
    for place in range(passes + ahead):
        if place < passes:
            yield _pass(rank, place, forward=True)
        if place >= ahead:
            yield _pass(rank, place - ahead, forward=False)


def _pass(rank: Rank, place: int, *, forward: bool) -> Pass:
    group, inside = divmod(place, rank.ranks * rank.virtual)
    chunk, member = divmod(inside, rank.ranks)
    number = group * rank.ranks + member
    if forward:
        return Pass(FORWARD, number, chunk)
    return Pass(BACKWARD, number, rank.virtual - 1 - chunk)


def _whole_groups(replicas: Sequence[int], virtual: int, micro_batches: int) -> str | None:
    del virtual
    if len(set(replicas)) > 1:
        return f"every place has as many replicas, not {', '.join(map(str, replicas))}"
    if micro_batches % (len(replicas) * replicas[0]):
        each = f" with {replicas[0]} replicas" if replicas[0] > 1 else ""
        least = len(replicas) * replicas[0]
        return (
            f"{micro_batches} micro-batches are no multiple of {len(replicas)} places{each}; "
            f"take a multiple of {least}"
        )
    return None


def _enough_for_two(replicas: Sequence[int], virtual: int, micro_batches: int) -> str | None:
    """The first micro-batch of batch t is computed when batch t - 2 is through everywhere."""
    if micro_batches < (least := sum(replicas)):
        return (
            f"two versions are enough from {least} micro-batches on, not with {micro_batches}; "
            f"take {least} or more"
        )
    return no_virtual(replicas, virtual, micro_batches)


SCHEDULES: dict[str, Schedule] = {
    schedule.name: schedule
    for schedule in (
        Schedule("gpipe", gpipe, "all micro-batches forward, then all backward"),
        Schedule("1f1b", alternate, "forward and backward in turn, then a flush", check=no_virtual),
        Schedule(
            "interleaved",
            interleaved,
            "1f1b with several stages a place",
            check=_whole_groups,
            least_virtual=2,
        ),
        Schedule(
            "zero-bubble",
            zero_bubble,
            "1f1b whose gradients of weights fill the idle time (ZB-H1)",
            check=no_virtual,
        ),
        Schedule(
            "pipedream",
            alternate,
            "1f1b without a flush, an update for each minibatch (weight stashing)",
            flushes=False,
            whole_batch=False,
            check=no_virtual,
        ),
        Schedule(  # PipeDream-2BW (Narayanan et al., ICML 2021, arXiv 2006.09503)
            "2bw",
            alternate,
            "1f1b without a flush, an update for each batch (two versions of the weights)",
            flushes=False,
            check=_enough_for_two,
        ),
    )
}

ENTRY_POINTS = "accelarray.schedules"
"""Entry-point group in which other packages announce theirs."""


def schedule_of(name: str) -> Schedule:
    """The schedule called so, or of a file (.csv); raises PlanError with the nearest name.

    ``module:attribute`` or ``file.py:attribute`` is imported, from the current folder too.
    """
    if name in SCHEDULES:
        return SCHEDULES[name]
    if name.endswith(ENDING):
        return read_schedule(name)
    place = place_of(name, ENTRY_POINTS)
    if place is None:
        known = hint(name, [*SCHEDULES, *installed(ENTRY_POINTS)])
        raise PlanError(f"unknown schedule {name!r}; {known}, or a .csv file")
    found = load_plugin(f"schedule {name!r}", place, PlanError, named=place is name)
    if not isinstance(found, Schedule):
        kind = f"{Schedule.__module__}.Schedule"
        raise PlanError(f"schedule {name!r}: {place} is {type(found).__name__}, and no {kind}")
    return found


def identity(name: str, ranks: int, virtual: int, micro_batches: int) -> object:
    """What tells a schedule from another one of its name: of ours it, of others what they do.

    Of a plug-in it is what it answers for such a pipeline; what it raises is for the run to tell.
    """
    found = schedule_of(name)
    if name in SCHEDULES:
        return name
    if name.endswith(ENDING):
        return found.says
    each = [Rank(r, ranks, virtual, micro_batches, ranks - r - 1) for r in range(ranks)]
    try:
        passes = [[(sorted(p.parts), p[1:]) for p in found.passes(who)] for who in each]
    except PlanError as error:
        return str(error)
    return [found.flushes, found.whole_batch, passes]
