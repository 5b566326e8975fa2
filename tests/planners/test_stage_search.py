"""The dynamic program over layers and devices, beside all stages tried one by one."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise, product

import numpy as np
import pytest

from planners.axes.stage_search import (
    BEHIND,
    UNEVEN,
    Chosen,
    Option,
    Stages,
    StageSearch,
    straddles,
)
from planners.sizing import Floats

LAYERS = 4


def option(kind: int, tp: int, replicas: int, rng: np.random.Generator, speed: float) -> Option:
    """What a stage takes is a sum over layers; wider ones lose a little."""
    each = speed * rng.uniform(0.8, 1.2, LAYERS) / tp**0.9
    held, kept = 0.1 * np.ones(LAYERS) / tp, 0.06 * np.ones(LAYERS) / tp

    def spans(one: Floats) -> Floats:
        ends = np.concatenate([[0.0], np.cumsum(one)])
        found: Floats = ends[None, :] - ends[:, None]
        return found

    seconds = spans(each)
    seconds[np.tri(LAYERS + 1, dtype=bool)] = np.inf
    end_s = 0.3 * spans(np.ones(LAYERS)) * (replicas > 1)
    send_s = rng.uniform(0.01, 0.1, 2)
    tied_s = rng.uniform(0.1, 0.5, 2)
    return Option(
        kind, tp, replicas, seconds, end_s, spans(held), spans(kept), send_s, 0.005, tied_s
    )


def searched(seed: int, devices: tuple[int, int], *, tied: bool) -> StageSearch:
    rng = np.random.default_rng(seed)
    options = [
        option(kind, tp, many, rng, speed)
        for kind, speed in ((0, 1.0), (1, rng.uniform(1.0, 3.0)))
        for tp in (1, 2)
        for many in (1, 2, 4)
        if tp * many <= devices[kind]
    ]
    return StageSearch(devices, (2, 2), options, 8, tied)


def slow_seconds(search: StageSearch, stages: Stages) -> float:
    """The formula of the module, written anew from the front."""
    options = [search.options[one.option] for one in stages]
    took = [o.seconds[one.first, one.end] for o, one in zip(options, stages, strict=True)]
    taken, sends = [0, 0], []
    for k, one in enumerate(options):
        if straddles(taken[one.kind], one.tp, one.replicas, 2):
            return np.inf
        taken[one.kind] += one.tp * one.replicas
        if k + 1 < len(options):
            after = options[k + 1].kind
            near = after == one.kind and taken[one.kind] % 2
            sends.append(one.near_s if near else one.send_s[after])
    waits = [0.0]
    for k, one in enumerate(options):
        window = (sum(o.replicas for o in options[k:]) - 1) // one.replicas + 1
        turns = search.micro_batches // one.replicas
        first, end = stages[k][1:]
        if one.held[first, end] + min(window, turns) * one.kept[first, end] > 1:
            return np.inf
        waits.append((search.micro_batches - one.replicas) * took[k] / one.replicas)
        if window < turns:
            around = sum(took[k:]) + 2 * sum(sends[k:])
            waits.append((search.micro_batches - one.replicas) * around / window / one.replicas)
        if k + 1 < len(options):
            pairs = min(one.replicas, options[k + 1].replicas)
            waits.append((search.micro_batches // pairs - 1) * sends[k])
    end_s = 0.0
    for k in reversed(range(len(options))):
        end_s = max(options[k].end_s[stages[k].first, stages[k].end], end_s - BEHIND * took[k])
    if search.tied and len(options) > 1:
        most_, least = sorted((options[0].replicas, options[-1].replicas), reverse=True)
        if most_ % least:
            return np.inf
        head, tail = options[0], options[-1]
        end_s += max(head.tied_s[tail.kind], tail.tied_s[head.kind]) * (most_ // least)
    changes = sum(a.replicas != b.replicas for a, b in pairwise(options))
    return float(sum(took) + 2 * sum(sends) + max(waits) * (1 + UNEVEN * changes) + end_s)


def every(search: StageSearch) -> Iterator[Stages]:
    for number in range(1, LAYERS + 1):
        for cuts in combinations(range(1, LAYERS), number - 1):
            spans = list(zip((0, *cuts), (*cuts, LAYERS), strict=True))
            for chosen in product(range(len(search.options)), repeat=number):
                used = [0, 0]
                for k in chosen:
                    one = search.options[k]
                    used[one.kind] += one.tp * one.replicas
                if all(n <= most for n, most in zip(used, search.devices, strict=True)):
                    yield tuple(Chosen(k, *span) for k, span in zip(chosen, spans, strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_the_best_stages_are_found(seed: int) -> None:
    """Between two bounds the program may keep the second best; it says what they take."""
    search = searched(seed, (4, 2), tied=seed % 2 == 1)
    best_s, stages = search.best(np.inf)[0]
    assert slow_seconds(search, stages) == pytest.approx(best_s)
    least_s = min(slow_seconds(search, one) for one in every(search))
    assert search.least_s <= least_s <= best_s * (1 + 1e-9)
    assert best_s <= least_s * 1.03


def test_what_fits_nowhere_has_no_stages() -> None:
    search = searched(0, (4, 2), tied=False)
    full = [
        Option(o.kind, o.tp, o.replicas, o.seconds, o.end_s, o.held + 1, *rest)
        for o in search.options
        for rest in [(o.kept, o.send_s, o.near_s, o.tied_s)]
    ]
    assert not StageSearch(search.devices, search.nodes, full, 8).best(np.inf)


@pytest.mark.parametrize("seed", range(3))
def test_slow_sends_are_no_reason_to_stop(seed: int) -> None:
    """No stage alone fits, and whatever does waits much longer for sends than for layers."""
    search = searched(seed, (4, 2), tied=False)
    slow = [
        replace(one, held=6 * one.held, send_s=1000 * one.send_s, near_s=1000 * one.near_s)
        for one in search.options
    ]
    search = replace(search, options=slow)
    least_s = min(slow_seconds(search, one) for one in every(search))
    assert least_s < np.inf
    best_s, _ = search.best(np.inf)[0]
    assert least_s <= best_s * (1 + 1e-9) <= least_s * 1.03


def test_nothing_above_what_it_is_worth_is_looked_for() -> None:
    search = searched(1, (4, 2), tied=False)
    assert not search.best(search.least_s)


@pytest.mark.parametrize(
    ("first", "tp", "replicas", "found"),
    [(0, 2, 2, False), (2, 1, 3, True), (2, 2, 1, False), (3, 2, 4, True), (2, 2, 4, False)],
)
def test_what_straddles_nodes_of_four(first: int, tp: int, replicas: int, found: bool) -> None:
    assert bool(straddles(first, tp, replicas, 4)) == found
