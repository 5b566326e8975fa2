"""Schedules as files of torch.distributed.pipelining: a line for each rank, a cell for each pass.

``2F0`` is stage 2 forward with micro-batch 0, ``B`` backward whole, ``I`` errors and ``W``
gradients of weights. Empty cells are idle steps. Cells that send, receive, gather or sum are
left out: a pipeline here does these where its stages need them.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterator, Sequence

from hardware.reader import read_text, shown
from planners import PlanError
from simulator.lowering.schedules.schedule import (
    BACKWARD,
    ERRORS,
    FORWARD,
    WEIGHTS,
    Pass,
    Rank,
    Schedule,
    check_order,
)

ENDING = ".csv"
_LARGEST = 16 << 20
_MOST_RANKS, _MOST_PASSES = 1 << 10, 1 << 20
_CELL = re.compile(r"(\d{1,6})([FBIW])(\d{1,6})", re.ASCII)
_MOVES = re.compile(
    r"\d{1,6}(UNSHARD|RESHARD|REDUCE_GRAD|(SEND|RECV)_[FB]\d{1,6})|\((.*)\)OVERLAP_F_B", re.ASCII
)
PARTS = {"F": FORWARD, "B": BACKWARD, "I": ERRORS, "W": WEIGHTS}


def read_schedule(path: str) -> Schedule:
    """The schedule of a file; raises PlanError with file, line and cell."""
    text = read_text(path, PlanError, "a schedule", _LARGEST)
    try:
        lines = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise PlanError(f"{path}: not a file of CSV: {error}") from None
    if not 1 <= len(lines) <= _MOST_RANKS:
        raise PlanError(
            f"{path}: {len(lines)} lines; write one for each of 1 to {_MOST_RANKS} ranks"
        )
    if (cells := sum(map(len, lines))) > 4 * _MOST_PASSES:
        raise PlanError(f"{path}: {cells:,} cells are more than {4 * _MOST_PASSES:,}")
    ranks = len(lines)
    rows = [tuple(_passes(path, rank, ranks, cells)) for rank, cells in enumerate(lines)]
    virtual = max((one.chunk for row in rows for one in row), default=0) + 1
    many = max((one.number for row in rows for one in row), default=0) + 1
    for rank, row in enumerate(rows):
        check_order(f"{path}:{rank + 1}", row)

    def order(who: Rank) -> Iterator[Pass]:
        return iter(rows[who.rank])

    def check(replicas: Sequence[int], stages: int, micro_batches: int) -> str | None:
        each = micro_batches // replicas[0]
        asked = (len(replicas), stages, each)
        if len(set(replicas)) == 1 and asked == (ranks, virtual, many):
            return None
        words = (
            f"pp={at}, vp={of} and {number} micro-batches" for at, of, number in
            ((ranks, virtual, many), asked)
        )  # fmt: skip
        return "it is for {}, not for {} of each replica".format(*words)

    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Schedule(path, order, f"of a file ({digest})", check=check)


def _passes(path: str, rank: int, ranks: int, cells: Sequence[str]) -> Iterator[Pass]:
    """The passes of a line; those that overlap come one after the other."""
    for column, cell in enumerate(cells, 1):
        text = cell.strip()
        moves = _MOVES.fullmatch(text)
        if not text or (moves and moves[3] is None):
            continue
        for part in moves[3].split(";") if moves else [text]:
            found = _CELL.fullmatch(part.strip())
            where = f"{path}:{rank + 1}: cell {column}: {shown(part)}"
            if found is None:
                raise PlanError(f"{where}: write stage, F, B, I or W, and micro-batch, as 2F0")
            chunk, place = divmod(int(found[1]), ranks)
            if place != rank:
                raise PlanError(
                    f"{where}: stage {found[1]} is at rank {place}: stages go round {ranks} ranks"
                )
            yield Pass(PARTS[found[2]], int(found[3]), chunk)


def schedule_text(schedule: Schedule, ranks: int, virtual: int, micro_batches: int) -> str:
    """The file of a schedule, which ``read_schedule`` reads back."""
    letters = {parts: letter for letter, parts in PARTS.items()}
    lines = []
    for rank in range(ranks):
        who = Rank(rank, ranks, virtual, micro_batches, ranks - rank - 1)
        passes = schedule.passes(who)
        cells = (f"{p.chunk * ranks + rank}{letters[p.parts]}{p.number}" for p in passes)
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"
