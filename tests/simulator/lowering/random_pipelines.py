"""Random pipelines on the published model, and the same for the slow implementation.

Times are worked out here from the papers' rules: a fully connected layer of B samples,
Di inputs and Do outputs takes B Do (2 Di - 1) FLOPs forward, B Di (2 Do - 1) for errors
and Di Do (2 B - 1) for gradients; boards of a replica split the samples and exchange
each gradient once a level; a send takes the slower end's port.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from random import Random

from hardware import Array, Device, Group
from hardware.topology import PUBLISHED as TREE
from hardware.topology import Topology
from planners import Pipeline, Place, Plan, Stage, load_planner
from simulator import PUBLISHED, Execution
from tests.simulator.lowering.slow_pipeline import SlowLayer, SlowPipeline, SlowSend, SlowStage
from workloads import Builder, Network, cut, partition_graph

ELEMENT = 2
"""Bytes of a number."""
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble", "pipedream", "2bw")


@dataclass
class Case:
    """A pipeline for the simulator, and the same for the slow implementation."""

    network: Network
    plan: Plan
    array: Array
    execution: Execution
    slow: SlowPipeline


def ps(amount: int | Fraction, rate: int | Fraction) -> int:
    """Picoseconds, rounded up."""
    return ceil(Fraction(amount) / Fraction(rate) * 10**12)


def random_case(seed: int) -> Case:
    """One of them: chains of layers with sums of two tensors here and there."""
    rng = Random(seed)  # noqa: S311 (the same pipelines every time)
    schedule = SCHEDULES[seed % len(SCHEDULES)]
    ranks = rng.randint(1, 5)
    chunks = rng.choice([1, 2, 3]) if schedule in ("interleaved", "gpipe") else 1
    round_robin = schedule != "interleaved"
    replicas = [rng.choice([1, 1, 2, 3, 4]) for _ in range(ranks)]
    if not round_robin:
        replicas = [rng.randint(1, 2)] * ranks
    bus = rng.random() < 0.15
    boards = [1 if bus else rng.choice([1, 1, 2, 4]) for _ in range(ranks)]
    micro = _micro_batches(rng, schedule, replicas)
    network, names = _network(rng, ranks * chunks)
    graph = partition_graph(network)
    firsts = _firsts(rng, [node.name for node in graph], names, ranks * chunks)
    devices = [_device(rng, k) for k in range(ranks)]
    counts = [r * b for r, b in zip(replicas, boards, strict=True)]
    kinds = tuple(zip(devices, counts, strict=True))
    array = Array("random", "", Group(kinds), topology=Topology("bus") if bus else TREE)
    batches = _batches(schedule, micro, replicas)
    rows = 4 * rng.randint(1, 3)
    places = tuple(Place(sum(counts[:k]), counts[k], replicas[k]) for k in range(ranks))
    found = cut(network, firsts)
    recompute = [rng.random() < 0.2 for _ in firsts]
    stages = tuple(
        Stage(
            first,
            k % ranks,
            load_planner("data_parallel")(
                part, array.part(places[k % ranks].first, boards[k % ranks]), rows
            ),
            recompute[k],
        )
        for k, (first, part) in enumerate(zip(found.firsts, found.networks, strict=True))
    )
    sync = schedule == "pipedream" and rng.random() < 0.3
    pipeline = Pipeline(stages, places, schedule, micro, "", sync, batches)
    plan = Plan(
        "random",
        network.name,
        rows * micro,
        "time",
        tuple(node.name for node in graph),
        None,
        stages[0].plan.communication,
        pipeline,
    )
    execution = replace(PUBLISHED, bucket_bytes=float(rng.choice([0, 200, 1000, 1 << 25])))
    slow = _slow(network, firsts, devices, replicas, boards, rows, execution, bus=bus)
    slow.schedule, slow.micro_batches, slow.batches = schedule, micro, max(batches, 1)
    for stage, again in zip(slow.stages, recompute, strict=True):
        stage.recompute = again
    return Case(network, plan, array, execution, slow)


def longer(case: Case, times: int) -> Case:
    """The same with so many times as many micro-batches, or batches where nothing is flushed."""
    plan, slow, pipeline = case.plan, case.slow, case.plan.pipeline
    assert pipeline is not None
    if pipeline.batches:
        plan = replace(plan, pipeline=replace(pipeline, batches=pipeline.batches * times))
        slow = replace(slow, batches=slow.batches * times)
    else:
        many = pipeline.micro_batches * times
        plan = replace(
            plan, batch=plan.batch * times, pipeline=replace(pipeline, micro_batches=many)
        )
        slow = replace(slow, micro_batches=many)
    return replace(case, plan=plan, slow=slow)


def _device(rng: Random, number: int) -> Device:
    peak, port = rng.randint(10**8, 10**9), rng.randint(10**6, 10**8)
    return Device(f"d{number}", 1, 1, float(peak), 1e9, 1e9, float(port))


def _micro_batches(rng: Random, schedule: str, replicas: list[int]) -> int:
    """As many as go round all replicas; interleaved as many as places, or a multiple."""
    many = rng.randint(1, 4)
    if schedule == "interleaved":
        return many * sum(replicas)
    if schedule == "pipedream":
        return rng.randint(1, 6)
    while any(many % one for one in replicas):
        many += 1
    if schedule == "2bw":
        unit = many
        while many < sum(replicas):
            many += unit
    return many


def _batches(schedule: str, micro: int, replicas: list[int]) -> int:
    if schedule not in ("pipedream", "2bw"):
        return 0
    batches = 1
    while batches * micro < 8 or any(batches * micro % one for one in replicas):
        batches += 1
    return batches


def _network(rng: Random, stages: int) -> tuple[Network, list[str]]:
    """A chain, whose tensors of equal width are added now and then; and its weighted layers."""
    net, width, weighted = Builder("random", rng.randint(2, 40), 1), 0, list[str]()
    net.flatten("flat")
    made: dict[int, list[str]] = {}
    for i in range(rng.randint(stages, stages + 4)):
        width = rng.choice([8, 8, rng.randint(2, 40)])
        name = net.fc(f"fc{i}", width)
        weighted.append(name)
        before = made.setdefault(width, [])
        if before and rng.random() < 0.5:
            other = rng.choice(before)
            before.append(name)
            name = net.add(f"add{i}", name, other)
        before.append(name)
    return net.build(), weighted


def _firsts(rng: Random, nodes: list[str], weighted: list[str], stages: int) -> list[int]:
    """Cuts so that each stage has a layer with weights; an addition may begin a stage."""
    places = [i for i, name in enumerate(nodes) if name in weighted]
    last = sorted(rng.sample(range(1, len(places)), stages - 1))
    firsts = [0]
    for number in last:
        here, before = places[number], places[number - 1]
        firsts.append(rng.randint(before + 1, here))
    return firsts


def _slow(
    network: Network,
    firsts: list[int],
    devices: list[Device],
    replicas: list[int],
    boards: list[int],
    rows: int,
    execution: Execution,
    *,
    bus: bool,
) -> SlowPipeline:
    """Stage times and sends by the published rules."""
    graph, ranks = partition_graph(network), len(devices)
    shapes = {layer.name: layer for layer in network.layers}
    streams = 2 * max(ranks - 1, 1) if bus else 1
    behind = [*firsts, len(graph)]
    stages, where = [], dict[str, tuple[int, int]]()
    for k in range(len(firsts)):
        rank = k % ranks
        peak, port = (int(devices[rank].chip_peak_flops_per_s), _port(devices[rank]))
        stage, sizes = SlowStage([]), list[int]()
        levels = {1: 0, 2: 1, 4: 2}[boards[rank]]
        for v in range(behind[k], behind[k + 1]):
            name = graph[v].name
            where[name] = k, v - behind[k]
            if shapes[name].kind != "fc":
                stage.layers.append(SlowLayer(join=True))
                continue
            di, do = shapes[name].input.channels, shapes[name].output.channels
            b = rows // boards[rank]
            flops = b * do * (2 * di - 1), b * di * (2 * do - 1), di * do * (2 * b - 1)
            sums = levels * ps(di * do * ELEMENT, port)
            forward, errors, weights = (ps(amount, peak) for amount in flops)
            stage.layers.append(SlowLayer(forward, errors, weights, sums))
            sizes.append(di * do * ELEMENT)
        if replicas[rank] > 1:
            stage.replica_sums = [
                ps(Fraction(2 * (replicas[rank] - 1), replicas[rank]) * size * streams, port)
                for size in _buckets(sizes, execution.bucket_of())
            ]
        stages.append(stage)
    readers: dict[tuple[str, int], list[int]] = {}
    for layer in network.layers:
        for name in layer.inputs if layer.name in where else ():
            if name in where and where[name][0] != where[layer.name][0]:
                stage_, place = where[layer.name]
                readers.setdefault((name, stage_), []).append(place)
    sends = []
    for (name, target), places in readers.items():
        source, producer = where[name]
        one, other = source % ranks, target % ranks
        rate = Fraction(min(_port(devices[one]), _port(devices[other])), streams)
        size = rows * shapes[name].output.channels * ELEMENT
        takes = 0 if one == other else ps(size, rate)
        pairs = {(i, j): takes for i in range(replicas[one]) for j in range(replicas[other])}
        sends.append(SlowSend(source, producer, target, places, pairs, pairs))
    return SlowPipeline(stages, sends, replicas, "", 1)


def _port(device: Device) -> int:
    return int(device.network_bytes_per_s)


def _buckets(sizes: list[int], full: float) -> list[int]:
    """Gradients from the last layer on, together until there is enough."""
    found, here = list[int](), 0
    for size in reversed(sizes):
        here += size
        if here >= full:
            found.append(here)
            here = 0
    return [*found, here] if here else found
