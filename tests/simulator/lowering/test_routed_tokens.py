"""What a layer of experts sends, hides and launches by its stack, by closed forms."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from experiments.studies.case import Case, plan_of
from hardware import Array, Stack, load_array
from planners import Axes, Staging
from planners.order import Kind, Phase
from simulator import DEPLOYED, Timeline, simulate
from simulator.cost.memory import memory_use
from simulator.cost.roofline import core_of, cost, traffic
from simulator.cost.training_operators import operators
from tests.simulator.shapes import unsplit
from workloads import Transformer, partition_graph, transformer
from workloads.layer_types.other import EXPERT_BIAS, EXPERT_GLU

EXPERTS, TOPK, SEQ, HIDDEN, WIDTH = 16, 4, 64, 128, 256
NETWORK = transformer(
    Transformer("m", 1, HIDDEN, 4, 256, SEQ, 512, True, experts=EXPERTS, topk=TOPK, moe_ffn=WIDTH)
)
DEEP = transformer(
    Transformer("d", 8, HIDDEN, 4, 256, SEQ, 512, True, experts=EXPERTS, topk=TOPK, moe_ffn=WIDTH)
)
WIRES = ["precision=bf16", "topology.levels.0.latency=0 s", "topology.levels.0.half_size=1 B"]


def step(nodes: int, stack: Stack, axes: Axes | None = None) -> Timeline:
    array: Array = replace(load_array("h100-cluster", [f"nodes={nodes}", *WIRES]), stack=stack)
    axes = axes or Axes(dp=8 * nodes, ep=8 * nodes)
    how = replace(DEPLOYED, staging=Staging(parallel=axes))
    plan = plan_of(Case(NETWORK, "axes", array, 16, execution=how))
    return simulate(NETWORK, plan, array, how)


def sent(timeline: Timeline) -> float:
    """Bytes of the four passes of tokens: there and back, and their errors."""
    return sum(
        sum(one.received)
        for one in timeline.operations
        if one.kind is Kind.BOUNDARY and "experts" in one.layer
    )


COPIES = 16 * SEQ * TOPK * HIDDEN * 2.0
"""Bytes of a copy of each token for each of its experts."""


@pytest.mark.parametrize(("nodes", "ways"), [(1, 8), (2, 2)])
def test_a_token_goes_once_to_each_rank_or_to_each_domain(nodes: int, ways: int) -> None:
    """By the chance that none of k experts, evenly spread, is at a rank (or in a domain)."""
    plain, once = (sent(step(nodes, Stack("s", dispatcher=one))) for one in ("alltoall", "once"))
    assert plain == pytest.approx(4 * COPIES * (1 - 1 / (8 * nodes)))
    kept = (ways - 1) * (1 - (1 - 1 / ways) ** TOPK) / (TOPK * (1 - 1 / ways))
    assert once == pytest.approx(kept * plain)


@pytest.mark.parametrize("stack", [Stack("s", hidden_experts=0.75), Stack("s", hidden_tensor=0.75)])
def test_tokens_on_their_way_are_hidden_apart_from_tensors(stack: Stack) -> None:
    """Three quarters of the links' time of experts are, or of tensors, of which are none."""
    whole, hidden = (step(1, one) for one in (Stack("s"), stack))
    assert sent(whole) == sent(hidden)
    assert hidden.link_bytes == pytest.approx(whole.link_bytes)
    less = timed_bytes(whole) - timed_bytes(hidden)
    of_experts = 2 * 0.75 * sent(whole) if stack.hidden_experts else 0.0
    assert less == pytest.approx(of_experts)


def timed_bytes(timeline: Timeline) -> float:
    """Of all links, what takes their time."""
    jobs = (job.unfolded() for one in timeline.operations for job in one.jobs)
    return sum(float(job.load.flows.sum()) * job.flow_bytes for job in jobs)


@pytest.mark.parametrize("tp", [2, 4])
def test_devices_with_parts_of_an_expert_gather_what_each_of_them_received(tp: int) -> None:
    """Megatron-Core's alltoall dispatcher: one all-to-all of each device's positions, then tp's.

    Nothing of it is sent again for gradients. Without sequence parallelism all of tp have all
    tokens, and each sends them.
    """
    there = {
        sp: step(1, Stack("s"), Axes(dp=8 // tp, tp=tp, ep=8 // tp, sp=sp)) for sp in (True, False)
    }
    away = 4 * COPIES * (1 - tp / 8)
    assert sent(there[True]) == pytest.approx(away + 2 * COPIES * (tp - 1))
    assert sent(there[False]) == pytest.approx(tp * away)
    sums = {
        sp: sorted(
            sum(one.received)
            for one in timeline.operations
            if one.kind is Kind.SUMS and "experts" in one.layer and one.phase is not Phase.GRADIENT
        )
        for sp, timeline in there.items()
    }
    assert sums[True] == pytest.approx([COPIES * (tp - 1)] * 2)  # reduce-scatters
    assert sums[False] == pytest.approx([2 * COPIES * (tp - 1)] * 2)  # all-reduces


def test_tokens_that_experts_have_received_are_held_until_backward() -> None:
    """By a device that sent half of them, too: all k copies of 2 B, as by one that sent all.

    Of a device that sent half of the positions, copies of what its dispatch reads come on top.
    """
    found = operators(NETWORK)
    names = [node.name for node in found.graph]
    sends = names.index("layer0.dispatch")
    shards = [unsplit(node, 1) for node in found.graph]
    half = shards[sends]._replace(rows=0.5, positions=0.5)
    core = core_of(load_array("dgx-h100", ["precision=bf16"]).group.kinds[0][0])
    alone, apart = (
        memory_use(found, [*shards[:sends], one, *shards[sends + 1 :]], core)
        for one in (shards[sends], half)
    )
    forward = alone.operators.index("softmax forward")
    more = apart.series[forward] - alone.series[forward]
    read = SEQ * (HIDDEN + TOPK) * 2.0
    assert 0 <= more < read < SEQ * TOPK * HIDDEN * 2.0


def test_whole_experts_lie_over_tp_where_that_is_said() -> None:
    """Of ep=4 on dp=4, tp=2: parts of 4 experts each, or 4 whole ones on two of dp."""
    parts, whole = (step(1, Stack("s"), Axes(dp=4, tp=2, ep=4, sp=True, etp=n)) for n in (0, 1))
    matrices = [
        sorted({one.flops for one in t.operations if one.layer == "layer0.experts.gate"})
        for t in (parts, whole)
    ]
    assert matrices[0] == pytest.approx(matrices[1])
    assert sent(whole) < sent(parts)  # no expert's results are summed over tp


def experts(phase: Phase, *changes: str) -> tuple[float, float]:
    """Seconds and bytes of the products of all experts of a phase on one core."""
    said = [f"devices.0.{change}" for change in changes]
    ((device, _),) = load_array("dgx-h100", ["precision=bf16", *said]).group.kinds
    core, found = core_of(device), operators(NETWORK)
    work = [
        (op, unsplit(found.graph[v], 2))
        for v, node in enumerate(found.nodes)
        for op in node.of(phase)
        if op.grouped and op.macs
    ]
    assert len(work) == 3  # gate, up, down
    seconds = sum(cost(op, shard, core).seconds for op, shard in work)
    return seconds, sum(traffic(op, shard, core) for op, shard in work)


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT])
def test_each_expert_is_a_chain_of_kernels(phase: Phase) -> None:
    eager, fused = experts(phase, "roofline.group=26 us")[0], experts(phase)[0]
    assert eager - fused == pytest.approx(3 * EXPERTS * 26e-6)


def test_gradients_of_experts_are_added_to_a_buffer() -> None:
    """Read and written: of three matrices for each expert in float32 once more."""
    buffered = experts(Phase.GRADIENT, "arithmetic.gradient_buffer=true")[1]
    assert buffered - experts(Phase.GRADIENT)[1] == 3 * EXPERTS * HIDDEN * WIDTH * 4.0
    forward = [
        experts(Phase.FORWARD, f"arithmetic.gradient_buffer={x}")[1] for x in ("true", "false")
    ]
    assert forward[0] == forward[1]


@pytest.mark.parametrize(("fused", "passes"), [(False, (36, 57)), (True, (14, 20))])
def test_biased_experts_pass_over_their_rows(*, fused: bool, passes: tuple[int, int]) -> None:
    """As often as Megatron-Core's kernels read and write rows of their width in 2 B."""
    sizes = Transformer("g", 1, HIDDEN, 4, 256, SEQ, HIDDEN, True, experts=EXPERTS, topk=TOPK)
    found = operators(transformer(replace(sizes, compiled=False, fused_experts=fused)))
    core = core_of(load_array("dgx-h100", ["precision=bf16"]).group.kinds[0][0])
    for phase, often in zip((Phase.FORWARD, Phase.BACKWARD), passes, strict=True):
        moved = [
            traffic(op, unsplit(found.graph[v], 2), core)
            for v, node in enumerate(found.nodes)
            for op in node.of(phase)
            if op.name.startswith(("layer0.experts.glu", "layer0.experts.bias"))
        ]
        assert sum(moved) == often * 2 * SEQ * TOPK * HIDDEN * 2.0


def test_experts_without_biases_or_with_a_compiler_have_no_such_kernels() -> None:
    sizes = Transformer("g", 1, HIDDEN, 4, 256, SEQ, HIDDEN, True, experts=EXPERTS, topk=TOPK)
    for one in (sizes, replace(sizes, compiled=False, biases=False)):
        layers = transformer(one).layers
        assert not {EXPERT_GLU, EXPERT_BIAS} & {layer.operator for layer in layers}


@pytest.mark.parametrize(("pp", "experts"), [(1, EXPERTS), (2, EXPERTS), (1, 0)])
def test_a_layer_of_experts_takes_what_its_host_needs(pp: int, experts: int) -> None:
    """Of two layers 2 x 30 ms a micro-batch, a third forward; a dense layer is not held up."""
    network = transformer(
        Transformer("h", 2, HIDDEN, 4, 256, SEQ, 512, True, experts=experts, topk=min(TOPK, 4))
    )

    def passes(host: str) -> dict[str, float]:
        array = load_array("dgx-h100", ["precision=bf16", f"devices.0.roofline.host_layer={host}"])
        axes = Axes(dp=8 // pp, pp=pp, ep=min(8 // pp, experts) or 1)
        how = replace(DEPLOYED, staging=Staging(parallel=axes, micro_batch=1))
        timeline = simulate(
            network, plan_of(Case(network, "axes", array, 16, execution=how)), array, how
        )
        found = {"forward": 0.0, "backward": 0.0}
        for one in timeline.operations:
            if one.kind is Kind.COMPUTE and one.phase in (
                Phase.FORWARD,
                Phase.BACKWARD,
                Phase.GRADIENT,
            ):
                found["forward" if one.phase is Phase.FORWARD else "backward"] += (
                    one.duration_ps / 1e12
                )
        return found | {"step": timeline.iteration_s}

    slow, fast = passes("30 ms"), passes("0 s")
    if not experts:
        assert slow == fast
        return
    assert slow["forward"] == pytest.approx(2 * 10e-3, rel=0.05)
    assert slow["backward"] == pytest.approx(2 * 20e-3, rel=0.05)
    micro_batches = 16 // (8 // pp)
    passes_s = 30e-3 * (2 * micro_batches if pp == 1 else micro_batches + 1)
    assert slow["step"] == pytest.approx(passes_s, rel=0.05)
    assert passes("10 us")["step"] == fast["step"]  # a core that is slower than its host


@pytest.mark.parametrize(("recompute", "again"), [("none", 0), ("1", 1), ("full", 2)])
def test_a_host_starts_again_what_is_computed_again(recompute: str, again: int) -> None:
    """Of two layers of 30 ms each, a third of which is forward's; a step of one micro-batch."""
    network = transformer(
        Transformer("h", 2, HIDDEN, 4, 256, SEQ, 512, True, experts=EXPERTS, topk=TOPK)
    )
    array = load_array("dgx-h100", ["precision=bf16", "devices.0.roofline.host_layer=30 ms"])
    how = replace(DEPLOYED, staging=Staging(parallel=Axes(dp=8, ep=8)), recompute=recompute)
    plan = plan_of(Case(network, "axes", array, 8, execution=how))
    took_s = simulate(network, plan, array, how).iteration_s
    assert took_s == pytest.approx(2 * 30e-3 + again * 10e-3, rel=0.02)


def test_the_published_model_has_no_hosts() -> None:
    """Its formulas are the papers', which wait for no launch."""

    def took_ps(host: str) -> int:
        array = load_array("dgx-h100", [f"devices.0.roofline.host_layer={host}"])
        plan = plan_of(Case(NETWORK, "data_parallel", array, 16))
        return simulate(NETWORK, plan, array).iteration_ps

    assert took_ps("1 s") == took_ps("0 s")


def test_a_host_goes_on_while_tokens_are_on_their_way() -> None:
    """With links of 1 MB/s exchanges alone take longer than 5 ms of launches."""

    def took_ps(host: str) -> int:
        links = ["topology.levels.0.bandwidth=8 MB/s", f"devices.0.roofline.host_layer={host}"]
        array = load_array("dgx-h100", ["precision=bf16", *links])
        how = replace(DEPLOYED, staging=Staging(parallel=Axes(dp=8, ep=8)))
        plan = plan_of(Case(NETWORK, "axes", array, 16, execution=how))
        return simulate(NETWORK, plan, array, how).iteration_ps

    assert took_ps("5 ms") == took_ps("0 s")


@pytest.mark.parametrize("host", ["0 s", "9 ms"])
def test_faster_links_make_no_step_longer_whatever_the_host_needs(host: str) -> None:
    """With exchanges that products wait for, and ones that are hidden (errors of tp, backward).

    What a host needs is counted without contention, so to within half a percent.
    """
    sizes = Transformer("w", 2, 2048, 8, 1024, 512, 4096, True, experts=4, topk=2)
    network = transformer(replace(sizes, moe_ffn=2048))

    def took_ps(rate: int) -> int:
        given = ["nodes=1", "stack=megatron-2025", "precision=bf16"]
        links = [
            f"topology.levels.0.bandwidth={rate} GB/s",
            f"devices.0.roofline.host_layer={host}",
        ]
        array = load_array("h100-cluster", [*given, *links])
        how = replace(DEPLOYED, staging=Staging(parallel=Axes(dp=2, tp=4, ep=2), micro_batch=2))
        plan = plan_of(Case(network, "axes", array, 16, execution=how))
        return simulate(network, plan, array, how).iteration_ps

    took = [took_ps(rate) for rate in (30, 120, 480, 4800)]
    assert took[0] > took[-1]
    for slower, faster in pairwise(took):
        assert faster < (1.0 if host == "0 s" else 1.005) * slower


def test_what_another_stage_sends_takes_no_time_of_a_host() -> None:
    """Sends alone are slow: the core waits before the pass begins, and its host with it."""

    def computing_ps(rate: str) -> int:
        host = "devices.0.roofline.host_layer=3 ms"
        links = ["precision=bf16", f"topology.levels.0.bandwidth={rate}", host]
        array = load_array("dgx-h100", links)
        how = replace(DEPLOYED, staging=Staging(parallel=Axes(pp=8), micro_batch=1))
        plan = plan_of(Case(DEEP, "axes", array, 4, execution=how))
        timeline = simulate(DEEP, plan, array, how)
        return sum(one.duration_ps for one in timeline.operations if one.kind is Kind.COMPUTE)

    assert computing_ps("8 MB/s") == computing_ps("500 GB/s")


def test_without_overlap_a_host_goes_on_during_every_exchange() -> None:
    """What a pass takes, its last exchange too, is what its host has for its layers."""

    def timeline_of(host_ps: int) -> Timeline:
        host = f"devices.0.roofline.host_layer={host_ps} ps"
        links = ["precision=bf16", "topology.levels.0.bandwidth=1 GB/s", host]
        array, axes = load_array("dgx-h100", links), Axes(dp=2, tp=4, sp=True)
        how = replace(DEPLOYED, overlap=False, staging=Staging(parallel=axes))
        plan = plan_of(Case(NETWORK, "axes", array, 16, execution=how))
        return simulate(NETWORK, plan, array, how)

    def forward_ps(host_ps: int) -> int:
        timeline = timeline_of(host_ps)
        return max(one.end_ps for one in timeline if one.phase == Phase.FORWARD)

    free_ps, free = forward_ps(0), timeline_of(0)
    kinds = [one.kind for one in free if one.phase == Phase.FORWARD and one.kind != "memory"]
    assert kinds[-2:] == [Kind.BOUNDARY, Kind.COMPUTE]
    assert forward_ps(3 * free_ps - 30) == free_ps
    later_ps = forward_ps(3 * (free_ps + 1_000_000))
    assert later_ps == pytest.approx(free_ps + 1_000_000, abs=10)


def test_new_weights_take_no_time_of_a_host() -> None:
    """It cannot go past the first layer of experts before that has computed its routes."""

    def computing_ps(zero: str) -> int:
        host = "devices.0.roofline.host_layer=9 ms"
        links = ["precision=bf16", "topology.levels.0.bandwidth=1 GB/s", host]
        how = replace(DEPLOYED, update=zero, staging=Staging(parallel=Axes(dp=8)))
        array = load_array("dgx-h100", links)
        timeline = simulate(
            NETWORK, plan_of(Case(NETWORK, "axes", array, 8, execution=how)), array, how
        )
        return sum(
            one.duration_ps
            for one in timeline.operations
            if one.kind is Kind.COMPUTE and one.phase is Phase.FORWARD
        )

    assert computing_ps("sharded") == computing_ps("replicated")


@pytest.mark.parametrize("pp", [1, 2])
def test_what_a_host_needs_holds_no_memory(pp: int) -> None:
    """The same bytes at the fullest moment, however long cores wait for their hosts."""
    network = transformer(
        Transformer("h", 2, HIDDEN, 4, 256, SEQ, 512, True, experts=EXPERTS, topk=TOPK)
    )
    peaks = []
    for host in ("0 s", "30 ms"):
        array = load_array("dgx-h100", ["precision=bf16", f"devices.0.roofline.host_layer={host}"])
        axes = Axes(dp=8 // pp, pp=pp, ep=8 // pp)
        how = replace(DEPLOYED, staging=Staging(parallel=axes, micro_batch=1))
        case = Case(network, "axes", array, 16, execution=how)
        timeline = simulate(network, plan_of(case), array, how)
        peaks.append([one.peak_bytes for one in timeline.memory])
    assert peaks[0] == peaks[1]


def test_a_stage_may_begin_where_tokens_go_to_experts() -> None:
    """What it dispatches it has received, and sends as much as without stages."""
    array, axes = load_array("dgx-h100", ["precision=bf16"]), Axes(dp=8, ep=8)
    array = replace(array, stack=Stack("s", dispatcher="once"))
    how = replace(DEPLOYED, staging=Staging(parallel=replace(axes, dp=4, ep=4, pp=2)))
    names = [node.name for node in partition_graph(DEEP)]
    first = next(name for name in names if name.endswith("dispatch"))
    staged = replace(how, staging=replace(how.staging or Staging(), cuts=(first,)))
    found = []
    for one in (how, staged):
        plan = plan_of(Case(DEEP, "axes", array, 8, execution=one))
        timeline = simulate(DEEP, plan, array, one)
        moved = (o for o in timeline.operations if "dispatch to" in o.layer and o.kind != Kind.SEND)
        found.append(sum(sum(o.received) for o in moved))
    assert found[0] == pytest.approx(found[1])
