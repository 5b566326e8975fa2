"""Compare planners: every network under every planner on every array, of every size."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple, TypedDict, Unpack

from experiments.output import UsageError
from experiments.progress import working
from experiments.studies.case import Case, Planned, in_any_memory
from experiments.studies.occupancy import COLUMNS as OCCUPANCY
from experiments.studies.published_values import averages
from experiments.studies.running.outputs import REFUSED, Outputs, fastest_alone, overflow_of
from experiments.studies.running.runner import Runner
from experiments.studies.speedups import BASELINE, Comparison, Row
from experiments.studies.step_numbers import MEASURES, fields_of, throughput
from experiments.studies.unread import warnings
from hardware import Array, Group
from hardware.array import waiting
from planners import JUDGED, Planner, load_planner, planner_name
from simulator import PUBLISHED, Execution
from workloads import ZOO, Network, NetworkError, load_network

PUBLISHED_BATCH = 512


class Place(NamedTuple):
    """Where in a comparison a case belongs; ``alone``: on the fastest kind of device alone."""

    array: int
    network: str
    planner: str
    alone: bool = False


class Conditions(TypedDict, total=False):
    """What all cases of a comparison may be told beside array, network, planner and batch.

    ``folded`` simulates one of each class of devices (see ``simulator.simulate``).
    """

    objective: str
    communication: str
    execution: Execution
    folded: bool


class Options(Conditions, total=False):
    """What a comparison may be told.

    ``metrics`` (see ``experiments.studies.step_numbers``) are what its rows will have;
    ``runner`` says where cases run and whether they are kept.
    """

    metrics: tuple[str, ...]
    runner: Runner


NONE_LEFT = "--max-memory: everywhere some step is too large; take a larger limit"


def compare(
    array: Array,
    networks: Sequence[Network],
    planners: Sequence[str | Planner],
    batch: int = PUBLISHED_BATCH,
    progress: Callable[[str], None] = lambda done: None,
    **options: Unpack[Options],
) -> Comparison:
    """``comparisons`` on one array."""
    (result,) = comparisons([array], networks, planners, batch, progress, **options)
    return result


def comparisons(
    arrays: Sequence[Array],
    networks: Sequence[Network],
    planners: Sequence[str | Planner],
    batch: int = PUBLISHED_BATCH,
    progress: Callable[[str], None] = lambda done: None,
    *,
    metrics: tuple[str, ...] = ("time",),
    runner: Runner | None = None,
    **conditions: Unpack[Conditions],
) -> list[Comparison]:
    """Plan and simulate every network under every planner; ``progress`` hears of each row done.

    Planners are names or functions. Interrupted by the keyboard, it returns the
    networks finished so far, if there are any.
    """
    refuse_twins(networks)
    asked, execution = named(planners), conditions.get("execution", PUBLISHED)
    cases = {
        Place(i, network.name, name): in_its_memory(
            Case(network, planner, array, batch, **conditions), asked
        )
        for i, array in enumerate(arrays)
        for network in networks
        for name, planner in ({BASELINE: BASELINE} | asked).items()
    }
    study = _Study(tuple(asked), metrics, cases, {})
    interrupted = None
    try:
        for place in study.run(runner or Runner()):
            progress(f"{place.network} {place.planner}")
    except KeyboardInterrupt as error:
        interrupted = error
    if not any(study.finished(i) for i in range(len(arrays))):
        raise interrupted or UsageError(NONE_LEFT)
    papers = not interrupted and _papers(networks, cases.values())
    return [
        Comparison(
            array.name,
            batch,
            tuple(study.rows(i, progress)),
            averages(array) if papers else {},
            not interrupted or len(study.finished(i)) == len(networks),
            metrics,
            conditions.get("communication", "printed"),
            str(execution),
            array.group.cores,
            tuple(study.overflows(i)),
            tuple(warnings(array, execution)),
            tuple(study.base_full(i)),
        )
        for i, array in enumerate(arrays)
    ]


def _papers(networks: Sequence[Network], cases: Iterable[Case]) -> bool:
    """Whether these are the paper's nine networks, and steps as the paper has them."""
    steps = {(case.batch, case.objective, case.communication, case.execution) for case in cases}
    return steps == {_PAPERS} and (
        {network.name: network for network in networks}
        == {name: load_network(name) for name in ZOO}
    )


_PAPERS = (PUBLISHED_BATCH, "time", "printed", PUBLISHED)
"""Batch, objective, communication table and execution model of the paper's comparison."""


def refuse_twins(networks: Iterable[Network]) -> None:
    """Raise NetworkError when two networks have one name: results go by it."""
    names = [network.name for network in networks]
    if twins := sorted({name for name in names if names.count(name) > 1}):
        raise NetworkError(
            f"several networks are called {', '.join(twins)}; rename a file, or in Python "
            "dataclasses.replace(accelarray.network(…), name=…)"
        )


def named(planners: Iterable[str | Planner]) -> dict[str, str | Planner]:
    """Planners by the names they have in tables; raises UsageError where two share one.

    The baseline of every comparison has its name too.
    """
    found: dict[str, str | Planner] = {}
    for planner in planners:
        name = planner_name(planner)
        other = BASELINE if name == BASELINE else found.get(name)
        if other is not None and load_planner(other) is not load_planner(planner):
            raise UsageError(f"several planners are called {name!r}; results go by that name")
        found[name] = planner
    return found


def in_its_memory(case: Case, asked: Container[str]) -> Case:
    """The case, or, if nobody asked for its planner, run whether it fits or not."""
    return case if case.planner_name in asked else in_any_memory(case)


@dataclass(frozen=True, slots=True, eq=False)
class _Study:
    """What is asked for, and what has been found so far."""

    planners: tuple[str, ...]
    metrics: tuple[str, ...]
    cases: dict[Place, Case]
    found: dict[Place, Outputs]

    def run(self, runner: Runner) -> Iterator[Place]:
        """Every row of the tables when all it needs is there."""
        for place, _, outputs in runner.run(self.cases, self._alone):
            self.found[place] = outputs
            if place.planner in self.planners and not self._alone(place, outputs):
                yield place

    def _alone(self, place: Place, outputs: Outputs) -> Mapping[Place, Case]:
        """A planner that does not spread work evenly is run on the fastest devices too.

        A plan that somebody made for the whole array does not fit there, and a
        planner that judges steps has looked there itself.
        """
        case = self.cases[place]
        whole = place.alone or place.planner == BASELINE or isinstance(case.planner, Planned)
        if whole or case.planner in JUDGED or not outputs.get("uneven"):
            return {}
        fastest = fastest_alone(case.array)
        further = {place._replace(alone=True): in_any_memory(replace(case, array=fastest))}
        self.cases.update(further)
        return further

    def finished(self, array: int) -> list[str]:
        """Networks of an array of which every row has what it needs, and none was refused."""
        places = [place for place in self.cases if place.array == array]
        missing = {p.network for p in places if REFUSED in self.found.get(p, (REFUSED,))}
        return [n for n in dict.fromkeys(p.network for p in places) if n not in missing]

    def rows(self, array: int, progress: Callable[[str], None]) -> Iterator[Row]:
        """The rows of an array's finished networks."""
        for network in self.finished(array):
            for planner in self.planners:
                working(progress, f"lower bound of {network} {planner}")
                yield self._row(Place(array, network, planner))

    def _row(self, place: Place) -> Row:
        case, own = self.cases[place], self.found[place]
        base = self.found[place._replace(planner=BASELINE)]
        alone = self.found.get(place._replace(alone=True))
        bucket, layout = own["bucket_bytes"], own["layout"]
        bound = fields_of(case, own["iteration_s"], layout=layout, bucket_bytes=bucket)
        measures = {MEASURES[m]: own[MEASURES[m]] for m in self.metrics if m in MEASURES}
        if measures.get("energy_j") and base["energy_j"]:
            measures["energy_efficiency"] = base["energy_j"] / own["energy_j"]
        return Row(
            place.network,
            place.planner,
            own["iteration_s"],
            base["iteration_s"] / own["iteration_s"],
            own["slow_share"],
            None
            if alone is None or alone.get("cores_over_memory")
            else base["iteration_s"] / alone["iteration_s"],
            **measures,
            **{column: own.get(column) for column in OCCUPANCY},
            exact=None if own["exact"] else False,
            gap=None if own["exact"] else own["plan_gap"],
            **asdict(throughput(case, own["iteration_s"])),
            lower_bound_s=bound["lower_bound_s"],
            step_gap=bound["step_gap"],
            bounded=bound["lower_bound_covers"] is not None or None,
            uncharged_s=own.get("uncharged_s"),
        )

    def base_full(self, array: int) -> Iterator[str]:
        """Finished networks for which data parallelism does not fit in memory."""
        for network in self.finished(array):
            if self.found[Place(array, network, BASELINE)].get("cores_over_memory"):
                yield network

    def overflows(self, array: int) -> Iterator[str]:
        """What of the finished networks does not fit in memory, a sentence each."""
        for network in self.finished(array):
            for planner in dict.fromkeys([BASELINE, *self.planners]):
                for alone in (False, True):
                    place = Place(array, network, planner, alone)
                    if place in self.found:
                        fault = overflow_of(self.cases[place], self.found[place])
                        yield from [fault] if fault else []


MOST_LEVELS = 16


@dataclass(frozen=True, slots=True)
class Level:
    """One array of the sweep: 2^levels accelerators, and the comparison on it."""

    levels: int
    accelerators: int
    result: Comparison


def scaled(array: Array, levels: int) -> Array:
    """An array of 2^levels accelerators with the proportions of ``array``; raises UsageError."""
    if not 1 <= levels <= MOST_LEVELS:
        raise UsageError(f"--levels {levels}: must be within 1...{MOST_LEVELS}")
    size, wanted = array.group.size, 2**levels
    if any(count * wanted % size for _, count in array.group.kinds):
        counts = " + ".join(f"{count} {device.name}" for device, count in array.group.kinds)
        raise UsageError(
            f"--levels {levels}: {wanted} accelerators cannot have the proportions of "
            f"{array.name} ({counts})"
        )
    kinds = waiting((device, count * wanted // size) for device, count in array.group.kinds)
    topology = replace(array.topology, shape=())
    settings = tuple(s for s in array.settings if not s.key.endswith((".count", "topology.shape")))
    sizes = ".count=", "topology.shape="
    words = [word for word in array.changes if not any(key in word for key in sizes)]
    changes = (*words, f"{wanted} accelerators")
    return replace(
        array,
        name=", ".join([array.base, *changes]),
        description="",
        group=Group(kinds),
        settings=settings,
        topology=topology,
        changes=changes,
    )


def sweep_levels(
    array: Array,
    levels: Sequence[int],
    networks: Sequence[Network],
    planners: Sequence[str | Planner],
    batch: int,
    progress: Callable[[str], None] = lambda done: None,
    **options: Unpack[Options],
) -> tuple[list[Level], bool]:
    """``comparisons`` on every size; interrupted by the keyboard (False), those finished so far.

    Sizes on which a step is refused (``Runner.limit_bytes``) are left out: means over fewer
    networks cannot be compared. Raises UsageError where none is left.
    """
    arrays = [scaled(array, level) for level in levels]
    results = comparisons(arrays, networks, planners, batch, progress, **options)
    done = [
        Level(level, sized.group.size, result)
        for level, sized, result in zip(levels, arrays, results, strict=True)
        if len(result.networks) == len(networks)
    ]
    complete = all(result.complete for result in results)
    if not done:
        raise UsageError(NONE_LEFT) if complete else KeyboardInterrupt
    return done, complete
