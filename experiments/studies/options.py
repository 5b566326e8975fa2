"""Options as people write them: of execution models and pipelines, and lists and ranges of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.notices import tell
from experiments.options import OPTIONS as TABLE
from experiments.output import UsageError
from hardware import (
    Array,
    SpecError,
    format_quantity,
    in_bytes,
    load_array,
    parse_quantity,
    split_quantity,
)
from planners import AXES, Axes, Planner, Staging, load_planner
from planners.axes.degrees import order_of
from planners.axes.stage_devices import stage_layers, with_stages
from planners.plan.updates import ZERO
from planners.registry import reads_axes
from simulator import ALGORITHMS, Execution
from simulator.cost.recompute import NONE, is_mode

DEPLOYED_OPTIONS = ("overlap", "shards", "bucket", "update_order", "algorithm", "memory_reserve")
OF_COMMAS = ("parallel", "axis_order", "cuts")
"""Options whose values are lists: semicolons part several of them."""
AXIS_OPTIONS = ("parallel", "axis_order", "micro_batch", "stage_hw", "stage_layers")
OF_STAGES: dict[str, Callable[[str], object]] = {
    "stages": lambda text: 0 if text == "auto" else _number("stages", text),
    "schedule": str,
    "micro_batches": lambda text: _number("micro_batches", text),
    "virtual": lambda text: _number("virtual", text),
    "recompute": lambda text: _whole_stages(text),
    "tied": str,
    "vertical_sync": lambda text: text == "yes",
    "batches": lambda text: _number("batches", text),
    "cuts": lambda text: tuple(part.strip() for part in text.split(",") if part),
    "parallel": Axes.parse,
    "axis_order": lambda text: ",".join(order_of(text)),
    "micro_batch": lambda text: _number("micro_batch", text),
    "stage_hw": lambda text: text.replace(" ", ""),
    "stage_layers": stage_layers,
}
"""Fields of ``Staging``, and how they are read."""
STAGE_OPTIONS = tuple(OF_STAGES)
MODEL_OPTIONS = (*DEPLOYED_OPTIONS, "mode", "update", "zero", *STAGE_OPTIONS)
CHOICES: dict[str, tuple[str, ...]] = {
    name: option.choices
    for option in TABLE.values()
    if option.choices and (name := option.name.replace("-", "_")) in MODEL_OPTIONS
} | {"algorithm": ("auto", *ALGORITHMS), "tied": ("copies",), "vertical_sync": ("yes", "no")}
STAGES = "stages:"
"""What comes in front of stages that compute forward again as a whole."""
MOST = 1 << 20
"""Of stages and of micro-batches."""


def option_name(key: str) -> str:
    """An option as it is called here: people may write micro-batches, or execution.bucket."""
    name = key.replace("-", "_")
    if name in TABLE:
        name = TABLE[name].name.replace("-", "_")
    return name if name in OPTIONS else key


READ: dict[str, tuple[str, Callable[[str], object]]] = {
    "overlap": ("overlap", lambda text: text == "full"),
    "shards": ("whole_shards", lambda text: text == "whole"),
    "bucket": ("bucket_bytes", lambda text: _bytes(text)),
    "memory_reserve": ("memory_reserve", lambda text: _reserve(text)),
    "zero": ("update", lambda text: ZERO[text]),
}
"""Options that are no stages', but the execution model's fields of another name or kind."""


def with_options(execution: Execution, options: Mapping[str, str]) -> Execution:
    """An execution model with options changed; raises UsageError for what makes no sense."""
    for name, text in options.items():
        if name in DEPLOYED_OPTIONS and execution.model == "published":
            raise UsageError(
                f"{_flag(name)}={text} has no meaning under the published execution model"
            )
        if name in CHOICES and text not in CHOICES[name]:
            raise UsageError(f"{_flag(name)}={text}: one of {', '.join(CHOICES[name])}")
        if name == "zero":
            _check_zero(text, options)
        if name == "recompute":  # one or the other, whatever was said before
            staging = execution.staging and replace(execution.staging, recompute="")
            execution = replace(execution, recompute="none", staging=staging)
        if name == "recompute" and not text.startswith(STAGES):
            execution = replace(execution, recompute=_recomputed(execution, text))
        elif name in STAGE_OPTIONS:
            changed: dict[str, Any] = {name: OF_STAGES[name](text)}
            staging = replace(execution.staging or Staging(), **changed)
            execution = replace(execution, staging=staging)
        else:
            field, read = READ.get(name, (name, str))
            changed = {field: read(text)}
            execution = replace(execution, **changed)
    if execution.staging is None:
        return execution
    return replace(execution, staging=with_stages(execution.staging))


def _check_zero(text: str, options: Mapping[str, str]) -> None:
    if text not in ZERO:
        raise UsageError(
            f"zero={text}: take 0, 1 (the optimizer's state and its update in parts), 2 (gradients "
            "too) or 3 (weights too)"
        )
    if "update" in options:
        raise UsageError(f"zero={text} is update={ZERO[text]}: say one of the two")


def check_axes(planners: Iterable[str | Planner], given: Iterable[str]) -> None:
    """Raise UsageError where options of named axes are given, and no planner reads them.

    Planners beside one that does have micro-batches of their own, which is told.
    """
    asked, every = [name for name in AXIS_OPTIONS if name in given], list(planners)
    others = [planner for planner in every if not reads_axes(load_planner(planner))]
    if asked and len(others) == len(every):
        raise UsageError(
            f"{_flag(asked[0])} is for named axes: say --parallel, as --parallel dp=8,tp=2, and "
            "leave --planner out"
        )
    if others and "micro_batch" in asked:
        names = ", ".join(str(planner) for planner in others)
        tell(
            f"--micro-batch is for planner {AXES!r} alone; {names}: a replica's whole share at "
            "once (--micro-batches N holds for all)"
        )


def _whole_stages(text: str) -> str:
    """Stages that compute forward again as a whole: all, or numbers of stages."""
    value = text.removeprefix(STAGES)
    for part in value.split(",") if value != "all" else ():
        _number("recompute", part.strip(), least=0)
    return value


def _recomputed(execution: Execution, text: str) -> str:
    """What is computed again, not by stages: the deployed model alone knows operators."""
    if not is_mode(text):
        raise UsageError(
            f"recompute={text}: none, selective, full, or a number of blocks (of each stage); "
            "stages:all or stages:0,2 for whole stages"
        )
    if execution.model == "published" and text != NONE:
        raise UsageError(
            f"recompute={text} has no meaning under the published execution model, which knows no "
            "memory; it can do whole stages again: stages:all"
        )
    return text


def _number(name: str, text: str, least: int = 1) -> int:
    if text.isascii() and text.isdigit() and len(text) < 9 and least <= int(text) <= MOST:
        return int(text)
    raise UsageError(f"{_flag(name)}={text}: must be a whole number from {least} to {MOST:,}")


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _reserve(text: str) -> float:
    share = share_of(text)
    if 0 <= share < 1:
        return share
    raise UsageError(f"memory-reserve={text}: a share of memory, as 0.06 or 6%")


def share_of(text: str) -> float:
    """A share, as 0.06 or 6 %; -1 for what is no number."""
    try:
        return float(text.rstrip("% ")) / (100 if text.rstrip().endswith("%") else 1)
    except ValueError:
        return -1.0


def _bytes(text: str) -> float:
    """A size, or nothing at all: each gradient by itself."""
    if text.strip() in ("0", "0.0") or split_quantity(text) == ("B", 0.0):
        return 0.0
    try:
        return parse_quantity(in_bytes(text), "B")
    except ValueError as error:
        raise UsageError(f"bucket={text}: {error}, or a whole number of bytes") from None


INPUTS = ("array", "batch", "execution", "objective")
"""Keys that are inputs of a case and have a column of their own."""
OPTIONS = (*INPUTS, *MODEL_OPTIONS)
"""Keys that are options; every other key is a path in the array's spec."""
MOST_POINTS = 100_000


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a varied key: as a spec has it, as people read it, and its number if any."""

    text: str
    label: str
    number: float | None


@dataclass(frozen=True, slots=True)
class Axis:
    """A varied key, its values and their unit ("" for plain numbers and names)."""

    key: str
    unit: str
    values: tuple[Value, ...]

    @property
    def numeric(self) -> bool:
        """Whether every value is a number."""
        return all(value.number is not None for value in self.values)

    @property
    def logarithmic(self) -> bool:
        """Whether the values are spread evenly by factors rather than by steps."""
        numbers = sorted(v.number for v in self.values if v.number is not None)
        if not self.numeric or len(numbers) < 3 or numbers[0] <= 0:
            return False
        ratios = np.diff(np.log(numbers))
        steps = np.diff(numbers)
        return bool(np.ptp(ratios) / ratios.mean() <= np.ptp(steps) / steps.mean())

    @property
    def title(self) -> str:
        """Key and unit."""
        return f"{self.key} [{self.unit}]" if self.unit else self.key


def array_of(given: str | Array, changes: Sequence[str] = ()) -> Array:
    """The array of that name or path, its spec changed; raises SpecError, or UsageError."""
    if not isinstance(given, Array):
        return load_array(given, changes, usual=True)
    if changes:
        keys = ", ".join(
            f"{key!r}: {value!r}" for key, _, value in (c.partition("=") for c in changes)
        )
        raise UsageError(
            f"{', '.join(changes)}: the array {given.name!r} is an object without its spec file; "
            f"give its name or path instead, or make it so: accelarray.array(NAME, set={{{keys}}})"
        )
    return given


def parse_axes(texts: Iterable[str]) -> tuple[Axis, ...]:
    """Several ``--vary``; raises UsageError, also where a key is varied twice."""
    axes = tuple(parse_vary(text) for text in texts)
    if len({axis.key for axis in axes}) < len(axes):
        raise UsageError("--vary: a key is varied twice")
    return axes


def first_array(axes: Iterable[Axis]) -> str | None:
    """The first array that is varied, on which what holds for all is checked; SpecError."""
    name = next((axis.values[0].text for axis in axes if axis.key == "array"), None)
    if name is not None:
        try:
            load_array(name)
        except SpecError as error:
            raise SpecError(f"--vary array={name}: {error}") from None
    return name


def parse_vary(text: str) -> Axis:
    """``batch=64,128``, ``network.bandwidth=1 Gbit/s:1 Tbit/s:log:16``; raises UsageError.

    A bucket's values may be numbers of bytes: ``bucket=0,1e6,25 MiB``. Semicolons part values
    that have commas themselves: ``parallel=dp=4,tp=2;dp=8``. Commas inside brackets part none:
    ``topology.shape=[4,4],[2,8]``.
    """
    key, equals, values = text.partition("=")
    key = option_name(key.strip())
    if not equals or not key or not values.strip():
        raise UsageError(f"--vary {text!r}: expected KEY=V1,V2 or KEY=FIRST:LAST:log:COUNT")
    parts = values.split(":")
    unit = in_bytes if key == "bucket" else str
    if len(parts) == 4 and parts[2].strip() in ("log", "lin"):
        first, last, scale, count = (part.strip() for part in parts)
        return _range(key, text, unit(first), unit(last), scale, count)
    parted = r";" if key in OF_COMMAS and ";" in values else r",(?![^\[]*\])"
    found = re.split(parted, values.rstrip("; "))
    items = list(dict.fromkeys(unit(item.strip()) for item in found))
    if not all(items):
        raise UsageError(f"--vary {text!r}: an empty value")
    return _axis(key, items)


def _axis(key: str, items: list[str]) -> Axis:
    split = [split_quantity(item) for item in items]
    units = {quantity[0] for quantity in split if quantity}
    if all(split) and len(units) == 1:
        numbers = [quantity[1] for quantity in split if quantity]
        return Axis(key, units.pop(), _values(items, items, numbers))
    if len(units) > 1 or (units and not all(split)):
        raise UsageError(f"--vary {key}={','.join(items)}: write all values in one unit")
    plain = [_as_number(item) for item in items]
    return Axis(key, "", _values(items, items, plain))


def _values(
    texts: Sequence[str], labels: Sequence[str], numbers: Sequence[float | None]
) -> tuple[Value, ...]:
    return tuple(itertools.starmap(Value, zip(texts, labels, numbers, strict=True)))


def _as_number(text: str) -> float | None:
    """A number; counts stay whole, so that tables show 4 micro-batches and not 4.0."""
    try:
        number = float(text)
    except ValueError:
        return None
    if not np.isfinite(number):  # nor does Python read whole numbers of more than 4,300 digits
        return None
    return int(text) if text.strip().lstrip("+-").isdecimal() else number


def _range(key: str, text: str, first: str, last: str, scale: str, count: str) -> Axis:
    if not (count.isascii() and count.isdigit() and 2 <= int(count[:9]) <= MOST_POINTS):
        raise UsageError(f"--vary {text!r}: the count must be a number within 2...{MOST_POINTS}")
    ends = [split_quantity(end) for end in (first, last)]
    unit = ends[0][0] if ends[0] else ""
    numbers = [
        end[1] if end else _as_number(plain) for end, plain in zip(ends, (first, last), strict=True)
    ]
    if (ends[0] is None) != (ends[1] is None) or (ends[0] and ends[1] and ends[1][0] != unit):
        raise UsageError(f"--vary {text!r}: {first!r} and {last!r} have different units")
    low, high = numbers
    if low is None or high is None or (scale == "log" and min(low, high) <= 0):
        raise UsageError(f"--vary {text!r}: a range goes between two (positive) numbers")
    spread = np.geomspace if scale == "log" else np.linspace
    points = [float(value) for value in spread(low, high, int(count))]
    if not unit and all(isinstance(end, int) for end in numbers):  # as counts and batches
        whole = list(dict.fromkeys(round(point) for point in points))
        texts = list(map(str, whole))
        return Axis(key, "", _values(texts, texts, whole))
    texts = [_written(i, points, unit) for i in range(len(points))]
    texts[0], texts[-1] = first, last
    if not unit:
        return Axis(key, "", _values(texts, texts, list(map(float, texts))))
    found = [quantity[1] for text in texts if (quantity := split_quantity(text))]
    labels = [format_quantity(point, unit) for point in found]
    return Axis(key, unit, _values(texts, labels, found))


def _written(i: int, points: Sequence[float], unit: str) -> str:
    """A point of a range as people would write it: what is simulated is what tables say.

    In as many digits, four or more, as move it by a hundredth of the way to its neighbours.
    """
    ways = [abs(points[i] - points[j]) for j in (i - 1, i + 1) if 0 <= j < len(points)]
    for digits in (4, 6, 9, 12):
        text = format_quantity(points[i], unit, digits) if unit else f"{points[i]:.{digits}g}"
        quantity = split_quantity(text) if unit else ("", float(text))
        if quantity and abs(quantity[1] - points[i]) <= min(ways) / 100:
            return text
    return f"{points[i]!r} {unit}".strip()
