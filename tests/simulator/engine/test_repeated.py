"""Records that come again, against all of them written down."""

from __future__ import annotations

from array import array

import pytest

from simulator import run
from simulator.engine.repeated import RepeatedRows
from simulator.engine.rows import NO_ROW, Columns, Joins, Repeat, Rows
from tests.simulator.lowering.pipelines_by_hand import Times, pipeline_of, program


def rows(turns: int, back: int) -> Rows:
    """Two things a turn, at 10 and 15 of each ten: the second is due to the first of turns before.

    The exchange is the second one, to which worker 1 came after the same. Something else
    happens once, at 41.
    """
    columns: list[tuple[int, ...]] = []
    joins: list[tuple[int, int, int]] = []
    for turn in range(turns):
        now = 10 * turn
        before, early = first_of(turn - 1), first_of(turn - back)
        columns.append((0, 0, turn, now, now + 10, before))
        if turn == 3:
            columns.append((2, 2, turn, now, now + 11, NO_ROW))
        joins.append((1, len(columns), early))
        columns.append((1, 1, turn, now + 10, now + 15, early))
    codes, by_name = "iiiqqi", zip(*columns, strict=True)
    return Rows(
        Columns(*(array(code, column) for code, column in zip(codes, by_name, strict=True))),
        Joins(*(array("i", column) for column in zip(*joins, strict=True))),
    )


def first_of(turn: int) -> int:
    """The row of a turn's first thing."""
    return NO_ROW if turn < 0 else 2 * turn + (turn > 3)


@pytest.mark.parametrize("back", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(("first", "times"), [(5, 1), (5, 4), (6, 40)])
def test_causes_are_as_far_back_as_they_were(back: int, first: int, times: int) -> None:
    """Further back than a stretch, too; nothing is known by its distance in rows alone."""
    whole = rows(9 + times, back)
    stretch = Repeat(1, 10, times, 10 * first + 12)
    found = RepeatedRows(rows(9, back), stretch)
    assert len(found) == len(whole)
    assert found.end_ps == whole.end_ps
    assert found.turns == whole.turns
    assert found.joins == whole.joins
    for name in Columns._fields:
        assert getattr(found.columns, name) == getattr(whole.columns, name), name


def test_records_are_written_when_they_are_asked_for() -> None:
    """How long it took is known without them, and what is added up."""
    made = run(program(pipeline_of("1f1b", 2, 5000, [1, 1]), [Times(2, 2, 2)] * 2, [1]))
    found = made.rows
    assert isinstance(found, RepeatedRows)
    assert made.totals()
    assert made.idle_cores == 0
    assert (made.makespan_ps, len(made), found.turns) == (found.end_ps, len(found), 5000)
    assert "columns" not in vars(found)
    assert len(made.columns.end) == len(made)
    assert made.columns.end[-1] == made.makespan_ps
