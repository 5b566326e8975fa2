"""Rows run as steps: as they are, or with more computed again where that is not stated."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from experiments.measured.case import RowCase
from experiments.studies.case import Case
from experiments.studies.running.outputs import REFUSED, Outputs, run_case
from experiments.studies.running.runner import Runner
from planners import PlanError
from simulator import OutOfMemoryError, SimulationError

REFUSALS = (PlanError, SimulationError)
"""What a plan or a step may be refused with."""
TOO_LARGE = "too_large"

K = TypeVar("K", bound=Hashable)


class Ran(NamedTuple):
    """A row as it was run at last, and what came out (under ``REFUSED`` why nothing did)."""

    of: RowCase
    outputs: Outputs


def run_rows(asked: Mapping[K, RowCase], runner: Runner) -> Iterator[tuple[K, Ran]]:
    """Each row's step as it finishes.

    A step that does not fit in memory is followed by one with more computed again, where a
    row leaves open how much: of 80 blocks none, then 20, 40, 60, then all of them.
    """
    tried = dict(asked)

    def then(name: K, outputs: Outputs) -> dict[K, Case]:
        if not outputs.get(TOO_LARGE):
            return {}
        tried[name] = tried[name].heavier
        return {name: tried[name].case}

    cases = {name: one.case for name, one in asked.items()}
    for finished in runner.run(cases, then, _run_or_refusal):
        if not finished.outputs.get(TOO_LARGE):
            yield finished.name, Ran(tried[finished.name], finished.outputs)


def _run_or_refusal(case: Case) -> Outputs:
    """A row's step; or, so that one that cannot be planned stops no other, why there is none."""
    try:
        return run_case(case)
    except REFUSALS as error:
        why = str(error).partition("\n")[0]
        return {REFUSED: why, TOO_LARGE: isinstance(error, OutOfMemoryError)}
