"""The fastest pipeline over kinds of devices: candidates by estimate, judged by the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from math import gcd, inf

from hardware import Array
from planners import Axes, Plan, PlanError, Staging
from planners.axes.degrees import powers_to
from planners.axes.node_types import experts
from planners.axes.planner import planned_by_axes
from planners.axes.stage_cuts import blocks_of
from planners.axes.stage_search import Stages, StageSearch
from planners.cost.objective import Objective
from simulator.collectives.algorithms import CollectiveError
from simulator.engine.errors import OutOfMemoryError
from simulator.engine.replay import run
from simulator.lowering.execution import Execution
from simulator.lowering.pipeline.program import step_program
from simulator.search.candidates import planned
from simulator.search.closed_form.first_pass import FirstPass
from simulator.search.closed_form.network_on_array import ZERO_STAGE_OF, Layout
from simulator.search.kinds.stage_costs import StageCosts
from simulator.search.shares import best_share
from simulator.search.updates import with_updates
from workloads import Network, partition_graph

NEAR = 1.25
"""The estimate of a candidate is at most this many times the best estimate."""
UNIFORM, UNSURE = 20, 1.1
"""Axes on all devices that are simulated: so many, estimated at most so much above the best."""
OF_A_SORT = 4
"""Candidates with equal numbers of stages and equal micro-batches: at most so many are kept."""
MOST_MIXED = 8
"""Candidates with all kinds in each stage: at most so many, for their estimates are rough."""
SLOWEST = 4
"""Most micro-batches of a round for a replica of the slowest kind."""
MOST = 20
"""Candidates whose stages have one kind each: at most so many."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pipeline and its estimated time."""

    seconds: float
    stage_hw: str
    layers: tuple[int, ...]
    cuts: tuple[str, ...]
    micro_batch: int
    by_positions: bool
    recompute: str
    alike: bool
    """Whether all stages have as many replicas."""
    ep: int = 1

    @property
    def staging(self) -> Staging:
        """What is asked of the pipeline."""
        return Staging(
            parallel=Axes(sp=self.by_positions, ep=self.ep),
            stage_hw=self.stage_hw,
            cuts=self.cuts,
            micro_batch=self.micro_batch,
        )


def candidates(
    network: Network, array: Array, batch: int, execution: Execution, recompute: Sequence[str] = ()
) -> list[Candidate]:
    """Pipelines by estimated time, the shortest first; ``array`` is the planned array.

    Stages have one kind each. Behind those are stages with all kinds, whose replicas take unlike
    numbers of micro-batches; not with ZeRO, nor with expert parallelism (``ep``), which share
    weights out among alike replicas.
    ``recompute`` lists the recomputations to try (empty: that of ``execution``).
    Raises PlanError where two kinds have one name.
    """
    check_kinds(array, execution)
    found, mixed, worth_s = list[Candidate](), list[Candidate](), inf
    degrees = _degrees(network, array)
    for how in recompute or (execution.recompute,):
        own = replace(execution, recompute=how)
        for size in _sizes(array, batch):
            plain = StageCosts(network, array, own, size)
            splits = sorted({False, max(map(len, plain.widths)) > 1})  # by positions only with tp
            every = [replace(plain, by_positions=sp, ep=ep) for sp in splits for ep in degrees]
            searches = [(costs, one) for costs in every for one in _searches(costs, batch)]
            if min(search.least_s for _, search in searches) > NEAR * worth_s:
                break  # smaller micro-batches take longer still
            for costs, search in searches:
                for seconds, stages in search.best(NEAR * worth_s):
                    wide = any(search.options[one.option].tp > 1 for one in stages)
                    if wide or not costs.by_positions:
                        worth_s = min(worth_s, seconds)
                        found.append(_candidate(seconds, stages, search, costs))
            if own.update not in ZERO_STAGE_OF:
                mixed += mixed_stages(every[0], batch // size)
    found.sort(key=lambda one: one.seconds)
    mixed.sort(key=lambda one: one.seconds)
    worth = [one for one in mixed if one.seconds <= NEAR * worth_s]
    return [*islice(_likeliest(found, NEAR * worth_s), MOST), *worth[:MOST_MIXED]]


def check_kinds(array: Array, execution: Execution) -> None:
    """Raise PlanError where stages are not searched: in the published model, or kinds alike."""
    if execution.model != "deployed":
        raise PlanError("stages=auto is for the deployed model; add --execution deployed")
    if len({device.name for device, _ in array.group.kinds}) < len(array.group.kinds):
        raise PlanError(f"stages=auto: two kinds of {array.name!r} have one name; give it another")


def _likeliest(found: Sequence[Candidate], worth_s: float) -> Iterator[Candidate]:
    """Candidates worth a simulation: a few of each sort."""
    sorts = Counter[tuple[bool, int, int, str]]()
    for one in found:
        sort = one.alike, len(one.layers), one.micro_batch, one.recompute
        sorts[sort] += 1
        if one.seconds <= worth_s and sorts[sort] <= OF_A_SORT:
            yield one


def _sizes(array: Array, batch: int) -> list[int]:
    """Sizes of micro-batches, the largest first: powers of two, and equal shares of devices."""
    powers = {*powers_to(batch)}
    shares = {batch // count for count in (*array.group.leaves, array.group.size)}
    sizes = (size for size in powers | shares if size and not batch % size)
    return sorted(sizes, reverse=True)


def _degrees(network: Network, array: Array) -> list[int]:
    """Degrees of expert parallelism to try: none, and powers of two."""
    graph = partition_graph(network)
    if not any(node.routes for node in graph):
        return [1]
    number = gcd(*(node.groups for node in graph if experts(node)))
    return [ep for ep in powers_to(min(number, max(array.group.leaves))) if not number % ep]


def _searches(costs: StageCosts, batch: int) -> Iterator[StageSearch]:
    """One search; with ZeRO or expert parallelism one for each width and number of replicas."""
    devices, many = costs.array.group.leaves, batch // costs.micro_batch
    options, tied = costs.options(many), bool(costs.cut.ties)
    if costs.execution.update not in ZERO_STAGE_OF and costs.ep == 1:
        yield StageSearch(devices, costs.nodes, options, many, tied)
        return
    for alike in sorted({(one.tp, one.replicas) for one in options}):
        some = [one for one in options if (one.tp, one.replicas) == alike]
        yield StageSearch(devices, costs.nodes, some, many, tied)


def _candidate(seconds: float, stages: Stages, search: StageSearch, costs: StageCosts) -> Candidate:
    group, options = costs.array.group, [search.options[one.option] for one in stages]
    names = [node.name for node in partition_graph(costs.network)]
    return Candidate(
        seconds,
        ";".join(f"{group.kinds[o.kind][0].name}:{o.tp}x{o.replicas}" for o in options),
        tuple(one.end - one.first for one in stages),
        tuple(names[costs.cut.firsts[one.first]] for one in stages[1:]),
        costs.micro_batch,
        costs.by_positions,
        costs.execution.recompute,
        len({one.replicas for one in options}) == 1,
        costs.ep,
    )


def mixed_stages(costs: StageCosts, micro_batches: int) -> Iterator[Candidate]:
    """Stages that have all kinds of devices: each kind takes its part of the micro-batches.

    Every stage has as many blocks and the same replicas of each kind. In a round a replica of
    kind k takes t_k micro-batches, about as its speed. Of M micro-batches, R_k replicas of each
    kind, which take a_k for a micro-batch through all layers, and p stages a step takes about

        (M / L + p - 1) max of t_k a_k / p + e,   L = sum of R_k t_k

    where e is what the sums of all kinds' gradients last longer than a way back. All that go
    round, with the planner's own cuts; none on devices of one kind.
    """
    group, blocks = costs.array.group, len(costs.cut.firsts)
    if len(group.kinds) == 1:
        return
    for widths in product(*costs.widths):
        each_s = [costs.seconds(kind, tp) for kind, tp in enumerate(widths)]
        for stages in powers_to(blocks):
            per_stage = [tp * stages for tp in widths]
            replicas = [many // each for many, each in zip(group.leaves, per_stage, strict=True)]
            if not all(replicas) or blocks % stages:
                continue
            sums_s = costs.sums_of_all_s(widths, replicas, stages)
            for turns in _turns(each_s):
                rounds, rest = divmod(micro_batches, sum(map(int.__mul__, replicas, turns)))
                if rest or not rounds:
                    continue
                slowest_s = max(map(float.__mul__, map(float, turns), each_s)) / stages
                parts = (
                    f"{device.name}:{tp}x{many}@{turn}"
                    for (device, _), tp, many, turn in zip(
                        group.kinds, widths, replicas, turns, strict=True
                    )
                )
                yield Candidate(
                    (rounds + stages - 1) * slowest_s + sums_s,
                    ";".join(["+".join(parts)] * stages),
                    (blocks // stages,) * stages,
                    (),
                    costs.micro_batch,
                    by_positions=False,
                    recompute=costs.execution.recompute,
                    alike=False,
                )


def _turns(each_s: Sequence[float]) -> list[tuple[int, ...]]:
    """Micro-batches of a round for a replica of each kind, by what one takes them."""
    slowest_s = max(each_s)
    scaled = (
        tuple(max(1, round(many * slowest_s / s)) for s in each_s) for many in range(1, SLOWEST + 1)
    )
    return list(dict.fromkeys(scaled))


def stages_over_kinds(
    network: Network, array: Array, batch: int, objective: Objective, execution: Execution
) -> Plan:
    """The fastest of the candidates that fit; raises PlanError where none does.

    Candidates are stages over kinds, the axes on all devices that the first pass finds best, and
    data parallelism on all devices with the best share of the samples for each kind.
    """
    best, best_s, why = None, inf, ""
    named = ((0.0, one.staging) for one in candidates(network, array, batch, execution))
    for estimate_s, staging in (*named, *on_all_devices(network, array, batch, execution)):
        if estimate_s > UNSURE * best_s:
            continue
        try:
            axes = staging.parallel or Axes()
            plan = planned_by_axes(network, array, batch, axes, staging, objective)
            plan = with_updates(network, plan, array, execution)
            seconds = simulated_s(network, plan, array, execution)
        except (PlanError, CollectiveError, OutOfMemoryError) as error:
            why = str(error)
            continue
        if seconds < best_s:
            best, best_s = plan, seconds
    best = _with_shares(network, array, batch, objective, execution, best_s) or best
    if best is None:
        raise PlanError(
            f"stages=auto: no stages of {network.name!r} fit {array.name!r}"
            f"{f' ({why})' if why else ''}; take more devices, or --recompute full"
        )
    return best


def _with_shares(
    network: Network,
    array: Array,
    batch: int,
    objective: Objective,
    execution: Execution,
    worth_s: float,
) -> Plan | None:
    """Data parallelism with a share for each kind, if it fits and takes less than ``worth_s``."""
    if len(array.group.kinds) == 1:
        return None
    strict = replace(execution, staging=None, strict_memory=True)
    fairest = partial(best_share, execution=strict, enough_s=worth_s)
    plan = planned(fairest, network, array, batch, objective)
    try:
        found_s = inf if plan is None else simulated_s(network, plan, array, execution)
    except (PlanError, CollectiveError, OutOfMemoryError):
        return None
    return plan if found_s < worth_s else None


def on_all_devices(
    network: Network, array: Array, batch: int, execution: Execution
) -> list[tuple[float, Staging]]:
    """Axes tp, sp, pp and dp on all devices: the best by the first pass, with their seconds."""
    graph, size = partition_graph(network), array.group.size
    heads = gcd(*(node.groups for node in graph if node.computed)) or 1
    blocks = max(len(blocks_of(graph).firsts), 1)
    first, found = FirstPass(network, array, batch, execution), list[tuple[float, Staging]]()
    room = 1 - execution.memory_reserve
    for tp, pp in product(powers_to(min(heads, size)), powers_to(min(blocks, size))):
        dp, rest = divmod(size, tp * pp)
        if rest or heads % tp or batch % max(dp, 1):
            continue
        sizes = [each for each in powers_to(batch // dp) if not batch // dp % each]
        for sp, each in product(sorted({False, tp > 1}), sizes):
            axes = Axes(dp, pp, tp, sp=sp)
            layout = Layout(axes, each, execution.recompute, execution.update)
            try:
                seconds = first.estimate(layout, room).seconds
            except PlanError:
                continue
            if seconds < inf:
                found.append((seconds, Staging(parallel=axes, micro_batch=each)))
    return sorted(found, key=lambda one: one[0])[:UNIFORM]


def simulated_s(network: Network, plan: Plan, array: Array, execution: Execution) -> float:
    """What a plan's step takes; raises OutOfMemoryError where it does not fit."""
    strict = replace(execution, staging=None, strict_memory=True)
    return run(step_program(network, plan, array, strict)).iteration_s
