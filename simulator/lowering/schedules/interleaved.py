"""Interleaved 1F1B (Narayanan et al., SC 2021): several stages a rank.

As recalled: https://arxiv.org/abs/2104.04473. Micro-batches go through in groups of p,
each group through all stages of a rank, forward from the first to the last,
backward the other way round. With v stages a rank the bubble is (p - 1) / (v m).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.lowering.schedules.schedule import BACKWARD, FORWARD, Pass, Rank, Schedule


def _order(rank: Rank) -> Iterator[Pass]:
    """Of two ranks with two stages each, rank 1 takes four micro-batches a, b, c, d so.

    Forward a0 b0 a1 b1 c0 d0 c1 d1, backward a1 b1 a0 b0 c1 d1 c0 d0: the first
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


def _check(replicas: Sequence[int], virtual: int, micro_batches: int) -> str | None:
    del virtual
    if len(set(replicas)) > 1:
        return f"every place has as many replicas, not {', '.join(map(str, replicas))}"
    if micro_batches % (len(replicas) * replicas[0]):
        each = f" with {replicas[0]} replicas" if replicas[0] > 1 else ""
        return f"{micro_batches} micro-batches are no multiple of {len(replicas)} places{each}"
    return None


INTERLEAVED = Schedule("interleaved", _order, "1f1b with several stages a place", check=_check)
