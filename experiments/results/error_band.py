"""How far a predicted step may be off: what measured steps of large models say.

Every measured row has an error, and lies more or less far from a case: by chip, format,
software, axes, size and experts. The band is where, by the rows near to the case, four in
five measured steps are. It is widened until it has four in five rows of every source that
it has not seen.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.studies.case import Case, Planned
from experiments.studies.published_values import published
from experiments.terms import duration
from hardware import Device
from planners import Axes, Plan, Update
from planners.axes.node_types import experts
from planners.partition import IV, I, V
from planners.plan.split import Split
from workloads import Network, partition_graph
from workloads.attention import attention_cores

Floats = NDArray[np.float64]
FILE = "measured_errors"
INSIDE = 0.8
"""Of measured steps, how many the band is to have."""
NEAR = 1.0
"""The distance at which a row counts e^(-1/2) of one at no distance."""
APART = {"experts": 3.0, "chip": 2.0, "bits": 1.0, "stack": 1.0, "zero3": 0.7, "cp": 1.0}
"""By how far rows are apart in which these are not the same."""
FLAGS = ("experts", "zero3", "cp")
DOUBLINGS = {"gpus": 0.3, "parameters": 0.2, "tp": 0.3, "pp": 0.3, "ep": 0.2}
"""And for each doubling of these."""
COLUMNS = (
    *("id", "source", "chip", "stack", "bits", *FLAGS),
    *(*DOUBLINGS, "measured_over_predicted"),
)


@dataclass(frozen=True, slots=True)
class ErrorBand:
    """Four in five measured steps take ``low`` to ``high`` times the predicted one.

    ``rows`` are how many measured steps say so, each weighed by its distance (the sum of the
    weights, squared, over the sum of their squares); ``nearest`` is the source of the nearest.
    """

    low: float
    high: float
    rows: float
    nearest: str

    def to_json(self, step_s: float | None = None) -> dict[str, Any]:
        """The band as scripts read it; of one step in seconds too."""
        found = {"share": INSIDE, "low": self.low, "high": self.high}
        if step_s is not None:
            found |= {"low_s": self.low * step_s, "high_s": self.high * step_s}
        return {**found, "rows": round(self.rows, 1), "nearest": self.nearest}


Features = dict[str, Any]
"""What rows are told apart by: the keys of APART and DOUBLINGS."""


def features_of(case: Case) -> Features | None:
    """A case's features; None where it is no deployed training step of one kind with a stack.

    Nor are there any of other networks than language models, or of stages that say their
    devices: no measured row is of one. A chip of one's own is the one that it extends.
    """
    array, staging = case.array, case.execution.staging
    if case.execution.model != "deployed" or case.execution.inference:
        return None
    if array.stack is None or len(array.group.kinds) > 1:
        return None
    if (staging is not None and staging.stage_hw) or not _is_language_model(case.network):
        return None
    device, _ = array.group.kinds[0]
    update, devices = case.execution.update, case.execution.planned(array).group.size
    axes = Axes(pp=staging.stages if staging else 1)
    if staging and staging.parallel:
        axes = staging.parallel.on(devices, array.name)
    elif isinstance(case.planner, Planned):
        axes = _axes_of(case.planner.plan, case.network)
        update = update or next(iter(case.planner.plan.of_stages[0].updates), "")
    return {
        "chip": _chip(device),
        "stack": array.stack.name,
        "bits": 8 * (device.product_bytes or device.arithmetic.element_bytes),
        "zero3": update == Update.WEIGHTS,
        "cp": axes.cp > 1,
        "gpus": array.group.size,
        "experts": any(experts(node) for node in partition_graph(case.network)),
        "parameters": case.network.parameters,
        **{axis: getattr(axes, axis) for axis in ("tp", "pp", "ep")},
    }


def _axes_of(plan: Plan, network: Network) -> Axes:
    """What a plan splits, as axes: each halving of a stage by what most products do.

    By sequence is cp, by samples dp, all else tp; where experts themselves are split it is ep.
    The stage is the first that has any, or the first one.
    """
    nodes = {node.name: node for node in partition_graph(network)}
    inside = {name for name, node in nodes.items() if experts(node)}
    every = plan.of_stages
    own = next((one for one in every if inside & {*one.nodes}), every[0])
    degrees, split = defaultdict[str, float](float), own.root
    while split is not None:
        types = dict(zip(own.nodes, (each.type for each in split.partitions), strict=True))
        products = [name for name in own.nodes if not nodes[name].join and name not in inside]
        most = Counter(types[name] for name in products).most_common(1)
        usual, inner = most[0][0] if most else I, split.halves[0]
        doubled = math.log2(_leaves(split) / _leaves(inner))
        degrees["cp" if usual is V else "dp" if usual is I else "tp"] += doubled
        degrees["ep"] += doubled * any(types[name] is IV for name in own.nodes if name in inside)
        split = inner
    tp, cp, ep = (round(2 ** degrees[axis]) for axis in ("tp", "cp", "ep"))
    return Axes(pp=len(plan.pipeline.places) if plan.pipeline else 1, tp=tp, cp=cp, ep=ep)


def _leaves(split: Split | None) -> int:
    """Into how many parts a split cuts, all below it counted."""
    if split is None:
        return 1
    return sum(map(_leaves, split.halves)) if len(split.halves) > 1 else 2 * _leaves(*split.halves)


def _is_language_model(network: Network) -> bool:
    """Whether it looks tokens up in a table, and has attention."""
    return any(layer.type.gathers for layer in network.layers) and bool(attention_cores(network))


def _chip(device: Device) -> str:
    """The device as rows name it: the one that it extends, where it is somebody's own."""
    return (device.name.partition(",")[0], *device.extends)[-1]


@dataclass(frozen=True)
class Errors:
    """Measured rows: sources, features by name, and logarithms of measured over predicted."""

    sources: NDArray[np.str_]
    features: Mapping[str, NDArray[Any]]
    logs: Floats

    def without(self, source: str) -> Errors:
        """All rows of other sources."""
        kept = self.sources != source
        features = {name: column[kept] for name, column in self.features.items()}
        return Errors(self.sources[kept], features, self.logs[kept])

    def row(self, place: int) -> Features:
        """The features of one of them."""
        return {name: column[place] for name, column in self.features.items()}

    def distances(self, of: Features) -> Floats:
        """How far each row is from a case."""
        squares = np.zeros(len(self.logs))
        for name, apart in APART.items():
            squares += apart**2 * (self.features[name] != of[name])
        for name, each in DOUBLINGS.items():
            squares += (each * (np.log2(self.features[name]) - math.log2(of[name]))) ** 2
        return np.sqrt(squares)

    def weights(self, of: Features) -> Floats:
        """How much each row counts: by its distance, and no source by the number of its rows."""
        near = np.exp(-0.5 * (self.distances(of) / NEAR) ** 2)
        _, which = np.unique(self.sources, return_inverse=True)
        return near / np.sqrt(np.maximum(np.bincount(which, near)[which], 1e-300))

    def quantiles(self, of: Features) -> tuple[float, float, float]:
        """The band's low end, middle and high end (logarithms), before it is widened."""
        weights, order = self.weights(of), np.argsort(self.logs)
        passed = np.cumsum(weights[order]) - weights[order] / 2
        at = [(1 - INSIDE) / 2, 0.5, (1 + INSIDE) / 2]
        low, middle, high = np.interp(at, passed / weights.sum(), self.logs[order])
        return float(low), float(middle), float(high)

    def widening(self) -> float:
        """By how much bands have to be wider to have four in five rows of unseen sources."""
        needed = np.zeros(len(self.logs))
        for source in np.unique(self.sources):
            others = self.without(source)
            for i in np.flatnonzero(self.sources == source).tolist():
                low, middle, high = others.quantiles(self.row(i))
                off = self.logs[i] - middle
                side = high - middle if off > 0 else middle - low
                needed[i] = abs(off) / side if side else math.inf
        return float(np.quantile(needed, INSIDE))

    def band(self, of: Features, widening: float) -> ErrorBand:
        """The band of a case."""
        low, middle, high = self.quantiles(of)
        weights, distances = self.weights(of), self.distances(of)
        return ErrorBand(
            math.exp(middle + widening * (low - middle)),
            math.exp(middle + widening * (high - middle)),
            float(weights.sum() ** 2 / (weights**2).sum()),
            str(self.sources[distances.argmin()]),
        )


@cache
def shipped() -> tuple[Errors, float]:
    """The rows that come with accelarray, and by how much their bands are widened."""
    rows = published(FILE)
    columns = {name: np.array([cells[name] for cells in rows]) for name in rows[0]}
    words = ("chip", "stack")
    features = {
        name: columns[name] if name in words else columns[name].astype(float)
        for name in (*APART, *DOUBLINGS)
    }
    logs = np.log(columns["measured_over_predicted"].astype(float))
    errors = Errors(columns["source"], features, logs)
    return errors, errors.widening()


def share_within(cases: Mapping[str, Sequence[tuple[Case, float]]]) -> tuple[int, float]:
    """How many of some sources' cases have a band, and which share of their errors is in it.

    ``cases`` has by source each case with measured over predicted; rows of the same source are
    not asked. NaN where none has a band.
    """
    known, _ = shipped()
    inside = list[bool]()
    for source, own in cases.items():
        others = known.without(source)
        widening = others.widening()
        for case, ratio in own:
            of = features_of(case)
            if of is not None and of["chip"] in others.features["chip"]:
                band = others.band(of, widening)
                inside.append(band.low <= ratio <= band.high)
    return len(inside), sum(inside) / len(inside) if inside else math.nan


def error_band(case: Case) -> ErrorBand | None:
    """What measured steps say of a case; None for a machine of which none is known."""
    if (of := features_of(case)) is None:
        return None
    errors, widening = shipped()
    return errors.band(of, widening) if of["chip"] in errors.features["chip"] else None


def widest(cases: Iterable[Case]) -> ErrorBand | None:
    """The lowest low and the highest high of several cases' bands; None where none has one."""
    bands = [band for case in cases if (band := error_band(case)) is not None]
    if not bands:
        return None
    low, high = min(band.low for band in bands), max(band.high for band in bands)
    return replace(min(bands, key=lambda band: band.rows), low=low, high=high)


def banded(case: Case, step_s: float) -> dict[str, Any] | None:
    """The band of one step as JSON has it; None for a machine of which none is known."""
    band = error_band(case)
    return None if band is None else band.to_json(step_s)


def band_rows(found: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """A row of a table, of a band as JSON has it; none without a band."""
    if found is not None:
        ends = [duration(found[key]) for key in ("low_s", "high_s")]
        words = f"four in five measured steps like it (nearest: {found['nearest']})"
        yield "error band", f"{ends[0]} to {ends[1]}, {words}"


def band_sentence(band: ErrorBand | None) -> list[str]:
    """The band of several steps, in a sentence; none without a band."""
    if band is None:
        return []
    times = f"{band.low:.2f} to {band.high:.2f} times as long as predicted"
    return [f"Error band: four in five measured steps like these take {times}."]


SGD = "SGD updates the weights, and keeps one moment; --optimizer adam keeps two."
NO_STACK = (
    "No stack: kernels and links have the spec's efficiencies, and the step has no error band. "
    "--stack NAME has measured ones (accelarray list stacks)."
)

UNMEASURED = "No error band: none of the measured steps that bands are made from is {}."
OTHER = "of a network that is no language model (tokens and attention)"
OF_IMAGES = ("ngc-2019", "ngc-2020", "tensorflow-2017")
"""Stacks that were checked on measured steps of convolutional networks."""
OF_TEXTS = (
    "Stack {} was checked on language models alone; on convolutional networks of V100 and A100 "
    "ngc-2020 was."
)


def assumed(case: Case) -> list[str]:
    """What a training step takes for granted: its optimizer, that it has no stack, or no band."""
    array, execution = case.array, case.execution
    if execution.model != "deployed" or execution.inference:
        return []
    stated = {setting.key for setting in array.settings}
    stated |= {change.partition("=")[0] for change in array.changes}
    chips = {_chip(device) for device, _ in array.group.kinds}
    unmeasured = sorted(chips - {*shipped()[0].features["chip"]})
    one_moment = len(array.group.arithmetic.moment_bytes) == 1
    no_stack = [NO_STACK] if array.stack is None and "stack" not in stated else []
    what = f"on {' or '.join(unmeasured)}" if unmeasured else OTHER
    has_none = unmeasured or not (no_stack or _is_language_model(case.network))
    stack = array.stack.name if array.stack else OF_IMAGES[0]
    unlike = [] if unmeasured or stack in OF_IMAGES else [OF_TEXTS.format(stack)]
    return [
        *([UNMEASURED.format(what), *unlike] if has_none else no_stack),
        *([SGD] if one_moment and case.network.sizes and "optimizer" not in stated else []),
    ]
