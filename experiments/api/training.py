"""``accelarray.train``: many workers that train together, by a method that may not wait for all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, Unpack

from rich.table import Table

from experiments.api.argument_types import (
    ArrayLike,
    Changes,
    ExecutionLike,
    ModelOptions,
    NetworkLike,
    Progress,
    StoreLike,
    Vary,
    explicit,
)
from experiments.api.inputs import (
    array_of,
    execution_of,
    loaded,
    names,
    run_by,
)
from experiments.api.requests import changed, opened, transforms_of
from experiments.notices import tell, tell_notes
from experiments.output import UsageError, deliver, deliver_page, hearing
from experiments.pictures.lanes import sites
from experiments.pictures.plots import plot_training
from experiments.pictures.trace import trace_events, write_trace
from experiments.report.training import training_page
from experiments.results.formats import flat
from experiments.results.result import Answer, Result
from experiments.results.sweeps import axes_of
from experiments.studies.options import first_array
from experiments.studies.training.pipeline import METHOD, piped, piped_tables
from experiments.studies.training.run import Trained, Training, each, unread_changes, unread_options
from experiments.studies.training.sweep import KEYS, points, swept
from experiments.studies.training.tables import grid, lines, several, tables
from experiments.terms import aliased
from hardware import Array
from simulator import CollectiveError
from simulator.asynchronous.registry import ALGORITHMS
from workloads import Network


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class TrainResult(Answer):
    """What came of training by one method or several, of a pipeline, or of a grid of runs."""

    runs: tuple[Trained, ...] = ()
    """One for each method; none of a pipeline or a grid."""
    about: str = ""

    def title(self) -> str:
        """Network, methods and workers."""
        return self.about

    def page(self, command: str = "") -> str:
        """One self-contained page (HTML), which says by which command it was made."""
        if not self.runs:
            raise UsageError("train: there is no page of a pipeline, or of a grid of runs")
        return training_page(list(self.runs), command)

    def trace(self, path: str) -> None:
        """Write a trace for ui.perfetto.dev (.json, .json.gz) of one method."""
        if len(self.runs) != 1:
            raise UsageError("train: a trace is of one method")
        (trained,) = self.runs
        about = {
            "network": trained.asked.network.name,
            "method": trained.asked.method,
            "array": trained.asked.array.name,
            "workers": trained.asked.workers,
            "time_s": trained.time_s,
        }
        timeline = trained.timeline
        write_trace(trace_events(timeline, sites(timeline), folded=False), about, path)

    def history(self, path: str) -> None:
        """Write what happened to models, and the models at the end (.json), of one method."""
        if len(self.runs) != 1 or (told := self.runs[0].history()) is None:
            raise UsageError("train: a history is of one method, with learn")
        deliver(json.dumps(told) + "\n", path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a picture (.png, .svg, .pdf), a page (.html) or a trace (.json, .json.gz)."""
        target = os.fspath(path)
        if target.lower().endswith((".json", ".json.gz")):
            self.trace(target)
        elif target.lower().endswith((".html", ".htm")):
            deliver_page(self.page(), target)
        else:
            Result.save(self, target)


USUAL = "all-reduce"


@explicit(
    batch="samples of one worker's iteration (default 32)",
    vary="values by key: a grid of runs",
    store="file that keeps the finished runs of vary or compare; they are not run again",
)
def train(
    network: NetworkLike,
    workers: int,
    method: str = USUAL,
    array: ArrayLike = "accpar-mixed",
    batch: int = 32,
    execution: ExecutionLike | None = None,
    *,
    compare: str | Iterable[str] | None = None,
    iterations: int = 100,
    until: str = "average",
    seed: int = 0,
    slowdown: str | Iterable[str] = (),
    graph: str | None = None,
    learn: str | None = None,
    loss: float | None = None,
    rate: float | None = None,
    vary: Vary | None = None,
    set: Changes = (),  # noqa: A002
    store: StoreLike | None = None,
    progress: Progress | None = None,
    **options: Unpack[ModelOptions],
) -> TrainResult:
    """Train with many workers: iterations a second, waiting, staleness, and what is learned.

    Raises NetworkError, SpecError, SimulationError or UsageError.
    """
    _check(learn, loss, rate, until)
    listed = compare is not None
    methods = [method] if compare is None else _methods(compare, method, vary)
    changes = changed(set, options)
    slow = [slowdown] if isinstance(slowdown, str) else slowdown
    made = loaded(network)
    on = partial(_on, made, execution, options)
    asked = Training(
        **on(array_of(first_array(axes_of(vary) if vary else ()) or array, changes)),
        method=methods[0],
        workers=workers,
        iterations=iterations,
        batch=batch,
        seed=seed,
        slowdowns=tuple(text for text in slow if text != "none"),
        graph=graph,
        learn=learn,
        everybody=until == "everybody",
        loss=loss,
        rate=rate,
    )
    if made is not network:  # a Network's maker was told
        tell_notes(asked.network)
    if listed and store is not None:
        return _kept(asked, methods, progress, store)
    if vary is not None or store is not None:
        placed = partial(_placed, asked, on, array, changes)
        return _grid(asked, made.name, vary, placed, progress, store)
    if methods == [METHOD]:
        return _pipeline(asked)
    return _compared(asked, methods, progress, listed=listed)


def _check(learn: str | None, loss: float | None, rate: float | None, until: str) -> None:
    for name, value in (("loss", loss), ("rate", rate)):
        if value is not None and not learn:
            raise UsageError(f"--{name}: only models that learn have one; add --learn logistic")
    if until not in ("average", "everybody"):
        raise UsageError(f"until {until!r}: one of average, everybody")


def _on(
    network: Network, execution: ExecutionLike | None, options: ModelOptions, array: Array
) -> dict[str, Any]:
    """An array, and how its software runs the network: with which kernels, by which model."""
    return {
        "network": run_by(array, network, transforms_of(options)),
        "array": array,
        "execution": execution_of(execution, options, array),
    }


def _placed(
    asked: Training,
    on: Callable[[Array], dict[str, Any]],
    array: ArrayLike,
    changes: Sequence[str],
    other: str | None,
    more: Sequence[str],
) -> Training:
    """The same run on another array, or on this one with more changes of its spec."""
    return replace(asked, **on(array_of(other or array, [*changes, *more])))


def _methods(compare: str | Iterable[str], method: str, vary: Vary | None) -> list[str]:
    """Those to compare, by name; raises UsageError where something else says the method."""
    if method != USUAL:
        raise UsageError("--compare names the methods: leave out --method")
    if vary is not None:
        raise UsageError(
            "--compare: not with --vary, which prints a row for each run; --vary method=… varies it"
        )
    listed = compare if isinstance(compare, str) else ",".join(compare)
    return names(listed, list(ALGORITHMS), "compare")


def _compared(
    asked: Training, methods: list[str], progress: Progress | None, *, listed: bool
) -> TrainResult:
    """Every method on the same draws."""
    with hearing(progress, 100 * len(methods)) as hears:
        found, said = _able(asked, methods, lambda one: one.run(lambda: hears("")))
    numbers = [one.to_dict() for one in found]
    said += [said for one in found for said in one.said]
    methods = [one.asked.method for one in found]
    result = _told(found[0].asked, methods, numbers, said, tables, listed=listed)
    return replace(result, picture=partial(plot_training, found), runs=tuple(found))


T = TypeVar("T")


def _able(
    asked: Training, methods: Sequence[str], made: Callable[[Training], T]
) -> tuple[list[T], list[str]]:
    """What is made of each method, and sentences about those that the wires cannot do.

    Raises CollectiveError where they can do none.
    """
    found, said = list[T](), list[str]()
    for one in each(asked, methods):
        try:
            found.append(made(one))
        except CollectiveError as why:
            if len(methods) == 1:
                raise
            reason = str(why).partition(";")[0]
            said.append(f"{one.method} is left out, {asked.array.name} cannot do it: {reason}")
    if not found:
        raise CollectiveError("; ".join(said))
    return found, said


def _kept(
    asked: Training, methods: list[str], progress: Progress | None, store: StoreLike
) -> TrainResult:
    """The same of runs that a store has, or will have: numbers, without their timelines."""

    def row(one: Training) -> dict[str, Any]:
        trained = one.run()
        return {"numbers": trained.to_dict(), "said": trained.said}

    with opened(store) as kept, hearing(progress, len(methods)) as hears:

        def known(one: Training) -> dict[str, Any]:
            study = "train, compared", one.network.name, one.array.name
            found = one.kept(kept, partial(row, one), *study)
            hears(one.method)
            return found

        rows, said = _able(asked, methods, known)
    said += [said for one in rows for said in one["said"]]
    return _told(asked, methods, [one["numbers"] for one in rows], said, several, listed=True)


def _told(
    asked: Training,
    methods: list[str],
    found: list[dict[str, Any]],
    said: list[str],
    shown: Callable[[list[dict[str, Any]]], Iterable[Table | str]],
    *,
    listed: bool,
) -> TrainResult:
    for one in (*unread_options(asked), *unread_changes(asked), *dict.fromkeys(said)):
        tell(one)
    data = [aliased(one) for one in found]
    return TrainResult(
        {"methods": data} if listed else data[0],
        lambda: [aliased(line) for line in lines(found)],
        lambda: list(shown(found)),
        about=_about(asked, methods),
    )


def _about(asked: Training, methods: list[str]) -> str:
    words = f"{asked.network.name}, {', '.join(methods)} on {asked.array.name}"
    return f"{words}, {asked.workers} workers"


def _pipeline(asked: Training) -> TrainResult:
    """Stages as workers, which learn with the versions of the weights that they have."""
    found = piped(asked)
    for one in found["notes"]:
        tell(one)
    data = aliased(found)
    parts = partial(piped_tables, found)
    return TrainResult(data, lambda: [flat(data)], parts, about=_about(asked, [METHOD]))


def _grid(
    asked: Training,
    name: str,
    vary: Vary | None,
    placed: Callable[[str | None, Sequence[str]], Training],
    progress: Progress | None,
    store: StoreLike | None,
) -> TrainResult:
    """A run for every point of a grid of a network of that name, as one table."""
    if vary is None:
        raise UsageError(
            "--store keeps the runs of a grid, or of several methods; give --vary or --compare"
        )
    axes = axes_of(vary)
    if asked.slowdowns and any(axis.key == "slowdown" for axis in axes):
        tell(f"every run has --slowdown {', '.join(asked.slowdowns)}, too")
    firsts = {axis.key: axis.values[0].text for axis in axes}
    words = [f"{key}={text}" for key, text in firsts.items() if key not in KEYS]
    for one in unread_changes(placed(firsts.get("array"), words)):
        tell(one)
    with opened(store) as kept, hearing(progress, len(points(axes))) as hears:
        rows = list(swept(asked, axes, placed, hears, kept))
    about = f"{name}, {len(rows)} runs"
    data = [aliased(row) for row in rows]
    return TrainResult(data, lambda: data, lambda: list(grid(about, axes, rows)), about=about)
