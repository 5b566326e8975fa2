"""Training runs in a grid: methods, slowdowns, sizes, or values of the array."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from experiments.output import UsageError
from experiments.studies.options import Axis, Value
from experiments.studies.running.store import Store
from experiments.studies.training.run import Training
from experiments.studies.training.tables import measures, named

WHOLE = ("workers", "iterations", "batch", "seed")
NUMBERS = ("rate", "loss")
WORDS = ("method", "graph", "learn")
KEYS = (*WORDS, "slowdown", *WHOLE, *NUMBERS, "array")
"""Keys of a run; every other key is a path in the array's spec."""
MOST_RUNS = 10_000

Row = dict[str, Any]


def points(axes: Sequence[Axis]) -> list[tuple[Value, ...]]:
    """All combinations, the first axis slowest; raises UsageError for too many."""
    count = math.prod(len(axis.values) for axis in axes)
    if count > MOST_RUNS:
        raise UsageError(f"--vary: {count:,} runs are more than {MOST_RUNS:,}")
    return list(itertools.product(*(axis.values for axis in axes)))


def _read(key: str, value: Value) -> str | int | float:
    if key not in (*WHOLE, *NUMBERS):
        return value.text
    if value.number is None or (key in WHOLE and value.number != int(value.number)):
        kind = "whole number" if key in WHOLE else "number"
        raise UsageError(f"--vary {key}={value.text}: a {kind}")
    return int(value.number) if key in WHOLE else value.number


def swept(
    asked: Training,
    axes: Sequence[Axis],
    placed: Callable[[str | None, Sequence[str]], Training],
    progress: Callable[[str], object],
    store: Store | None = None,
) -> Iterator[Row]:
    """A row for every point: what was varied, and what came of it, kept in ``store``.

    ``placed`` is the same run on an array of that name (None: the one that was asked for), with
    these changes of its spec.
    """
    for point in points(axes):
        chosen, words, fields = None, list[str](), dict[str, Any]()
        for axis, value in zip(axes, point, strict=True):
            if axis.key == "array":
                chosen = value.text
            elif axis.key == "slowdown":
                more = () if value.text == "none" else (value.text,)
                fields["slowdowns"] = *asked.slowdowns, *more
            elif axis.key in KEYS:
                fields[axis.key] = _read(axis.key, value)
            else:
                words.append(f"{axis.key}={value.text}")
        one = replace(placed(chosen, words), **fields)
        one = one if one.way.graph else replace(one, graph=None)
        varied = {
            named(axis): _read(axis.key, value)
            if axis.key in KEYS[:-1]
            else value.label
            if value.number is None
            else value.number
            for axis, value in zip(axes, point, strict=True)
        }
        yield varied | one.kept(store, partial(_row, one, asked))
        progress(", ".join(value.label for value in point))


def _row(training: Training, asked: Training) -> Row:
    one = training.run()
    row: Row = measures(one.to_dict())
    if asked.learn is not None or one.asked.learn is not None:
        row.setdefault("loss", None)
    if asked.loss is not None or one.asked.loss is not None:
        row.setdefault("time_to_target_s", None)
    return {**row, "hang": str(one.hang) if one.hang else None}
