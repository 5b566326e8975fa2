"""A design for each place: the global choice against brute force, arrays of several, specs."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.cli import main
from experiments.design.choice import MOST_TOGETHER, Sized, balanced, choose, fastest
from experiments.design.judge import Limits
from experiments.design.runs import Choice, Ran, Runs, check_wires, places_of, with_units
from experiments.design.space import Design, load_space
from experiments.design.study import Asked, study
from experiments.output import UsageError
from experiments.studies.case import Case, plan_of
from hardware import Array, load_array
from planners import Place, Staging
from simulator import DEPLOYED, Execution, simulate
from simulator.lowering.units.cores import sites
from workloads import load_network


def design(number: int) -> Design:
    return Design(1, 128, 128, 1, number, 2.0**23)


@st.composite
def sized(draw: st.DrawFn) -> list[list[Sized]]:
    """Designs of up to three places."""
    number = 0
    ranks = []
    for _ in range(draw(st.integers(1, 3))):
        rank = []
        for _ in range(draw(st.integers(1, 5))):
            number += 1
            rank.append(Sized(draw(st.integers(1, 9)), draw(st.integers(1, 9)), design(number)))
        ranks.append(rank)
    return ranks


@given(sized(), st.data())
def test_balanced_places_are_the_best_of_all_combinations(
    ranks: list[list[Sized]], data: st.DataObject
) -> None:
    """Least slowness of the slowest times cost of all, of every combination there is."""
    counts = [data.draw(st.integers(1, 3)) for _ in ranks]
    worth = {
        tuple(one.design for one in some): max(one.slowness for one in some)
        * sum(many * one.cost for many, one in zip(counts, some, strict=True))
        for some in product(*ranks)
    }
    found = balanced(ranks, counts, 3)
    assert 1 <= len(found) <= 3
    assert worth[found[0]] == min(worth.values())
    quick = fastest(ranks)
    slowness = {one.design: one.slowness for some in ranks for one in some}
    cost = {one.design: one.cost for some in ranks for one in some}
    limit = min(max(one.slowness for one in some) for some in product(*ranks))
    assert max(slowness[d] for d in quick) == limit
    for place, some in zip(quick, ranks, strict=True):
        assert cost[place] == min(cost[s.design] for s in some if s.slowness <= limit)


def test_the_docstrings_example() -> None:
    first = [Sized(1, 9, design(1)), Sized(3, 2, design(2))]
    second = [Sized(2, 3, design(3)), Sized(3, 1, design(4))]
    assert balanced([first, second], [1, 1], 2) == [
        (design(2), design(4)),
        (design(1), design(3)),
    ]
    assert fastest([first, second]) == (design(1), design(3))


@dataclass
class Worths:
    """Runs that are made up: a worth for each choice, and how many were asked for."""

    of: Callable[[Choice], float]
    asked: int = 0

    def ran(self, designs: Choice) -> Ran:
        self.asked += 1
        return Ran(designs, (1.0,), self.of(designs), 1.0, 1.0, 1.0)


def chosen(worth: Callable[[Choice], float], ranks: Sequence[Sequence[Design]]) -> list[Ran]:
    return choose(Worths(worth), [design(0)], ranks)  # type: ignore[arg-type]


@given(st.integers(1, 3), st.integers(1, 4), st.randoms(use_true_random=False))
def test_of_few_combinations_the_best_of_all_wins(count: int, top: int, random: object) -> None:
    ranks = [[design(10 * r + i) for i in range(top)] for r in range(count)]
    worth = {d: random.random() for d in product(*ranks)}  # type: ignore[attr-defined]
    worth[design(0),] = 0.5
    found = chosen(lambda d: worth[d], ranks)
    different = [w for d, w in worth.items() if len(d) == 1 or len(set(d)) > 1]
    assert found[0].value == max(different)
    assert [r.value for r in found] == sorted((r.value for r in found), reverse=True)


def test_of_many_combinations_no_single_change_is_better() -> None:
    ranks = [[design(10 * r + i) for i in range(4)] for r in range(4)]
    assert MOST_TOGETHER < 4**4
    worth = {d: hash((7, *(one.vector_width for one in d))) % 1000 for d in product(*ranks)}
    runs = Worths(lambda d: worth.get(d, 0))
    best, *_ = choose(runs, [design(0)], ranks)  # type: ignore[arg-type]
    for rank, some in enumerate(ranks):
        for other in some:
            changed = (*best.designs[:rank], other, *best.designs[rank + 1 :])
            assert worth[changed] <= best.value
    assert runs.asked < 4**4


def pipelined(name: str, count: int, stages: int, mode: str = "training") -> tuple[Case, Array]:
    execution = Execution("deployed", staging=Staging(stages, 4), mode=mode)
    array = load_array("wham-1", [f"devices.0.count={count}"])
    return Case(load_network(name), "data_parallel", array, 32, execution=execution), array


def limits(array: Array) -> Limits:
    device = array.group.kinds[0][0]
    assert device.units is not None
    free = Limits(inf, inf, 1, 525e9)
    return free._replace(area_mm2=free.area(device.units), power_w=free.power(device.units))


def test_every_pair_of_designs_is_no_better_than_what_is_chosen() -> None:
    """All designs of a small space in both places, on the engine."""
    case, array = pipelined("vgg11", 2, 2)
    space = load_space("small")
    few = {key: values[:: max(1, len(values) // 2)][-2:] for key, values in space.values.items()}
    few |= {"matrix_width": (128,), "matrix_depth": (128,), "vector_width": (128,)}
    small = type(space)("few", space.clock_hz, space.dataflow, few)
    bound = limits(array)
    asked = Asked((case,), small, bound, "throughput-per-watt", "exhaustive", top=3)
    found = study(asked)
    plan = plan_of(case)
    some = sites(case.network, plan, array, case.execution)
    device = array.group.kinds[0][0]
    assert device.units is not None
    runs = Runs([case], [plan], [some], small, bound, "throughput-per-watt", device.units)
    allowed = [d for d in small if bound.allow(small.units(d))]
    assert len(allowed) >= 4
    first, second = allowed[0], allowed[-1]
    pair = runs.ran((first, second))
    base = max(site.step.estimate_s(device.units) for site in some)
    slowest = max(
        site.step.estimate_s(small.units(first if site.stage == 0 else second)) for site in some
    )
    watts = [bound.power(small.units(d)) for d in (first, second)]
    assert pair.power_w == pytest.approx(sum(watts) / 2)
    assert pair.estimated == pytest.approx(base / slowest * bound.power_w / pair.power_w)
    best = max(runs.ran(pair).value for pair in product(allowed, repeat=2))
    assert found.winner.value >= best * (1 - 0.01)


def test_places_have_their_own_units_and_the_rest_stays() -> None:
    _, array = pipelined("vgg11", 5, 2)
    space = load_space("small")
    one, other, *_ = (space.units(d) for d in space)
    places = (Place(2, 2), Place(0, 1))
    found = with_units(array, [one, other], places)
    own = array.group.kinds[0][0].units
    assert [(d.units, many) for d, many in found.group.kinds] == [
        (other, 1), (own, 1), (one, 2), (own, 1)
    ]  # fmt: skip
    same = with_units(array, [one, one], (Place(0, 2), Place(2, 3)))
    assert [(d.units, many) for d, many in same.group.kinds] == [(one, 5)]
    assert same == with_units(array, [one])


def test_places_that_share_a_board_or_are_unlike_have_one_design() -> None:
    case, array = pipelined("vgg11", 4, 2)
    plan = plan_of(case)
    assert places_of([plan], array) == (Place(0, 2), Place(2, 2))
    other = plan_of(pipelined("vgg11", 4, 4)[0])
    assert places_of([plan, other], array) == ()
    plain = plan_of(Case(case.network, "data_parallel", array, 32, execution=DEPLOYED))
    assert places_of([plain], array) == ()
    boards = load_array("tpu-v2-8", ["devices.0.device=tpu-v2-units"])
    assert places_of([plan], boards) == ()


def test_the_winner_of_each_place_is_an_array_of_its_devices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command takes it; under the same plan the step is the search's."""
    path = str(tmp_path / "winner.toml")
    words = ["--batch", "32", "--stages", "2", "--micro-batches", "4", "--mode", "inference"]
    first = ["--array", "wham-1", "--set", "devices.0.count=2", "--space", "small", *words]
    assert main(["design", "vgg11", *first, "--device", path, "--format", "json"]) == 0
    winner = json.loads(capsys.readouterr().out)["winner"]
    assert len(winner["designs"]) == 2
    array = load_array(path)
    assert [many for _, many in array.group.kinds] == [1, 1]
    found = [d.units for d, _ in array.group.kinds]
    for units, of in zip(found, winner["designs"], strict=True):
        assert units is not None
        assert (units.matrix[0].count, units.vector[0].width, units.buffer_bytes) == (
            of["matrix_count"], of["vector_width"], of["buffer_bytes"]
        )  # fmt: skip
    case, _ = pipelined("vgg11", 2, 2, "inference")
    step = simulate(case.network, plan_of(case), array, case.execution)
    assert step.iteration_s == winner["networks"]["vgg11"]["iteration_s"]
    assert main(["simulate", "vgg11", "--planner", "owt", "--array", path, *words]) == 0


def test_a_device_of_several_matrix_units_is_replaced_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The winner has one kind of matrix unit, whatever the base had."""
    base = tmp_path / "two.toml"
    base.write_text(
        'kind = "device"\nextends = "wham-tpu-v2"\n'
        "[[units.matrix]]\nwidth = 128\ndepth = 128\n"
        "[[units.matrix]]\nwidth = 32\ndepth = 32\n"
    )
    path = str(tmp_path / "winner.toml")
    changed = ["--set", f"devices.0.device={base}"]
    words = ["design", "lenet", "--space", "small", *changed, "--device", path]
    assert main([*words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    units = load_array("wham-1", [f"devices.0.device={path}"]).group.kinds[0][0].units
    assert units is not None
    assert len(units.matrix) == 1
    assert found["base"]["designs"] == []


@pytest.mark.parametrize("joins", ["boards", "chips"])
@pytest.mark.parametrize("kind", ["ring", "switch"])
def test_designs_of_places_keep_the_wires_or_are_refused(kind: str, joins: str) -> None:
    """Chips of two kinds are two rings, so that only the wires would make a step faster."""
    changes = [f"topology.kind={kind}", f"topology.joins={joins}"]
    links = [f"devices.0.links.{key}" for key in ("per_chip=2", "bandwidth=50 GB/s")]
    array = load_array("wham-1", ["devices.0.count=16", *changes, *links])
    if joins == "boards":
        check_wires(array)
        return
    with pytest.raises(UsageError, match="other wires than one for all"):
        check_wires(array)
