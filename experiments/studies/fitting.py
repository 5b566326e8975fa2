"""Which axes of parallelism fit a model on an array, and which of them are fastest: all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import gcd
from typing import Any

from experiments.notices import tell
from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.options import with_options
from experiments.studies.running.outputs import Outputs, run_case
from experiments.studies.step_numbers import throughput
from hardware import Array
from planners import AXES, Axes, PlanError, Update
from planners.axes.node_types import experts
from planners.axes.stage_cuts import blocks_of
from planners.axes.stage_devices import with_stages
from simulator import Execution, OutOfMemoryError
from simulator.cost.number_bytes import number_bytes
from simulator.search.kinds.over_kinds import Candidate, candidates
from simulator.search.updates import AUTO
from workloads import Network, partition_graph
from workloads.cache import once_for_each

RECOMPUTE = ("none", "selective", "full")
MOST_MICRO_BATCH = 8
"""Of stages; where there is one, a micro-batch may be all that a replica has."""
VARIED = ("tp", "sp", "pp", "ep", "micro-batch", "recompute")
"""What is varied where nobody says; dp takes the devices that are left."""
FURTHER = ("cp", "vp", "update")
IN_PARTS = {
    Update.SHARDED: ("state",),
    Update.GRADIENTS: ("state", "gradients"),
    Update.WEIGHTS: ("state", "gradients", "weights"),
    AUTO: ("state",),
}
"""What those who have the same weights keep in parts, by update."""
MOST = {"tp": 64, "pp": 64, "cp": 16, "vp": 8, "ep": 64}


@dataclass(frozen=True, slots=True)
class Choice:
    """One combination: axes, samples of a micro-batch in each of dp ways, and options."""

    axes: Axes
    micro_batch: int
    recompute: str = "none"
    update: str = ""
    stage_hw: str = ""
    layers: tuple[int, ...] = ()
    cuts: tuple[str, ...] = ()
    """Of stages on devices of their own: where they are, and the layers that they begin with."""

    def of(self, execution: Execution) -> Execution:
        """The execution model with it; what does not fit in memory is not run."""
        words = {
            "parallel": str(self.axes),
            "micro_batch": str(self.micro_batch or ""),
            "recompute": self.recompute,
            "update": self.update,
            "stage_hw": self.stage_hw,
            "cuts": ",".join(self.cuts),
        }
        asked = {key: text for key, text in words.items() if text not in ("", "none")}
        if self.update == Update.REPLICATED:  # as where nothing is said
            del asked["update"]
            execution = replace(execution, update="")
        return replace(with_options(execution, asked), strict_memory=True)

    def fields(self) -> dict[str, Any]:
        """Its values, by name."""
        names = ("dp", "tp", "sp", "cp", "pp", "vp", "ep")
        each = {name: getattr(self.axes, name) for name in names}
        if self.stage_hw:  # which says them
            each |= {"dp": None, "tp": None}
        return each | {
            "stage_hw": self.stage_hw,
            "stage_layers": ";".join(map(str, self.layers)),
            "micro_batch": self.micro_batch,
            "recompute": self.recompute,
            "update": self.update or str(Update.REPLICATED),
        }


@dataclass(frozen=True)
class Fit:
    """What is asked: a network on an array, and which axes and options are varied."""

    network: Network
    array: Array
    batch: int
    execution: Execution
    varied: tuple[str, ...] = VARIED

    def cases(self) -> dict[Choice, Case]:
        """Every legal combination that the weights alone let fit, as a step.

        Those of larger micro-batches, and those that recompute, come after these (``after``).
        """
        every = self.expected()
        return {one: every[one] for one in every if one.stage_hw or one.micro_batch == 1}

    def expected(self) -> dict[Choice, Case]:
        """The same with those of larger micro-batches: about as many steps as will be simulated."""
        return {
            choice: self.case(choice)
            for choice in self.choices()
            if choice.stage_hw
            or (
                self.state_bytes(choice) <= self.capacity_bytes and choice.recompute == RECOMPUTE[0]
            )
        }

    def case(self, choice: Choice) -> Case:
        """A combination as a step."""
        axes, own = choice.axes, choice.stage_hw
        if not own and axes.pp == 1 and choice.micro_batch == self.batch // axes.dp:
            choice = replace(choice, micro_batch=0)  # a step without micro-batches
        execution = choice.of(self.execution)
        return Case(self.network, AXES, self.array, self.batch, execution=execution)

    def after(self, choice: Choice, outputs: Outputs) -> dict[Choice, Case]:
        """What to try next of the same axes, by how a combination went: up a staircase.

        What does not fit is tried with more computed again, which only adds work where it fits;
        what fits, with larger micro-batches, which hold more: what did not fit with smaller
        ones is not tried. Samples 1 fit as they are, 2 do not but recomputed, selectively:
        4 are tried selectively first.
        """
        if choice.stage_hw:
            return {}
        if outputs["out_of_memory"]:
            place = RECOMPUTE.index(choice.recompute) + 1
            last = place == len(RECOMPUTE) or "recompute" not in self.varied
            more = None if last else replace(choice, recompute=RECOMPUTE[place])
        else:
            sizes = self._micro_batches(choice.axes)
            larger = [size for size in sizes if size > choice.micro_batch]
            more = replace(choice, micro_batch=larger[0]) if larger else None
        return {} if more is None else {more: self.case(more)}

    def passes(self, choice: Choice) -> int:
        """How often some stage takes a micro-batch: what simulating a step is most of."""
        return self.batch // (choice.axes.dp * choice.micro_batch) * choice.axes.pp

    def choices(self) -> Iterator[Choice]:
        """Every legal combination of powers of two, and of several kinds the likeliest stages."""
        recompute = RECOMPUTE if "recompute" in self.varied else RECOMPUTE[:1]
        for axes in self._axes():
            sizes = self._micro_batches(axes)
            for size, again, how in product(sizes, recompute, self._updates(axes)):
                yield Choice(axes, size, again, how)
        yield from self._staged

    @cached_property
    def _staged(self) -> list[Choice]:
        """Stages on devices of each kind, where there are several."""
        recompute = RECOMPUTE if "recompute" in self.varied else ()
        array, found = self.execution.planned(self.array), list[Candidate]()
        if len(array.group.kinds) > 1:
            try:
                found = candidates(self.network, array, self.batch, self.execution, recompute)
            except PlanError as error:
                tell(f"Stages over kinds of devices are left out: {error}")
        return [
            Choice(
                with_stages(one.staging).parallel or Axes(),
                one.micro_batch,
                one.recompute,
                self.execution.update,
                one.stage_hw,
                one.layers,
                one.cuts,
            )
            for one in found
        ]

    def _micro_batches(self, axes: Axes) -> list[int]:
        """Samples of a micro-batch in each of dp ways: powers of two that divide what it has.

        Without stages all that it has, too.
        """
        share = self.batch // axes.dp
        if "micro-batch" not in self.varied:
            return [1]
        sizes = [size for size in _powers(share) if not share % size]
        if axes.pp == 1:
            return sorted({*sizes, share})
        return [size for size in sizes if size <= MOST_MICRO_BATCH]

    def _updates(self, axes: Axes) -> list[str]:
        """How weights may be updated: as asked, or all ways; whole in stages, as these must be."""
        if "update" not in self.varied:
            return [self.execution.update]
        return [one for one in Update if one is not Update.WEIGHTS or axes.pp == 1]

    def _axes(self) -> Iterator[Axes]:
        devices = self.execution.planned(self.array).group.size
        graph = partition_graph(self.network)
        heads = gcd(*(node.groups for node in graph if node.computed))
        routed = gcd(*(node.groups for node in graph if experts(node)))
        positions = gcd(*(node.out_area for node in graph if node.computed))
        blocks = len(blocks_of(graph).firsts)
        ways = {"tp": heads, "ep": routed, "cp": positions, "pp": blocks, "vp": blocks}
        found = {name: self._ways(name, most) for name, most in ways.items()}
        for tp, cp, pp, vp, ep in product(
            *(found[name] for name in ("tp", "cp", "pp", "vp", "ep"))
        ):
            dp, rest = divmod(devices, tp * cp * pp)
            legal = not rest and dp and not self.batch % dp and not dp % ep
            if not legal or (vp > 1 and pp == 1) or pp * vp > max(blocks, 1):
                continue
            for sp in (False, True) if tp > 1 and "sp" in self.varied else (False,):
                yield Axes(dp, pp, tp, vp, ep, cp, sp)

    def _ways(self, name: str, whole: int) -> list[int]:
        """Powers of two that divide ``whole``, or are no more than there are blocks."""
        if name not in self.varied or not whole:
            return [1]
        most = min(MOST[name], whole)
        return [n for n in _powers(most) if name in ("pp", "vp") or not whole % n]

    @property
    def capacity_bytes(self) -> float:
        """HBM of the smallest device's core, without what is reserved."""
        kinds = self.array.group.kinds
        return (1 - self.execution.memory_reserve) * min(
            device.hbm_capacity_bytes / device.cores_per_chip for device, _ in kinds
        )

    def state_bytes(self, choice: Choice) -> float:
        """What a device holds at least: its share of weights, gradients and optimizer's state.

        Of what the devices that have the same weights keep in parts, a part.
        """
        each, axes, update = number_bytes(self.array.group.arithmetic), choice.axes, choice.update
        held = {
            "weights": each.weight,
            "gradients": each.gradient,
            "state": each.state - each.weight,
        }
        for what in IN_PARTS.get(update, ()):
            held[what] /= axes.dp * axes.cp
        return _parameters(self.network) * sum(held.values()) / (axes.tp * axes.pp * axes.ep)


@once_for_each
def _parameters(network: Network) -> int:
    return network.parameters


def _powers(most: int) -> list[int]:
    return [1 << k for k in range(max(most, 1).bit_length())]


def run_choice(case: Case) -> Outputs:
    """A combination's step; where it does not fit, or cannot be, the reason."""
    try:
        return run_case(case) | {"reason": None, "out_of_memory": False}
    except (OutOfMemoryError, PlanError) as error:
        full = isinstance(error, OutOfMemoryError)
        return {"iteration_s": None, "reason": str(error), "out_of_memory": full, "memory": []}


def varied_of(text: str) -> tuple[str, ...]:
    """What is varied, as "tp,pp,cp"; raises UsageError for what is not known.

    ``zero`` is another word for ``update``: stages 0 to 3 are its four ways.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    found = tuple(dict.fromkeys("update" if part == "zero" else part for part in parts))
    known = (*VARIED, *FURTHER)
    for name in found:
        if name not in known:
            raise UsageError(f"--axes {text}: no {name!r}; there are {', '.join(known)}")
    return found


def row_of(choice: Choice, case: Case, outputs: Outputs) -> dict[str, Any]:
    """A combination as a table has it; seconds and rates are None where it does not fit."""
    seconds = outputs["iteration_s"]
    found: dict[str, Any] = choice.fields() | {"iteration_s": seconds}
    rates = None if seconds is None else throughput(case, seconds)
    devices = case.execution.planned(case.array).group.size
    tokens = rates.tokens_per_s if rates else None
    return found | {
        "tokens_per_s": tokens,
        "tokens_per_s_each": None if tokens is None else tokens / devices,
        "samples_per_s": rates.samples_per_s if rates else None,
        "share_of_peak": rates.share_of_peak if rates else None,
        "peak_memory_bytes": max((one["peak_bytes"] for one in outputs["memory"]), default=None),
        "reason": outputs["reason"],
        "out_of_memory": outputs["out_of_memory"],
    }


def ranked(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that fit, the fastest first."""
    return sorted((row for row in rows if row["iteration_s"]), key=lambda row: row["iteration_s"])


def why_not(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How many do not fit in memory, and how many cannot be."""
    memory = sum(row["out_of_memory"] for row in rows)
    others = sum(row["reason"] is not None for row in rows) - memory
    return {"do not fit in memory": memory, "cannot be": others}
