"""How long a step takes where chips and links differ by chance: a distribution, not one time.

Each repeat draws how many times as long every chip takes, and every chip's links. Chips that work
together wait for the slowest of them: all of a stage, or of a kind where there are no stages. So
each repeat is one simulated step, in which a stage computes as slowly as its slowest chip, and all
links are as slow as the slowest. With fewer or more devices each stage has as many times fewer or
more chips, and the step is the same otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.explain.whatif import sped_up
from experiments.output import UsageError, progress_bar
from experiments.studies.case import Case, Planned, simulated
from experiments.studies.running.runner import Runner
from experiments.terms import duration
from hardware import Array, Device
from planners import Plan
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.stragglers import Draw, draw_of

VARIATION, LINKS = "variation", "links:"
FORMS = (
    "variation (of the array's spec), normal:SIGMA, lognormal:SIGMA, exponential:MEAN or "
    "random:PROBABILITY:TIMES, of chips; with links: before it, of links"
)
SIZES = (1 / 16, 1.0, 16.0)
"""Of how many times as many devices the distribution is told."""
MOST_CHIPS = 1 << 17
QUANTILES = {"median_s": 0.5, "p90_s": 0.9, "p99_s": 0.99}


Chips = Mapping[tuple[int, Device], int]
"""How many there are of a kind in a place (of a pipeline, else number 0)."""


def check_forms(flag: str, given: str | Iterable[str]) -> tuple[str, ...]:
    """What varies, each in one of FORMS; raises UsageError."""
    texts = (given,) if isinstance(given, str) else tuple(given)
    for text in texts:
        try:
            known = text == VARIATION or draw_of(text.removeprefix(LINKS)) is not None
        except TrainingError as error:
            raise UsageError(f"{flag} {str(error).removeprefix('slowdown ')}") from None
        if not known:
            raise UsageError(f"{flag} {text}: expected {FORMS}")
    return texts


def spread_fields(
    case: Case, plan: Plan, texts: Sequence[str], repeats: int, seed: int, runner: Runner
) -> dict[str, Any]:
    """Median, 90th and 99th percentile of a step's time, with fewer and more devices too.

    The numbers depend on the seed alone. Raises UsageError as ``check_varies`` does.
    """
    check_varies(case, texts)
    devices = sum(count for _, count in case.array.group.chips)
    even = replace(case, array=case.array.with_devices(lambda device: _taking(device, 1.0)))
    chips = _chips_of(even, plan)
    least = min(chips.values())
    sizes = [s for s in SIZES if s == 1 or (least * s >= 1 and devices * s <= MOST_CHIPS)]
    cases = {
        (size, number): _slowed(even, plan, chips, draws)
        for number in range(repeats)
        for size, draws in _draws(chips, texts, sizes, (seed, number))
    }
    seconds: dict[float, list[float]] = {size: [] for size in sizes}
    with progress_bar(len(cases)) as progress:
        for (size, _), _, outputs in runner.run(cases, work=_seconds):
            seconds[size].append(outputs["iteration_s"])
            progress("")
    own = np.sort(seconds[1.0])
    replaced = _chips_drawn(texts) and VARIATION not in texts
    instead = [device.roofline.variation for _, device in chips] if replaced else []
    return {
        "what": list(texts),
        "devices": devices,
        "instead_of_variation": max(instead, default=0.0),
        "repeats": repeats,
        "seed": seed,
        **_quantiles(own),
        "mean_s": float(own.mean()),
        "most_s": float(own[-1]),
        "by_devices": [
            {"devices": round(devices * size), **_quantiles(np.sort(seconds[size]))}
            for size in sizes
        ],
    }


def _seconds(case: Case) -> dict[str, Any]:
    assert isinstance(case.planner, Planned)  # noqa: S101
    return {"iteration_s": simulated(case, case.planner.plan).iteration_s}


def spread_rows(of: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of a table: the distribution of a step's time, and how it grows with devices."""
    yield "spread", f"{_in_words(of)}, of {of['repeats']:,} steps"
    if instead := of.get("instead_of_variation"):
        yield "spread of chips", f"as given, without their {VARIATION} ({instead:.1%})"
    for row in of["by_devices"]:
        if row["devices"] != of["devices"]:
            yield f"spread, {row['devices']:,} devices", _in_words(row)


def _in_words(of: Mapping[str, float]) -> str:
    return ", ".join(f"{name.removesuffix('_s')} {duration(of[name])}" for name in QUANTILES)


def _quantiles(seconds: np.ndarray[Any, Any]) -> dict[str, float]:
    return {name: float(np.quantile(seconds, q)) for name, q in QUANTILES.items()}


def _chips_of(case: Case, plan: Plan) -> Chips:
    """The chips that wait for each other: those of each kind in each place."""
    array = case.execution.planned(case.array)
    parts: list[tuple[int, Array]] = [(0, array)]
    if plan.pipeline is not None:
        places = enumerate(plan.pipeline.places)
        parts = [(k, array.part(*one)) for k, place in places for one in place.ranges]
    found = Counter[tuple[int, Device]]()
    for place, part in parts:
        for device, count in part.group.chips:
            found[place, device] += count
    return found


def check_varies(case: Case, texts: Sequence[str]) -> None:
    """Raise UsageError where chips of a case do not vary."""
    if case.execution.model == "published":
        raise UsageError("--spread: chips of the published model are alike; --execution deployed")
    for device, _ in case.array.group.kinds:
        if device.units is not None:
            raise UsageError(f"--spread: device {device.name!r} has [units], whose times are fixed")
        if VARIATION in texts and not device.roofline.variation:
            raise UsageError(
                f"--spread variation: device {device.name!r} of array {case.array.name!r} has "
                "none; say --spread normal:0.02, or --stack NAME that has (list stacks)"
            )


def _chips_drawn(texts: Sequence[str]) -> bool:
    return not all(text.startswith(LINKS) for text in texts)


def _draws(
    chips: Chips, texts: Sequence[str], sizes: Sequence[float], seed: tuple[int, int]
) -> Iterator[tuple[float, tuple[list[float], float]]]:
    """By size: how many times as long the slowest of each entry takes, and the slowest link.

    Those of fewer chips are among those of more. Where only links are drawn, the chips of a kind
    take as long as the slowest is expected to (``Roofline.waiting``), as in a step without draws.
    """
    most = [round(count * sizes[-1]) for count in chips.values()]
    times = [np.ones(many) for many in most]
    links = [np.ones(many) for many in most]
    for which, text in enumerate(texts):
        for k, (_, device) in enumerate(chips):
            form = f"normal:{device.roofline.variation!r}" if text == VARIATION else text
            draw: Draw | None = draw_of(form.removeprefix(LINKS))
            assert draw is not None  # noqa: S101
            of = links if text.startswith(LINKS) else times
            of[k] *= draw(np.random.default_rng((*seed, which, k)), most[k])
    alike = Counter[Device]()
    for (_, device), count in chips.items():
        alike[device] += count
    for size in sizes:
        many = [round(count * size) for count in chips.values()]
        slowest = [float(of[:n].max()) for of, n in zip(times, many, strict=True)]
        if not _chips_drawn(texts):
            waiting = (device.roofline.waiting(round(size * alike[device])) for _, device in chips)
            slowest = [one.slowest for one in waiting]
        yield size, (slowest, max(float(of[:n].max()) for of, n in zip(links, many, strict=True)))


def _slowed(case: Case, plan: Plan, chips: Chips, draws: tuple[list[float], float]) -> Case:
    """The step of a plan in which chips, and all links, are so slow."""
    slowest, links = draws
    execution = case.execution
    if plan.pipeline is not None:
        paces = [0.0] * len(plan.pipeline.places)
        for (place, _), times in zip(chips, slowest, strict=True):
            paces[place] = max(paces[place], times)
        execution = replace(execution, paces=tuple(paces))
    else:
        of = {device: times for (_, device), times in zip(chips, slowest, strict=True)}
        case = replace(case, array=case.array.with_devices(lambda d: _taking(d, of[d])))
    array = sped_up(case.array, "links", 1 / links)
    planner = Planned(case.planner_name, plan)
    return replace(case, array=array, execution=execution, planner=planner)


def _taking(device: Device, times: float) -> Device:
    """The device, so many times as slow as the mean of its kind."""
    return replace(device, roofline=replace(device.roofline, slowest=times))
