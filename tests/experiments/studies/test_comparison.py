"""The published comparison, measured on the event engine."""

from dataclasses import replace

import pytest

from experiments.studies.case import Case
from experiments.studies.comparison import Options, compare, comparisons
from experiments.studies.published_values import averages
from experiments.studies.running.outputs import run_case, slow_share
from experiments.studies.speedups import Comparison, geometric_mean
from hardware import Array, Group, load_array
from planners import PLANNERS, load_planner
from simulator import DEPLOYED, PUBLISHED, simulate
from workloads import ZOO, Network, NetworkError, load_network

NETWORKS = [load_network(name) for name in ZOO]


@pytest.fixture(scope="module")
def mixed() -> Comparison:
    return compare(load_array("accpar-mixed"), NETWORKS, list(PLANNERS))


@pytest.fixture(scope="module")
def homogeneous() -> Comparison:
    return compare(load_array("accpar-homogeneous"), NETWORKS, list(PLANNERS))


def test_averages_on_the_mixed_array(mixed: Comparison) -> None:
    """Against the paper's abstract: 2.98, 3.78 and 6.30."""
    assert mixed.geomean["owt"] == pytest.approx(2.98, rel=0.02)
    assert mixed.geomean["hypar"] == pytest.approx(3.78, rel=0.03)
    assert mixed.geomean["accpar"] >= 6.30


def test_averages_on_the_homogeneous_array(homogeneous: Comparison) -> None:
    """Against an independent closed form of the same model: 2.94, 3.47 and 3.84."""
    assert homogeneous.geomean["owt"] == pytest.approx(2.94, rel=0.02)
    assert homogeneous.geomean["hypar"] == pytest.approx(3.47, rel=0.02)
    assert homogeneous.geomean["accpar"] == pytest.approx(3.84, rel=0.02)


# An independent closed form of the same model (no event engine), mixed array: OWT, HyPar.
INDEPENDENT = {
    "lenet": (1.17, 2.44),
    "alexnet": (6.52, 7.84),
    "vgg11": (8.27, 9.22),
    "vgg13": (8.18, 9.10),
    "vgg16": (6.41, 7.05),
    "vgg19": (5.34, 5.83),
    "resnet18": (None, 1.33),
    "resnet34": (None, 1.28),
    "resnet50": (1.06, 1.21),
}


@pytest.mark.parametrize("network", ZOO)
def test_each_network_on_the_mixed_array(mixed: Comparison, network: str) -> None:
    ours = {row.planner: row.speedup for row in mixed.rows if row.network == network}
    for planner, value in zip(("owt", "hypar"), INDEPENDENT[network], strict=True):
        if value is not None:
            assert ours[planner] == pytest.approx(value, rel=0.03)
    assert ours["data_parallel"] == 1.0


def test_the_slower_boards_hardly_work_and_are_better_left_out(mixed: Comparison) -> None:
    for row in mixed.of("accpar"):
        assert row.slow_share is not None
        assert 0 <= row.slow_share < 0.05
    alone = geometric_mean([row.fast_alone_speedup or 0 for row in mixed.of("accpar")])
    assert alone == pytest.approx(8.8, rel=0.02)
    for row in mixed.of("data_parallel"):
        assert row.slow_share == pytest.approx(0.5)
    assert {row.fast_alone_speedup for row in mixed.of("hypar")} == {None}


def test_unfolded_every_core_of_every_board_is_simulated() -> None:
    network, array = load_network("vgg11"), load_array("accpar-mixed")
    plan = load_planner("data_parallel")(network, array, 512)
    timeline = simulate(network, plan, array, folded=False)
    columns = timeline.columns
    busy = {timeline.resources[i].kind: 0 for i in range(2)}
    for i in set(columns.resource):
        busy[timeline.resources[i].kind] = busy.get(timeline.resources[i].kind, 0) + 1
    assert busy == {"core": 2048, "link": 255}
    assert sum(r.kind == "hbm" for r in timeline.resources) == 1024
    assert len(timeline) == 11 * 3 * 2048 + 11 * 255


def test_published_values_only_beside_the_papers_own_case(mixed: Comparison) -> None:
    assert {p: v.speedup for p, v in mixed.published.items()} == {
        "owt": 2.98,
        "hypar": 3.78,
        "accpar": 6.30,
    }
    assert {v.certainty for v in mixed.published.values()} == {"printed"}
    assert averages(load_array("accpar-mixed", ["devices.0.count=64"])) == {}
    named_alike = Array("accpar-mixed", "", Group(load_array("accpar-homogeneous").group.kinds))
    assert averages(named_alike) == {}
    small = load_array("accpar-homogeneous")
    assert averages(small)["hypar"].certainty == "recalled"
    assert compare(small, NETWORKS[:1], ["owt"]).published == {}


def test_an_interrupt_keeps_finished_networks() -> None:
    def interrupt(label: str) -> None:
        if label == "alexnet hypar":
            raise KeyboardInterrupt

    array = load_array("accpar-mixed", ["devices.0.count=2", "devices.1.count=2"])
    result = compare(array, NETWORKS[:3], list(PLANNERS), 512, interrupt)
    assert result.networks == ["lenet"]
    assert len(result.rows) == 4


def test_kinds_of_one_name_are_told_apart() -> None:
    """Same board, slower link in one half: the share of the slower, the faster one alone."""
    fast = load_array("accpar-homogeneous").group.kinds[0][0]
    slow = replace(fast, network_bytes_per_s=1e9)
    array = Array("twins", "", Group(((fast, 4), (slow, 4))))
    dp, accpar = compare(array, NETWORKS[1:2], ["data_parallel", "accpar"]).rows
    assert dp.slow_share == pytest.approx(0.5)
    assert accpar.slow_share is not None
    assert accpar.slow_share < 0.2
    alone = Array("fast", "", Group(((fast, 4),)))
    step = simulate(NETWORKS[1], load_planner("accpar")(NETWORKS[1], alone, 512), alone)
    assert accpar.fast_alone_speedup == dp.iteration_s / step.iteration_s


def test_networks_of_one_name_are_refused() -> None:
    with pytest.raises(NetworkError, match="several networks are called lenet"):
        compare(load_array("accpar-mixed"), [NETWORKS[0], NETWORKS[0]], ["owt"])


def test_another_network_of_a_zoo_name_is_not_the_papers(mixed: Comparison) -> None:
    assert mixed.complete
    other = [replace(NETWORKS[1], name="lenet"), *NETWORKS[1:]]
    array = load_array("accpar-homogeneous", ["devices.0.count=1"])
    assert compare(array, other, ["owt"]).published == {}


def test_slow_share_counts_flops() -> None:
    array = load_array("accpar-mixed", ["devices.0.count=1", "devices.1.count=3"])
    network: Network = load_network("alexnet")
    timeline = simulate(network, load_planner("data_parallel")(network, array, 512), array)
    assert slow_share(timeline, array) == pytest.approx(0.25, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "batch", "beside"),
    [
        ({}, 512, True),
        ({}, 256, False),
        ({"communication": "plotted"}, 512, False),
        ({"objective": "traffic"}, 512, False),
        ({"execution": DEPLOYED}, 512, False),
        ({"folded": False, "metrics": ("traffic",)}, 512, True),
    ],
)
def test_published_values_only_beside_the_papers_own_conditions(
    options: Options, batch: int, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = run_case(Case(NETWORKS[0], "owt", load_array("accpar-homogeneous"), 8))
    monkeypatch.setattr("experiments.studies.running.runner.run_case", lambda case: outputs)
    result = compare(load_array("accpar-mixed"), NETWORKS, ["owt"], batch, **options)
    assert bool(result.published) is beside
    assert result.execution == str(options.get("execution", PUBLISHED))
    assert result.communication == options.get("communication", "printed")


def test_several_arrays_at_once_are_each_by_itself() -> None:
    arrays = [load_array("accpar-mixed", [f"devices.{i}.count=2" for i in (0, 1)])]
    arrays.append(load_array("accpar-homogeneous", ["devices.0.count=4"]))
    together = comparisons(arrays, NETWORKS[:2], ["owt", "accpar"], 64)
    apart = [compare(array, NETWORKS[:2], ["owt", "accpar"], 64) for array in arrays]
    assert together == apart
    assert [result.cores for result in together] == [array.group.cores for array in arrays]


def test_an_interrupt_between_arrays_keeps_the_finished_one() -> None:
    def interrupt(label: str) -> None:
        heard.append(label)
        if len(heard) == 3:
            raise KeyboardInterrupt

    heard: list[str] = []
    small = [load_array("accpar-homogeneous", [f"devices.0.count={n}"]) for n in (2, 4)]
    first, second = comparisons(small, NETWORKS[:1], ["owt", "hypar"], 64, interrupt)
    assert (first.complete, second.complete) == (True, False)
    assert (len(first.rows), len(second.rows)) == (2, 0)
