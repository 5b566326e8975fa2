"""All legal combinations of axes of parallelism and of options that go with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import pairwise, product
from math import gcd
from typing import Any

from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.options import with_options
from hardware import Array
from planners import AXES, Axes, Update
from planners.axes.degrees import powers_to
from planners.axes.node_types import experts
from planners.axes.stage_cuts import blocks_of, most_stages, usual_first_nodes
from planners.axes.stage_devices import first_nodes_of
from planners.pipeline.staging import usual_schedule
from simulator import Execution
from simulator.cost.memory import capacity_bytes
from simulator.cost.number_bytes import number_bytes
from simulator.lowering.schedules.registry import schedule_of
from simulator.search.closed_form import network_on_array
from simulator.search.closed_form.network_on_array import Layout
from simulator.search.updates import AUTO, check_update
from workloads import Network, partition_graph
from workloads.attention import attention_cores
from workloads.network import blocks as network_blocks

SCHEDULES = ("", "zero-bubble")
"""Of stages: the usual one (1f1b, or interleaved), and one that nobody's memory forbids."""
MOST_MICRO_BATCH, MOST_IMAGES = 8, 64
"""Of stages, of sequences or of what has none; where there is one, a micro-batch may be all that
a replica has."""
VARIED = (
    *("tp", "sp", "pp", "vp", "cp", "ep", "micro-batch"),
    *("recompute", "update", "schedule", "layers"),
)
"""What is varied where nobody says; dp takes the devices that are left."""
MOST = {"tp": 64, "pp": 64, "cp": 16, "vp": 8, "ep": 64}


@dataclass(frozen=True, slots=True)
class Choice:
    """One combination: axes, samples of a micro-batch in each of dp ways, and options.

    ``layers`` are those of each stage (none: as many blocks in each as may be).
    """

    axes: Axes
    micro_batch: int
    recompute: str = "none"
    update: str = ""
    schedule: str = ""
    layers: tuple[int, ...] = ()
    stage_hw: str = ""
    """Of stages on devices of their own: where they are."""
    cuts: tuple[str, ...] = ()
    """The layers that stages begin with, where ``layers`` do not say it."""

    def of(self, execution: Execution) -> Execution:
        """The execution model with it; what does not fit in memory is not run."""
        layers = "" if self.cuts else ";".join(map(str, self.layers))
        words = {
            "parallel": str(self.axes),
            "micro_batch": str(self.micro_batch or ""),
            "recompute": self.recompute,
            "update": self.update,
            "schedule": self.schedule,
            "stage_layers": layers,
            "stage_hw": self.stage_hw,
            "cuts": ",".join(self.cuts),
        }
        asked = {key: text for key, text in words.items() if text}
        if self.update == Update.REPLICATED:  # as where nothing is said
            del asked["update"]
            execution = replace(execution, update="")
        return replace(with_options(execution, asked), strict_memory=True)

    def fields(self) -> dict[str, Any]:
        """Its values, by name."""
        names = ("dp", "tp", "sp", "cp", "pp", "vp", "ep", "etp")
        each = {name: getattr(self.axes, name) for name in names}
        if self.stage_hw:  # which says them
            each |= {"dp": None, "tp": None}
        return each | {
            "stage_hw": self.stage_hw,
            "stage_layers": ";".join(map(str, self.layers)),
            "cuts": ",".join(self.cuts),
            "schedule": self.schedule or usual_schedule(self.axes.vp),
            "micro_batch": self.micro_batch,
            "recompute": self.recompute,
            "update": self.update or str(Update.REPLICATED),
        }


@dataclass(frozen=True)
class Choices:
    """A network on an array, and which axes and options are varied.

    What ``execution`` says of recompute, update and schedule is not varied, nor what is ``held``:
    axes and the micro-batch by name, as {"tp": 8, "sp": 1}. A ``part`` (k, n) has
    the splits of number k of n parts, by their cp and ep.
    """

    network: Network
    array: Array
    batch: int
    execution: Execution
    varied: tuple[str, ...] = VARIED
    held: Mapping[str, int] = field(default_factory=dict)
    part: tuple[int, int] = (0, 1)

    planner_name = AXES

    def case(self, choice: Choice) -> Case:
        """A combination as a step."""
        axes = choice.axes
        if not choice.stage_hw and axes.pp == 1 and choice.micro_batch == self.batch // axes.dp:
            choice = replace(choice, micro_batch=0)  # a step without micro-batches
        execution = choice.of(self.execution)
        return Case(self.network, AXES, self.array, self.batch, execution=execution)

    def layout(self, choice: Choice) -> Layout:
        """A combination as the first pass takes it; a schedule without a formula as the usual."""
        update = Update.SHARDED if choice.update == AUTO else choice.update
        schedule = choice.schedule or ("" if self.without_formula else self._schedule)
        firsts = self._firsts(choice.layers) if choice.layers else ()
        return Layout(
            choice.axes, choice.micro_batch, choice.recompute, str(update), schedule, firsts
        )

    @property
    def without_formula(self) -> str:
        """The schedule that is asked for, where the first pass has no formula for it."""
        return "" if self._schedule in network_on_array.SCHEDULES else self._schedule

    def splits(self) -> Iterator[Axes]:
        """Axes tp, sp, cp and ep of every combination, the others 1; small ones first."""
        ways, (first, step) = product(*(self._ways[name] for name in ("tp", "cp", "ep"))), self.part
        etp = self.held.get("etp", 0) if any(map(experts, partition_graph(self.network))) else 0
        for tp, cp, ep in sorted(ways, key=lambda one: (one[0] * one[1], *one)):
            if (cp * ep).bit_length() % step != first:
                continue
            free = tp > 1 and "sp" in self.varied and "sp" not in self.held
            for sp in (True, False) if free else (tp > 1 and "sp" in self.held,):
                yield Axes(1, 1, tp, 1, ep, cp, sp, etp)

    def of(self, split: Axes) -> Iterator[Choice]:
        """Every legal combination of a split whose weights fit into the devices' memory."""
        devices = self.execution.planned(self.array).group.size
        for pp, vp in product(self._ways["pp"], self._ways["vp"]):
            dp, rest = divmod(devices, split.tp * split.cp * pp)
            axes = replace(split, dp=dp, pp=pp, vp=vp)
            legal = not rest and dp and not self.batch % dp and axes.splits_experts
            legal = legal and dp == self.held.get("dp", dp)
            stages = pp == 1 or pp * vp <= (self._weighted if "pp" in self.held else self._stages)
            if not legal or (vp > 1 and pp == 1) or not stages:
                continue
            again = self.recomputes(-(-self._blocks // (pp * vp)))
            schedules = self._schedules(axes)
            sizes = [
                size for size in self._micro_batches(axes) if self._follows_schedule(axes, size)
            ]
            for size, how in product(sizes, self._updates(axes)):
                for schedule, layers in product(schedules, self._layers(pp * vp)):
                    for mode in again:
                        yield Choice(axes, size, mode, how, schedule, layers)

    def _follows_schedule(self, axes: Axes, size: int) -> bool:
        """Whether the schedule that is asked for, if any, can have these stages."""
        if not self._schedule:
            return True
        schedule, many = schedule_of(self._schedule), self.batch // (axes.dp * size)
        fault = schedule.check([1] * axes.pp, axes.vp, many) if axes.pp > 1 else None
        return axes.vp >= schedule.least_virtual and fault is None

    def choices(self) -> Iterator[Choice]:
        """Every legal combination of powers of two."""
        for split in self.splits():
            yield from self.of(split)

    def heavier(self, choice: Choice) -> Choice | None:
        """The same with more computed again; None where nothing more can be."""
        stages = choice.axes.pp * choice.axes.vp
        modes = self.recomputes(-(-self._blocks // stages))
        at = modes.index(choice.recompute) + 1 if choice.recompute in modes else len(modes)
        return replace(choice, recompute=modes[at]) if at < len(modes) else None

    @cached_property
    def _blocks(self) -> int:
        return len(blocks_of(partition_graph(self.network)).firsts)

    @cached_property
    def _weighted(self) -> int:
        """Layers with weights, of which each stage must have one."""
        return sum(layer.weighted for layer in self.network.layers)

    @cached_property
    def _recomputed(self) -> bool:
        """Whether there are blocks that can be computed again."""
        return bool(self._blocks and network_blocks(self.network))

    @cached_property
    def _stages(self) -> int:
        """At most so many."""
        return max(most_stages(partition_graph(self.network)), 1)

    @cached_property
    def _ways(self) -> Mapping[str, list[int]]:
        """Powers of two that divide what an axis splits, or are at most as many as stages."""
        graph = partition_graph(self.network)
        whole = {
            "tp": gcd(*(node.groups for node in graph if node.computed)),
            "ep": gcd(*(node.groups for node in graph if experts(node))),
            "cp": gcd(*(node.out_area for node in graph if node.computed)),
            "pp": self._stages,
            "vp": self._stages,
        }
        found = {}
        for name, many in whole.items():
            powers = powers_to(min(MOST[name], many)) if name in self.varied and many else [1]
            powers = [self.held[name]] if name in self.held else powers
            found[name] = [n for n in powers if name in ("pp", "vp") or n == 1 or not many % n]
        return found

    @property
    def _schedule(self) -> str:
        return self.execution.staging.schedule if self.execution.staging else ""

    def _schedules(self, axes: Axes) -> tuple[str, ...]:
        several = axes.pp > 1 and axes.vp == 1 and "schedule" in self.varied
        free = several and not self._schedule and not self.execution.inference
        return SCHEDULES if free else ("",)

    def recomputes(self, blocks: int) -> tuple[str, ...]:
        """What may be computed again in stages of so many blocks, the least first."""
        given = self.execution.recompute
        if "recompute" not in self.varied or given != "none" or self.execution.inference:
            return (given,)
        if not self._recomputed:
            return ("none",)
        numbers = (str(many) for many in powers_to(blocks - 1)) if blocks > 1 else ()
        return ("none", *(["selective"] if self._in_parts else []), *numbers, "full")

    @cached_property
    def _most_samples(self) -> int:
        return MOST_MICRO_BATCH if attention_cores(self.network) else MOST_IMAGES

    @cached_property
    def _in_parts(self) -> bool:
        """Whether some attention keeps its scores, which need not be kept (selective)."""
        return any(len(core) > 1 for core in attention_cores(self.network))

    def _micro_batches(self, axes: Axes) -> list[int]:
        """Samples of a micro-batch in each of dp ways: powers of two that divide what it has.

        Without stages all that it has, too. With several at a place the micro-batches go round.
        """
        share, held = self.batch // axes.dp, self.held.get("micro-batch")
        if held is None and "micro-batch" not in self.varied:
            return [1]
        around = axes.pp if axes.vp > 1 else 1
        if held is not None:
            return [] if share % held or share // held % around else [held]
        sizes = [size for size in powers_to(share) if not share % size]
        if axes.pp == 1:
            return sorted({*sizes, share})
        return [size for size in sizes if size <= self._most_samples and not share // size % around]

    def _updates(self, axes: Axes) -> list[str]:
        """How weights may be updated: as asked, or all ways; whole in stages, as these must be."""
        if "update" not in self.varied or self.execution.update or self.execution.inference:
            given = self.execution.update
            return [] if given == Update.WEIGHTS and axes.pp > 1 else [given]
        if axes.dp * axes.cp == 1:
            return [str(Update.REPLICATED)]
        return [str(one) for one in Update if one is not Update.WEIGHTS or axes.pp == 1]

    def _layers(self, stages: int) -> list[tuple[int, ...]]:
        """Blocks of each stage: the usual ones (none), and with fewer in the last, or both ends."""
        if stages < 2 or "layers" not in self.varied or stages > self._blocks:
            return [()]
        return [(), *self._uneven(stages)]

    @cached_property
    def _parameters(self) -> int:
        return self.network.parameters

    @cached_property
    def _firsts(self) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
        """The first node of stages of so many blocks: kept here, as to compare networks is slow."""
        graph = partition_graph(self.network)
        return cache(lambda layers: first_nodes_of(graph, layers, len(layers)))

    @cached_property
    def _uneven(self) -> Callable[[int], list[tuple[int, ...]]]:
        """Blocks of stages of which the ends have fewer; kept likewise."""
        return cache(partial(_uneven, self.network))

    @cached_property
    def capacities_bytes(self) -> tuple[float, ...]:
        """HBM of a core of each kind of device, the smallest first."""
        return tuple(sorted({capacity_bytes([kind]) for kind in self.array.group.kinds}))

    def state_bytes(self, choice: Choice) -> float:
        """What a device holds at least: its share of weights, gradients and optimizer's state.

        Of what the devices that have the same weights keep in parts, a part. In inference
        weights alone.
        """
        each, axes, update = number_bytes(self.array.group.arithmetic), choice.axes, choice.update
        held = {"weights": each.weight}
        if not self.execution.inference:
            held |= {"gradients": each.gradient, "state": each.state - each.weight}
        parts = 1 if update == AUTO else network_on_array.ZERO_STAGE_OF.get(update, 0)
        for what in ("state", "gradients", "weights")[:parts]:
            if what in held:
                held[what] /= axes.dp * axes.cp
        return self._parameters * sum(held.values()) / (axes.tp * axes.pp * axes.ep)

    def state_share(self, choice: Choice) -> float:
        """The same as a share of the largest device's memory."""
        return self.state_bytes(choice) / self.capacities_bytes[-1]


def _uneven(network: Network, stages: int) -> list[tuple[int, ...]]:
    """As planner "axes" cuts, but for what the ends have less: those between have it, evenly."""
    graph, firsts = partition_graph(network), usual_first_nodes(network, stages)
    ends, blocks, found = (*firsts, len(graph)), blocks_of(graph).firsts, list[tuple[int, ...]]()
    usual = [sum(first <= node < end for node in blocks) for first, end in pairwise(ends)]
    for first, last in ((0, 1), (1, 1), (0, 2)):
        counts = [usual[0] - first, *usual[1:-1], usual[-1] - last]
        inner = range(1, stages - 1) or range(1)
        for _ in range(first + last):
            counts[min(inner, key=counts.__getitem__)] += 1
        if min(counts) > 0 and counts != usual and tuple(counts) not in found:
            found.append(tuple(counts))
    return found


def varied_of(text: str | None, held: Collection[str] = ()) -> tuple[str, ...]:
    """What is varied, as "tp,pp,cp"; None: all but what is ``held``.

    ``zero`` is another word for ``update``: stages 0 to 3 are its four ways. Raises UsageError for
    what is not known, or held, too.
    """
    if text is None:
        return tuple(name for name in VARIED if name not in held)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    found = tuple(dict.fromkeys("update" if part == "zero" else part for part in parts))
    for name in found:
        if name not in VARIED:
            known = ", ".join("zero" if one == "update" else one for one in VARIED)
            raise UsageError(f"--axes {text}: no {name!r}; there are {known}")
        if name in held:
            flag = f"--{name}" if name in ("micro-batch", "recompute") else "--parallel"
            raise UsageError(f"--axes {text}: {flag} says {name}; leave it out of one of the two")
    return found


def check_varied(execution: Execution, named: Collection[str]) -> None:
    """Raise UsageError for an update that is none, and for what ``--axes`` names in vain."""
    check_update(execution)
    if execution.staging and execution.staging.recompute:
        raise UsageError(
            "fit: stages that compute forward again (recompute stages:...) have no formula; take "
            "--recompute full, selective, or a number of blocks"
        )
    said = {
        "recompute": "" if execution.recompute == "none" else execution.recompute,
        "update": execution.update,
        "schedule": execution.staging.schedule if execution.staging else "",
    }
    for name, value in said.items():
        flag = "zero" if name == "update" else name
        if name in named and execution.inference:
            raise UsageError(f"--axes {flag}: inference has none; leave it out")
        if name in named and value:
            raise UsageError(
                f"--axes {flag}: {name} is {value} already; leave it out of one of the two"
            )


def held_of(parallel: str | None, micro_batch: Any) -> dict[str, int]:
    """What has one value in all combinations: {"tp": 8, "sp": 1}. Raises PlanError, UsageError."""
    found: dict[str, int] = {}
    if micro_batch is not None:
        if not str(micro_batch).isdecimal() or int(micro_batch) < 1:
            raise UsageError(f"--micro-batch {micro_batch}: must be a whole number from 1 on")
        found["micro-batch"] = int(micro_batch)
    if parallel:
        axes = Axes.parse(parallel)
        names = [part.partition("=")[0] for part in parallel.replace(",", " ").split()]
        found |= {name: int(getattr(axes, name)) for name in names}
    return found
