"""Pipelines over kinds of devices: none that can be tried is much faster than what is found."""

import math
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

import accelarray
from experiments.api.inputs import network_of
from hardware import Array, load_array
from planners import Axes, PlanError, Staging, planned_by_axes
from planners.cost.objective import TIME
from simulator import Execution, simulate, usual
from simulator.collectives.algorithms import CollectiveError
from simulator.engine.errors import OutOfMemoryError
from simulator.lowering.layer_times import layer_times
from simulator.search.bounds import work_bound_s
from simulator.search.closed_form.pieces import pieces_of
from simulator.search.kinds.over_kinds import candidates, stages_over_kinds
from simulator.search.kinds.stage_costs import StageCosts
from workloads import Network, partition_graph

SPEC = """
kind = "array"
execution = "deployed"
precision = "fp16"
optimizer = "adam"
{devices}
[topology]
joins = "chips"
[[topology.levels]]
kind = "switch"
{outside}
"""
GPT = "gpt2:layers={}:seq=256:hidden=1024:heads=16:vocab=8192"


OUTSIDE = 'members = {}\n[[topology.levels]]\nkind = "switch"\nrails = 0'


def mixed(folder: Path, members: int = 0, **counts: int) -> str:
    """Devices of each kind, in nodes of so many (0: one node), over ports of 100 Gbit/s."""
    devices = "".join(
        f'[[devices]]\ndevice = "{name.replace("_", "-")}"\ncount = {count}\n'
        'network.bandwidth = "100 Gbit/s"\n'
        for name, count in counts.items()
    )
    path = folder / "mixed.toml"
    path.write_text(
        SPEC.format(devices=devices, outside=OUTSIDE.format(members) if members else "")
    )
    return str(path)


def asked(name: str, spec: str) -> tuple[Network, Array, Execution]:
    array = load_array(spec, usual=True)
    execution = usual(array)
    return network_of(name, (), array), execution.planned(array), execution


def seconds_of(
    network: Network, array: Array, batch: int, execution: Execution, *how: Any
) -> float:
    """What a pipeline takes: ``how`` is where its stages are, what they have, and samples."""
    hw, cuts, size, by_positions = how
    staging = Staging(parallel=Axes(sp=by_positions), stage_hw=hw, cuts=cuts, micro_batch=size)
    try:
        plan = planned_by_axes(network, array, batch, Axes(sp=by_positions), staging)
        return simulate(network, plan, array, execution).iteration_s
    except (PlanError, CollectiveError, OutOfMemoryError):
        return math.inf


def found_s(network: Network, array: Array, batch: int, execution: Execution) -> float:
    plan = stages_over_kinds(network, array, batch, TIME, execution)
    return simulate(network, plan, array, execution).iteration_s


def found_of_stages(network: Network, array: Array, execution: Execution, batch: int) -> float:
    """The fastest of the stages alone."""
    found = candidates(network, array, batch, execution)
    return min(
        seconds_of(
            network, array, batch, execution, c.stage_hw, c.cuts, c.micro_batch, c.by_positions
        )
        for c in found
    )


def every_stages(free: tuple[int, ...]) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """All sequences of (kind, tp, replicas) on no more devices than are free."""
    yield ()
    for kind, most in enumerate(free):
        for tp, many in product((1, 2, 4), range(1, most + 1)):
            if tp * many <= most:
                left = tuple(n - tp * many * (k == kind) for k, n in enumerate(free))
                for rest in every_stages(left):
                    yield (kind, tp, many), *rest


def tried_one_by_one(
    network: Network, array: Array, batch: int, execution: Execution, worth_s: float
) -> float:
    """The fastest of all stages, cuts, kinds, widths, replicas and micro-batches.

    What cannot be faster than ``worth_s`` is left out: by the roofline of its layers alone, of
    one micro-batch in the stages before one that takes all of its own.
    """
    graph, firsts = partition_graph(network), pieces_of(network)
    names = [graph[first].name for first in firsts]
    ends = [*firsts[1:], len(graph)]
    counts = array.group.leaves
    starts = [sum(counts[:k]) for k in range(len(counts))]
    best_s = worth_s
    for size in (n for n in range(1, batch + 1) if not batch % n):
        times = [layer_times(network, array, size, execution, first) for first in starts]
        pieces = [
            [sum(t.seconds for t in of[a:b]) for a, b in zip(firsts, ends, strict=True)]
            for of in times
        ]
        for stages in every_stages(counts):
            for cuts in combinations(range(1, len(firsts)), max(len(stages) - 1, 0)):
                spans = list(zip((0, *cuts), (*cuts, len(firsts)), strict=True))
                if not stages or len(stages) != len(spans):
                    continue
                if batch % (size * math.lcm(*(many for _, _, many in stages))):
                    continue
                each_s = [
                    sum(pieces[kind][first:end]) / tp
                    for (kind, tp, _), (first, end) in zip(stages, spans, strict=True)
                ]
                least_s = max(
                    sum(each_s[:k]) + batch / size / many * each_s[k]
                    for k, (_, _, many) in enumerate(stages)
                )
                if least_s >= best_s:
                    continue
                hw = ";".join(f"{array.group.kinds[k][0].name}:{t}x{n}" for k, t, n in stages)
                begins = tuple(names[first] for first, _ in spans[1:])
                for by_positions in (False, True)[: 1 + any(t > 1 for _, t, _ in stages)]:
                    how = hw, begins, size, by_positions
                    best_s = min(best_s, seconds_of(network, array, batch, execution, *how))
    return best_s


@pytest.mark.parametrize(
    ("layers", "batch", "counts"),
    [
        (2, 8, {"v100_16": 2, "t4": 1}),
        (3, 24, {"t4": 1, "a10": 1, "v100_16": 1}),
        pytest.param(6, 8, {"v100_16": 3, "t4": 3}, marks=pytest.mark.slow),
        pytest.param(6, 8, {"v100_16": 4, "t4": 2}, marks=pytest.mark.slow),
    ],
)
def test_no_stages_are_faster(
    layers: int, batch: int, counts: dict[str, int], tmp_path: Path
) -> None:
    network, array, execution = asked(GPT.format(layers), mixed(tmp_path, **counts))
    ours = found_s(network, array, batch, execution)
    best = tried_one_by_one(network, array, batch, execution, ours)
    assert work_bound_s(network, array, batch, execution) <= best
    assert ours <= 1.03 * best


def test_cores_of_boards_are_devices_of_their_own(tmp_path: Path) -> None:
    """A chip of two cores of each kind: as few devices as all stages can be tried on."""
    path = Path(mixed(tmp_path, tpu_v2=1, tpu_v3=1))
    spec = path.read_text().replace('precision = "fp16"', 'precision = "bf16"')
    path.write_text(spec.replace("count = 1\n", "count = 1\nchips = 1\n"))
    network, array, execution = asked(GPT.format(2), str(path))
    assert array.group.leaves == (2, 2)
    ours = found_s(network, array, 8, execution)
    best = tried_one_by_one(network, array, 8, execution, math.inf)
    assert work_bound_s(network, array, 8, execution) <= best < math.inf
    assert ours <= 1.03 * best


MODELS = {
    "gpt3-350m:layers=8": 32,
    "gpt3-1.3b:layers=8": 32,
    "opt-1.3b:layers=8": 32,
    "llama2-7b:layers=4": 32,
    "gpt2:layers=6:seq=512": 64,
    "opt-6.7b:layers=4": 32,
}
ARRAYS = (
    {"v100_16": 4, "t4": 4},
    {"v100_16": 8, "t4": 4},
    {"v100_32": 4, "v100_16": 8},
    {"a100_40": 4, "v100_16": 4},
    {"a100_80": 4, "h100_sxm": 4},
    {"a100_80": 8, "h100_sxm": 4},
    {"h100_sxm": 4, "l40s": 8},
    {"rtx_3090": 4, "rtx_2080_ti": 4},
    {"a10": 4, "l4": 8},
    {"a100_40": 4, "a10": 4, "t4": 4},
    {"h100_sxm": 4, "a100_80": 4, "v100_32": 4},
    {"rtx_4090": 4, "rtx_3090": 4, "titan_rtx": 4},
)


@pytest.mark.parametrize(
    ("name", "counts", "batch"),
    [
        (GPT.format(2), {"v100_16": 2, "a10": 2}, 8),
        *(
            pytest.param(name, counts, batch, marks=pytest.mark.slow)
            for counts in ARRAYS
            for name, batch in MODELS.items()
        ),
    ],
)
def test_neither_a_uniform_plan_nor_a_kind_alone_is_faster(
    name: str, counts: dict[str, int], batch: int, tmp_path: Path
) -> None:
    """As ``fit`` finds them; each kind by itself has all of the batch."""
    members, axes = min(counts.values()), "tp,pp,micro-batch"
    together = mixed(tmp_path, members, **counts)
    ours = found_s(*asked(name, together)[:2], batch, asked(name, together)[2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = accelarray.fit(name, together, batch, axes=axes, jobs=1)
        uniform = [row for row in fitted.fits if not row["stage_hw"]]
        assert ours <= min((row["iteration_s"] for row in uniform), default=math.inf)
        assert ours <= fitted.fits[0]["iteration_s"]
        for kind, count in counts.items():
            alone = mixed(tmp_path, members, **{kind: count})
            for row in accelarray.fit(name, alone, batch, axes=axes, jobs=1).fits[:1]:
                assert ours <= row["iteration_s"] * (1 + 1e-9)


@pytest.mark.slow
def test_no_shares_of_the_samples_are_faster(tmp_path: Path) -> None:
    """On fast links a share for each kind beats all stages."""
    name, spec = "resnet18", mixed(tmp_path, a100_80=2, h100_sxm=2)
    ours = accelarray.simulate(name, "search", spec, 256, stages="auto")
    shared = accelarray.simulate(name, "best_share", spec, 256)
    assert ours.iteration_s <= shared.iteration_s
    candidates_s = found_of_stages(*asked(name, spec), 256)
    assert shared.iteration_s < candidates_s


@pytest.mark.slow
def test_no_stages_of_all_kinds_that_were_tried_are_faster(tmp_path: Path) -> None:
    """Replicas of each kind that take one to three micro-batches in their turn."""
    batch, sizes = 384, (16, 32)
    network, array, execution = asked(GPT.format(2), mixed(tmp_path, a100_80=4, h100_sxm=4))
    tried = math.inf
    for pp, turns, size in product((1, 2), ((1, 1), (1, 2), (1, 3), (2, 3), (2, 1)), sizes):
        stage = f"a100-80:1x{4 // pp}@{turns[0]}+h100-sxm:1x{4 // pp}@{turns[1]}"
        hw = ";".join([stage] * pp)
        tried = min(tried, seconds_of(network, array, batch, execution, hw, (), size, False))
    found = [one for one in candidates(network, array, batch, execution) if "@" in one.stage_hw]
    best = min(
        seconds_of(network, array, batch, execution, one.stage_hw, (), one.micro_batch, False)
        for one in found
    )
    assert best <= tried * (1 + 1e-9)


def test_stages_of_two_kinds_are_priced_where_they_stand(tmp_path: Path) -> None:
    """The second stage is of four A100 and four A10; priced at the beginning it has no links."""
    spec = mixed(tmp_path, 2, h100_sxm=6, a100_80=6, a10=4)
    step = accelarray.simulate(GPT.format(2), "axes", spec, 16, parallel="tp=8,pp=2")
    kinds = [stage["kind"] for stage in step.to_dict()["pipeline"]["stages"]]
    assert kinds == ["h100-sxm + a100-80", "a100-80 + a10"]


@pytest.mark.parametrize("zero", ["", "sharded"])
def test_of_like_devices_none_that_fit_finds_is_faster(zero: str, tmp_path: Path) -> None:
    """Of one kind the stages are those of ``fit``; with ZeRO 1 all have as many replicas."""
    name, spec = GPT.format(2), mixed(tmp_path, v100_16=4)
    network, array, execution = asked(name, spec)
    execution = replace(execution, update=zero)
    ours = found_s(network, array, 8, execution)
    how: dict[str, Any] = {"update": zero} if zero else {}
    fits = accelarray.fit(name, spec, 8, axes="tp,sp,pp,micro-batch", jobs=1, **how).fits
    assert ours <= fits[0]["iteration_s"] * (1 + 1e-9)


def test_what_fit_says_of_stages_is_what_they_are(tmp_path: Path) -> None:
    """Options of a row, given to ``simulate``, take as long."""
    spec = mixed(tmp_path, v100_16=2, t4=2)
    fitted = accelarray.fit(GPT.format(3), spec, 24, axes="micro-batch", jobs=1)
    staged = [row for row in fitted.fits if row["stage_layers"].count(";") == 1]
    assert staged
    for row in staged[:2]:
        named = {key: row[key] for key in ("stage_hw", "stage_layers", "micro_batch")}
        axes: dict[str, Any] = {"parallel": "sp"} if row["sp"] else {}
        again = accelarray.simulate(GPT.format(3), "axes", spec, 24, **named, **axes)
        assert again.iteration_s == row["iteration_s"]
    text = str(fitted.tables()[-1])
    assert "No plan takes less than" in text


@pytest.mark.filterwarnings("ignore:.* steps will take about")
def test_open_stages_are_never_slower_than_one() -> None:
    asked: Any = ("lenet", "search", "tpu-v3-8", 64)
    one, auto = accelarray.simulate(*asked), accelarray.simulate(*asked, stages="auto")
    assert auto.iteration_s <= one.iteration_s
    why = accelarray.explain(*asked, stages="auto")
    assert why.to_dict()["iteration_s"] == auto.iteration_s


@pytest.mark.parametrize(
    "given", [{"micro_batches": 4}, {"schedule": "gpipe"}, {"cuts": "fc1"}, {"virtual": 2}]
)
def test_open_stages_refuse_what_the_search_chooses(given: dict[str, Any]) -> None:
    (name,) = given
    flag = name.replace("_", "-")
    with pytest.raises(PlanError, match=f"the search takes no {flag}"):
        accelarray.simulate("lenet", "search", "tpu-v3-8", 64, stages="auto", **given)


def test_of_several_sizes_the_bound_is_told_of_the_best_ones(tmp_path: Path) -> None:
    spec = mixed(tmp_path, v100_16=2, t4=2)
    vary = "devices.0.count=1,2"
    found = accelarray.fit(GPT.format(3), spec, 24, axes="micro-batch", jobs=1, vary=vary)
    size = found.fits[0]["size"]
    assert f"No plan with {size} takes less than" in str(found.tables()[-1])
    alone = accelarray.fit(GPT.format(3), spec, 24, axes="micro-batch", jobs=1, set=size)
    assert found.to_dict()["lower_bound_s"] == alone.to_dict()["lower_bound_s"] > 0


def test_experts_are_shared_out_by_replicas_of_a_stage(tmp_path: Path) -> None:
    """No two stages, of a kind each, are faster, however few of their replicas share experts."""
    spec = Path(mixed(tmp_path, 4, h100_sxm=4, a100_80=4))
    spec.write_text(spec.read_text().replace('precision = "fp16"', 'precision = "bf16"'))
    network, array, execution = asked("mixtral-8x7b:layers=3:seq=256", str(spec))

    def seconds(staging: Staging) -> float:
        with suppress(PlanError, OutOfMemoryError):
            axes = staging.parallel or Axes()
            plan = planned_by_axes(network, array, 16, axes, staging)
            return simulate(network, plan, array, execution).iteration_s
        return math.inf

    names = [node.name for node in partition_graph(network)]
    begins = [names[first] for first in pieces_of(network)[1:]]
    tried = list[tuple[float, int]]()
    for tp, cut, ways, size in product((1, 2), begins, (1, 2, 4), (1, 2)):
        each, axes = f"{tp}x{4 // tp}", Axes(sp=tp > 1, ep=ways)
        for hw in (f"h100-sxm:{each};a100-80:{each}", f"a100-80:{each};h100-sxm:{each}"):
            staging = Staging(parallel=axes, cuts=(cut,), micro_batch=size, stage_hw=hw)
            tried.append((seconds(staging), ways))
    found = candidates(network, array, 16, execution)
    assert min(tried)[1] > 1
    assert min(seconds(c.staging) for c in found if c.ep > 1) <= 1.03 * min(tried)[0]


def test_stages_hold_what_their_pieces_hold(tmp_path: Path) -> None:
    """The expected memory of stages beside that of the simulated pipeline."""
    network, array, execution = asked(GPT.format(6), mixed(tmp_path, v100_16=2, t4=2))
    options = StageCosts(network, array, execution, 2).options(8)
    one = {(o.kind, o.tp, o.replicas): o for o in options}
    staging = Staging(
        parallel=Axes(), stage_hw="v100:1x2;t4:2x1", stage_layers=(5, 3), micro_batch=2
    )
    plan = planned_by_axes(network, array, 16, Axes(), staging)
    memory = simulate(network, plan, array, execution).memory
    stages = ((one[0, 1, 2], 0, 5, 2), (one[1, 2, 1], 5, 8, 1))
    for (option, first, end, in_flight), found in zip(stages, memory, strict=True):
        room = found.capacity_bytes - found.reserve_bytes
        expected = option.held[first, end] + in_flight * option.kept[first, end]
        assert expected == pytest.approx(found.peak_bytes / room, rel=0.08)


@pytest.mark.parametrize(
    ("update", "batch", "seq"),
    [("gradients", 64, 2048), ("", 8, 64)],  # an eighth each; what the only pass makes, at its end
)
def test_stages_hold_their_gradients(update: str, batch: int, seq: int) -> None:
    """All layers on each of eight devices, beside the simulated step."""
    own, sets = "h100-cluster", ["nodes=1", "stack=none"]
    array = load_array(own, sets, usual=True)
    sizes = f"hidden=1024:heads=8:ffn=4096:seq={seq}:vocab=8192"
    network = network_of(f"llama3-8b:layers=4:{sizes}", (), array)
    execution = replace(usual(array), update=update)
    options = StageCosts(network, execution.planned(array), execution, 1).options(batch)
    one = next(o for o in options if (o.tp, o.replicas) == (1, 8))
    how: dict[str, Any] = {"parallel": "dp=8", "micro_batch": 1, "zero": 2 if update else 0}
    ran = accelarray.simulate(network, array=own, set=sets, batch=batch, **how)
    (found,) = ran.timeline.memory
    expected = (one.held + one.kept)[0, -1] * (found.capacity_bytes - found.reserve_bytes)
    assert expected == pytest.approx(found.peak_bytes, rel=0.05)


def test_sums_of_all_kinds_do_not_depend_on_their_order(tmp_path: Path) -> None:
    """A kind that is split four ways has a quarter of the gradients of one that is not."""
    found = []
    for first, second, widths in (("v100_16", "t4", (4, 1)), ("t4", "v100_16", (1, 4))):
        spec = mixed(tmp_path, 4, **{first: 4, second: 4})
        costs = StageCosts(*asked(GPT.format(4), spec), 1)
        found.append(costs.sums_of_all_s(widths, [4 // tp for tp in widths], 1))
    assert found[0] == pytest.approx(found[1], rel=0.01)


@pytest.mark.parametrize("batch", [16, 64])
def test_estimates_are_near_what_stages_take(batch: int, tmp_path: Path) -> None:
    """Few micro-batches or many, one port between unlike replicas, sums over a slow network."""
    spec = mixed(tmp_path, 4, v100_16=4, t4=4)
    network, array, execution = asked(GPT.format(4), spec)
    found = candidates(network, array, batch, execution)
    for one in found:
        how = one.stage_hw, one.cuts, one.micro_batch, one.by_positions
        took_s = seconds_of(network, array, batch, execution, *how)
        assert one.seconds == pytest.approx(took_s, rel=0.2)
    assert len({one.stage_hw for one in found}) > 3


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"planner": "data_parallel"}, "planner 'search' finds stages"),
        ({"array": "accpar-mixed"}, "deployed model"),
    ],
)
def test_stages_that_cannot_be_found(changes: dict[str, Any], fault: str) -> None:
    step = {"planner": "search", "array": "mixed-v100-t4", "stages": "auto"} | changes
    with pytest.raises(PlanError, match=fault):
        accelarray.simulate("alexnet", batch=16, **step)


def test_kinds_of_one_name_are_not_told_apart(tmp_path: Path) -> None:
    spec = mixed(tmp_path, v100_16=2)
    text = Path(spec).read_text()
    entry = '[[devices]]\ndevice = "v100-16"\ncount = 2\nhbm.bandwidth = "500 GB/s"\n'
    Path(spec).write_text(text.replace("[topology]", f"{entry}[topology]"))
    network, array, execution = asked(GPT.format(2), spec)
    with pytest.raises(PlanError, match="one name"):
        candidates(network, array, 8, execution)


def test_networks_without_blocks_are_cut_between_layers(tmp_path: Path) -> None:
    network, array, execution = asked("vgg11", mixed(tmp_path, v100_16=2, t4=2))
    assert found_s(network, array, 64, execution) < math.inf


def test_the_answer_says_a_lower_bound_and_the_kinds(tmp_path: Path) -> None:
    spec = mixed(tmp_path, a10=1, v100_16=1, t4=1)
    step = accelarray.simulate(GPT.format(3), "search", spec, 24, stages="auto")
    found = step.to_dict()
    assert 0 < found["lower_bound_s"] < found["iteration_s"]
    assert found["lower_bound_covers"].startswith("any plan")
    kinds = [stage["kind"] for stage in found["pipeline"]["stages"]]
    assert sorted(kinds) == ["a10", "t4", "v100-16"]
    assert all(kind in step.planned().summary() for kind in kinds)
