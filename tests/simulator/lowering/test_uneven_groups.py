"""Devices that are alike sum what they have in one collective, however many they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import accelarray
from hardware import Array, Group, Topology, load_array
from planners import PLANNERS, TIME, Axes, planned_by_axes
from planners.order import Kind, Phase
from simulator import DEPLOYED, Execution, simulate
from simulator.engine.picoseconds import PICOSECONDS
from simulator.search.updates import with_updates
from tests.wiring import device
from workloads import Network, Transformer, load_network, transformer

LENET = load_network("lenet")
SIZES = (2, 3, 5, 6, 7, 8, 12, 21)
AFTERWARDS = replace(DEPLOYED, overlap=False, bucket_bytes=1e15)
"""All gradients at once, when nothing else is going on."""


def exchanged_s(
    count: int, execution: Execution, array: str = "ring-8", nodes: int = 1
) -> list[float]:
    """How long each exchange of data parallelism takes, three samples a device."""
    changes = [f"devices.0.count={count}"] + [f"nodes={nodes}"] * (nodes > 1)
    made = load_array(array, changes)
    plan = PLANNERS["data_parallel"](LENET, made, 3 * made.group.size, TIME)
    if execution.update:
        plan = with_updates(LENET, plan, made, execution)
    timeline = simulate(LENET, plan, made, execution)
    spans = {(r.start_ps, r.end_ps) for r in timeline if r.kind in (Kind.SUMS, Kind.WEIGHTS)}
    return [(end - start) / PICOSECONDS for start, end in sorted(spans)]


@pytest.mark.parametrize("count", SIZES)
def test_round_a_ring_that_goes_one_way(count: int) -> None:
    """Each link carries two thirds of all gradients twice where there are three devices."""
    device = load_array("ring-8").group.kinds[0][0]
    gradients = LENET.parameters * device.arithmetic.gradient_bytes
    each_way_s = (count - 1) / count * gradients / device.network_bytes_per_s
    assert exchanged_s(count, AFTERWARDS) == pytest.approx([2 * each_way_s], rel=1e-6)
    weights, gradients = sorted(exchanged_s(count, replace(AFTERWARDS, update="sharded")))
    assert (2 * weights, gradients) == pytest.approx((each_way_s, each_way_s), rel=1e-6)


@pytest.mark.parametrize("overlap", [True, False])
def test_more_nodes_are_no_jump(*, overlap: bool) -> None:
    """Of two to nine nodes of eight GPUs none takes a tenth more than the next power of two."""
    execution = replace(AFTERWARDS, overlap=overlap)
    found = {nodes: max(exchanged_s(8, execution, "h100-cluster", nodes)) for nodes in range(2, 10)}
    for nodes, seconds in found.items():
        above = 1 << (nodes - 1).bit_length()
        assert seconds < 1.1 * found.get(above, found[8] * 1.2)


@pytest.mark.parametrize(("v100", "nodes"), [(8, 3), (4, 2), (12, 4)])
def test_unlike_devices_are_one_group_too(tmp_path: Path, v100: int, nodes: int) -> None:
    """Four ports a node: 2 (n - 1) / n of all gradients over them, as of devices of one kind."""
    path = tmp_path / "mine.toml"
    path.write_text(
        'kind = "array"\n[topology]\njoins = "chips"\n'
        '[[topology.levels]]\nkind = "switch"\nmembers = 4\n'
        '[[topology.levels]]\nkind = "switch"\nrails = 0\n'
        f'[[devices]]\ndevice = "v100-32"\ncount = {v100}\nnetwork.bandwidth = "2.5 Gbit/s"\n'
        '[[devices]]\ndevice = "a100-80"\ncount = 4\nnetwork.bandwidth = "2.5 Gbit/s"\n',
        encoding="utf-8",
    )
    made = load_array(str(path))
    plan = PLANNERS["data_parallel"](LENET, AFTERWARDS.planned(made), 4 * (v100 + 4), TIME)
    timeline = simulate(LENET, plan, made, AFTERWARDS)
    (span,) = {(r.start_ps, r.end_ps) for r in timeline if r.kind == Kind.SUMS}
    gradients = LENET.parameters * made.group.arithmetic.gradient_bytes
    expected_s = 2 * (nodes - 1) / nodes * gradients / (4 * 2.5e9 / 8)
    assert (span[1] - span[0]) / PICOSECONDS == pytest.approx(expected_s, rel=0.05)


def test_kinds_that_differ_in_memory_alone_exchange_as_one(tmp_path: Path) -> None:
    """Nodes of all kinds are on one network, so that collectives take as long."""
    steps, collectives = [], []
    for counts in ([16], [8, 8], [4, 12]):
        entries = "".join(
            f'[[devices]]\ndevice = "a100-40"\ncount = {n}\nhbm.capacity = "{40 + i} GiB"\n'
            for i, n in enumerate(counts)
        )
        levels = (
            '[topology]\njoins = "chips"\n[[topology.levels]]\nkind = "switch"\nmembers = 4\n'
            '[[topology.levels]]\nkind = "switch"\nbandwidth = "100 Gbit/s"\nlatency = "5 us"\n'
        )
        path = tmp_path / "mine.toml"
        path.write_text(f'kind = "array"\n{levels}{entries}', encoding="utf-8")
        found = accelarray.collective("all-reduce", 1e9, str(path)).to_dict()["algorithms"]
        collectives.append({one["algorithm"]: one["time_s"] for one in found})
        options: dict[str, Any] = {"parallel": "dp=16", "micro_batch": 1}
        step = accelarray.simulate("gpt2:layers=4", array=str(path), batch=64, **options)
        steps.append(step.iteration_s)
    assert collectives[1] == collectives[2] == pytest.approx(collectives[0], rel=1e-6)
    assert steps[1] == pytest.approx(steps[0], rel=1e-6)


def test_the_order_of_unlike_replicas_changes_nothing() -> None:
    """One of tp 4 beside four of tp 1, whichever is written first; buckets fill in one alone."""
    steps = {
        accelarray.simulate(
            "gpt2:layers=4:seq=64",
            "axes",
            "mixed-v100-t4",
            batch=20,
            stage_hw=stage_hw,
            micro_batch=1,
            bucket="40 MB",
        ).iteration_s
        for stage_hw in ("v100:4x1+t4:1x4", "t4:1x4+v100:4x1")
    }
    assert len(steps) == 1


H, S = 192, 48
GPT = transformer(Transformer("g", 1, H, 12, 768, S, ffn=2 * H))
EXPERTS = transformer(Transformer("e", 1, H, 12, 768, S, experts=24, topk=2, moe_ffn=H))


def spans(network: Network, axes: str, kind: Kind, phase: Phase, **more: Any) -> list[float]:
    """Bytes at a port's rate of each exchange of a kind, on a switch without latency."""
    ways = Axes.parse(axes)
    many = ways.dp * ways.tp * ways.cp
    array = Array("a", "", Group(((device(network=1e9), many),)), topology=Topology("switch"))
    execution = replace(DEPLOYED, overlap=False, bucket_bytes=1e15, **more)
    plan = planned_by_axes(network, execution.planned(array), 2 * ways.dp, ways)
    plan = with_updates(network, plan, array, execution)
    timeline = simulate(network, plan, array, execution)
    found = {(r.start_ps, r.end_ps) for r in timeline if (r.kind, r.phase) == (kind, phase)}
    return [(end - start) / PICOSECONDS * 1e9 for start, end in sorted(found)]


@pytest.mark.parametrize("n", [2, 3, 4, 6, 12])
def test_a_group_of_any_size_gathers_as_one(n: int) -> None:
    """(n - 1) / n of the stream of two samples, before each of three products."""
    found = spans(GPT, f"tp={n},sp,dp=1", Kind.BOUNDARY, Phase.FORWARD)
    stream = 2 * S * H * 2
    assert found == pytest.approx([(n - 1) / n * stream] * 3, rel=1e-5)


@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_a_group_of_any_size_gathers_keys_and_values(n: int) -> None:
    found = spans(GPT, f"cp={n},dp=1", Kind.BOUNDARY, Phase.FORWARD)
    each = 2 * S * H * 2
    assert sum(found) == pytest.approx(2 * (n - 1) / n * each, rel=1e-5)


@pytest.mark.parametrize("n", [2, 3, 4, 6, 8, 12, 24])
def test_a_group_of_any_size_sends_tokens_to_experts(n: int) -> None:
    """Of a device's two samples two copies of each token, (n - 1) / n of them to others."""
    out, back = spans(EXPERTS, f"dp={n},ep={n}", Kind.BOUNDARY, Phase.FORWARD)
    tokens = 2 * 2 * S * H * 2
    assert (out, back) == pytest.approx((tokens * (n - 1) / n,) * 2, rel=1e-5)


@pytest.mark.parametrize(("tp", "dp"), [(2, 3), (3, 2), (3, 3), (3, 7), (6, 2), (6, 3)])
@pytest.mark.parametrize("update", ["", "sharded"])
def test_replicas_of_split_models_sum_what_each_device_has(tp: int, dp: int, update: str) -> None:
    """What tp replicates (positions, norms, biases of rows) is summed by each of its ranks.

    With the table and the head apart, of two products of 768 x H that tp splits.
    """
    network = transformer(Transformer("g", 1, H, 6, 768, S, ffn=4 * H, tied=False))
    found = spans(network, f"tp={tp},dp={dp}", Kind.SUMS, Phase.GRADIENT, update=update)
    split = (12 * H * H + 2 * 768 * H + (3 + 4) * H) / tp
    each = split + S * H + 6 * H + 2 * H
    times = 1 if update else 2
    assert max(found) == pytest.approx(times * (dp - 1) / dp * each * 4, rel=1e-5)
