"""Stages for a network and an array: where to cut, which accelerators, and a plan for each stage.

Any planner plans a stage: to it a stage is a network, and its place an array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hardware import Array
from planners.axes.degrees import Axes
from planners.cost.objective import TIME, Objective
from planners.errors import PlanError
from planners.plan import Pipeline, Place, Plan, Stage
from planners.registry import asked, load_planner, planner_name
from workloads import Cut, Graph, Network, NetworkError, cut

if TYPE_CHECKING:
    from planners.registry import Planner


def usual_schedule(virtual: int) -> str:
    """What pipelines run where nobody says otherwise, with so many stages at a place."""
    return "interleaved" if virtual > 1 else "1f1b"


@dataclass(frozen=True, slots=True)
class Staging:
    """What is asked of a pipeline, beside the planner of its stages.

    ``stages`` places (0: as many as the planner finds best) with ``virtual`` stages each; without
    a ``schedule`` it is 1f1b, or interleaved with several stages a place. ``cuts`` are the first
    layers of all stages but the first, by name (none: the slowest stage is as fast as may be).
    ``recompute`` is "all", or numbers of stages, which do forward again as a whole. The
    rest is as in ``Pipeline``. With axes (``parallel``, in an ``axis_order`` on the machine,
    innermost first) planner "axes" makes the stages, of micro-batches with ``micro_batch``
    samples for each replica; ``stage_hw`` says on which devices they are, and ``stage_layers``
    how many layers they have (``planners.axes.stage_devices``).
    """

    stages: int = 1
    micro_batches: int = 1
    schedule: str = ""
    virtual: int = 1
    recompute: str = ""
    tied: str = ""
    vertical_sync: bool = False
    batches: int = 0
    cuts: tuple[str, ...] = ()
    parallel: Axes | None = None
    axis_order: str = ""
    micro_batch: int = 0
    stage_hw: str = ""
    stage_layers: tuple[int, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether the planner chooses stages, and on which devices they are."""
        return not self.stages

    @property
    def usual_schedule(self) -> str:
        """The schedule that is named, or else what is usual."""
        return self.schedule or usual_schedule(self.virtual)

    def samples(self, pp: int) -> int | None:
        """With axes, samples of a micro-batch of each replica; None where micro-batches count."""
        if self.micro_batch:
            return self.micro_batch
        return 1 if pp > 1 and self.micro_batches == 1 else None

    @property
    def without_axes(self) -> Staging | None:
        """What of it planners read that plan no axes; None for nothing.

        They have none of the stages of the axes, of which schedule, cuts and the like are; what
        all stages compute again is computed again there, too.
        """
        plain = replace(
            self, parallel=None, axis_order="", micro_batch=0, stage_hw="", stage_layers=()
        )
        if plain != self and plain.stages == plain.virtual == 1:
            again = self.recompute if self.recompute == "all" else ""
            plain = Staging(micro_batches=self.micro_batches, recompute=again)
        return None if plain == Staging() != self else plain

    @property
    def is_whole(self) -> bool:
        """Whether it is a step as without it: one stage, the batch at once."""
        return replace(self, schedule="", tied="", batches=0) == Staging()

    def check_recompute(self) -> None:
        """Raise PlanError where a stage is to compute again that is not there."""
        stages = self.stages * self.virtual
        for word in self.recompute.replace(" ", "").split(","):
            if word not in ("", "all") and not (word.isdecimal() and int(word) < stages):
                raise PlanError(
                    f"recompute=stages:{self.recompute}: there is no stage {word}; stages are 0 to "
                    f"{stages - 1}, or all"
                )

    def recomputes(self, stage: int) -> bool:
        """Whether a stage computes forward again for its backward."""
        words = self.recompute.replace(" ", "").split(",")
        return "all" in words or any(word.isdecimal() and int(word) == stage for word in words)

    def __str__(self) -> str:
        words = self._axes_in_words() if self.parallel else self._stages_in_words()
        words += [f"recompute stages:{self.recompute}"] if self.recompute else []
        words += [f"tied {self.tied}"] if self.tied else []
        words += ["vertical sync"] * self.vertical_sync
        words += [f"{self.batches} batches"] * bool(self.batches)
        words += [f"cuts {' '.join(self.cuts)}"] if self.cuts else []
        return ", ".join(words)

    def _stages_in_words(self) -> list[str]:
        if self.is_open:
            return ["stages auto"]
        words = [f"{self.stages} stage{'s' * (self.stages > 1)}"]
        words += [f"{self.virtual} a place"] * (self.virtual > 1)
        words.append(self.usual_schedule)
        if self.micro_batch:
            return [*words, f"micro-batches of {self.micro_batch}"]
        words.append(f"{self.micro_batches} micro-batch{'es' * (self.micro_batches > 1)}")
        return words

    def _axes_in_words(self) -> list[str]:
        ways = str(self.parallel).split(",")
        degrees = " ".join(way for way in ways if not (self.stage_hw and way == "dp=1"))
        words = [degrees] if degrees else []
        words += [f"stages on {self.stage_hw}"] if self.stage_hw else []
        layers = " ".join(map(str, self.stage_layers))
        words += [f"of {layers} layers"] if layers else []
        words += [f"axis order {self.axis_order}"] * bool(self.axis_order)
        words += [self.schedule] * bool(self.schedule)
        words += [f"micro-batches of {self.micro_batch}"] * bool(self.micro_batch)
        words += [f"{self.micro_batches} micro-batches"] * (self.micro_batches > 1)
        return words


def places_of(array: Array, stages: int) -> tuple[Place, ...]:
    """An array's accelerators, evenly and in order; the first places have what is left over.

    Raises PlanError where there are fewer than stages.
    """
    size = array.group.size
    if stages < 1:
        raise PlanError(f"{stages} stages: at least one is needed")
    if stages > size:
        raise PlanError(
            f"{stages} stages on {array.name!r}, which has {size} accelerators; take fewer stages"
        )
    each, rest = divmod(size, stages)
    counts = [each + (k < rest) for k in range(stages)]
    firsts = [sum(counts[:k]) for k in range(stages)]
    return tuple(Place(first, count) for first, count in zip(firsts, counts, strict=True))


def micro_batch(batch: int, micro_batches: int) -> int:
    """Samples of one; raises PlanError where they do not divide the batch."""
    if micro_batches < 1 or batch % micro_batches:
        near = [n for n in range(1, min(batch, 4 * max(micro_batches, 1)) + 1) if not batch % n]
        best = min(near, key=lambda n: abs(n - micro_batches))
        raise PlanError(
            f"{micro_batches} micro-batches do not divide a batch of {batch}; take {best}, or "
            "another batch"
        )
    return batch // micro_batches


def cut_into(network: Network, firsts: Sequence[int]) -> Cut:
    """The network in stages; raises PlanError where it cannot be cut so."""
    try:
        return cut(network, firsts)
    except NetworkError as error:
        raise PlanError(str(error)) from None


def named_cuts(graph: Graph, cuts: Sequence[str], stages: int) -> tuple[int, ...]:
    """The numbers of the layers at which stages begin; raises PlanError for others than asked."""
    number = {node.name: i for i, node in enumerate(graph)}
    if unknown := [name for name in cuts if name not in number]:
        raise PlanError(
            f"cuts={','.join(cuts)}: no layer {unknown[0]!r} to begin a stage with; see "
            "the layers of plan --format json"
        )
    if len(cuts) != stages - 1:
        raise PlanError(
            f"cuts={','.join(cuts)}: {len(cuts)} cuts make {len(cuts) + 1} stages, not {stages}"
        )
    return (0, *(number[name] for name in cuts))


def planned_in_stages(
    planner: str | Planner,
    network: Network,
    array: Array,
    batch: int,
    staging: Staging,
    firsts: Sequence[int],
    places: Sequence[Place],
    objective: Objective = TIME,
    **told: Any,
) -> Plan:
    """A plan whose stages begin at layers ``firsts``, each planned by ``planner`` at its place.

    What planners are ``told`` besides is for those that ask for it.
    Raises PlanError for what is asked for and cannot be.
    """
    each, size = load_planner(planner), micro_batch(batch, staging.micro_batches)
    staging.check_recompute()
    whole = Plan.blank(planner_name(planner), network, batch, objective)

    def planned(_: int, part: Network, at: Array) -> Plan:
        return asked(each, part, at, size, objective, **told)

    found = cut_into(network, firsts)
    return plan_of_stages(whole, found, array, places, staging, staging.micro_batches, planned)


def plan_of_stages(
    whole: Plan,
    found: Cut,
    array: Array,
    places: Sequence[Place],
    staging: Staging,
    micro_batches: int,
    planned: Callable[[int, Network, Array], Plan],
) -> Plan:
    """The ``whole`` with a pipeline of the stages of a cut; ``planned`` plans one at its place."""
    stages = []
    for k, (first, part) in enumerate(zip(found.firsts, found.networks, strict=True)):
        place = places[k % len(places)]
        unlike = len({array.part(*one).group for one in place.ranges}) > 1
        plans = tuple(
            planned(k, part, array.part(*one)) for one in place.ranges[: None if unlike else 1]
        )
        again = staging.recomputes(k)
        stages.append(Stage(first, k % len(places), plans[0], again, plans if unlike else ()))
    pipeline = Pipeline(
        tuple(stages),
        tuple(places),
        staging.usual_schedule,
        micro_batches,
        staging.tied,
        staging.vertical_sync,
        staging.batches,
    )
    return replace(whole, pipeline=pipeline)
