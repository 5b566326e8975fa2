from collections.abc import Collection, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import load_device
from planners.order import Phase
from planners.partition import Shard
from simulator.cost.memory import memory_use, parameters
from simulator.cost.operators import Map, Operator, Operators
from simulator.cost.roofline import core_of, map_bytes, map_channels
from simulator.cost.training_operators import operators
from tests.simulator.shapes import PLAIN, unsplit
from tests.strategies import convolutional_networks, networks
from workloads import (
    Builder,
    Network,
    Transformer,
    cut,
    load_network,
    partition_graph,
    transformer,
)
from workloads.transforms import eager
from workloads.zoo import NETWORKS


def whole(ops: Operators, rows: float) -> list[Shard]:
    return [unsplit(node, rows) for node in ops.graph]


def oracle(
    ops: Operators,
    shards: Sequence[Shard],
    updated: Sequence[float] | None = None,
    scattered: Collection[int] = (),
    order: Sequence[Operator] = (),
) -> list[float]:
    """At each operator, everything is looked up anew: who touched it before, who will after.

    Of a parameter 2 bytes as operators read it; 8 more of each that the core updates. Of what
    ``scattered`` nodes make, cores keep positions: as large a part as of the sum's terms.
    """
    mine = [op for op in order or ops.schedule() if not shards[op.node].empty]
    kept = [
        shard.inputs * shard.groups / node.in_channels if v in scattered else 1.0
        for v, (shard, node) in enumerate(zip(shards, ops.graph, strict=True))
    ]
    total = []
    for now in range(len(mine)):
        held = 0.0
        for v, shard in enumerate(shards):
            if not shard.empty:
                count = parameters(ops, v, shard)
                held += 2 * count + 8 * count * (updated[v] if updated else 1.0)
                held += 4 * count if gradient_lives(ops, mine, v, now) else 0
                held += 2 * brought(ops, shards, v)
        touched = [copies(ops, mine, shards, i, kept) for i in range(len(mine))]
        sizes = {copy: size for found in reversed(touched) for copy, size in found.items()}
        held += sum(size for copy, size in sizes.items() if lives(mine, touched, copy, now))
        total.append(held)
    return total


def brought(ops: Operators, shards: Sequence[Shard], v: int) -> float:
    """Tied weights that a core has of a use beside its owner's: both have a corner of a matrix."""
    node, owner = ops.graph[v], ops.graph[v].tied
    if owner is None:
        return 0.0

    def corner(of: int) -> tuple[float, float]:
        shard, each = shards[of], ops.graph[of]
        if shard.empty:
            return 0.0, 0.0
        rows, columns = shard.inputs / each.in_channels, shard.outputs / each.out_channels
        return rows * shard.groups, columns * shard.groups

    (rows, columns), theirs = corner(v), corner(owner)
    if node.type.gathers != ops.graph[owner].type.gathers:
        theirs = theirs[::-1]
    both = min(rows, theirs[0]) * min(columns, theirs[1])
    matrix = ops.nodes[v].shared_parameters * node.in_channels * node.out_channels / node.groups
    return matrix * (rows * columns - both)


class Copy(NamedTuple):
    """Of a tensor so many rows, of so many elements each; ``again`` where gathered once more.

    Or the ``part`` of it that is kept of a sum.
    """

    tensor: str
    rows: float
    row: float
    again: bool
    part: float = 1.0


def copies(
    ops: Operators,
    mine: Sequence[Operator],
    shards: Sequence[Shard],
    now: int,
    kept: Sequence[float],
) -> dict[Copy, float]:
    """Bytes of what an operator reads and writes, and of the part of a sum that it keeps."""
    op = mine[now]
    found = dict[Copy, float]()
    for tensor in (*op.reads, *op.writes):
        copy = copy_of(tensor, mine, shards, now, kept)
        size = map_bytes(tensor, shards[op.node], PLAIN)
        same = added_to(tensor, mine, shards, now, kept) if ops.graph[op.node].join else None
        if same and same[1] == size:
            found.setdefault(same[0], size)
            continue
        found.setdefault(copy, size)
        part = kept[op.node]
        if part < 1 and op.phase is Phase.FORWARD and tensor in op.writes:
            found[copy._replace(part=part)] = part * size
    return found


def added_to(
    tensor: Map,
    mine: Sequence[Operator],
    shards: Sequence[Shard],
    now: int,
    kept: Sequence[float],
) -> tuple[Copy, float] | None:
    """The part that is kept of a sum, with its bytes, where a join reads it."""
    makers = [
        (o, m)
        for o in mine[:now]
        for m in o.writes
        if m.tensor == tensor.tensor and o.phase is Phase.FORWARD and kept[o.node] < 1
    ]
    if not makers:
        return None
    maker, made = makers[-1]
    copy = copy_of(made, mine, shards, mine.index(maker), kept)
    part = kept[maker.node]
    return copy._replace(part=part), part * map_bytes(made, shards[maker.node], PLAIN)


def copy_of(
    tensor: Map,
    mine: Sequence[Operator],
    shards: Sequence[Shard],
    now: int,
    kept: Sequence[float],
) -> Copy:
    """Behind forward another one than there, if who made it had fewer positions.

    What all positions attend to is read whole, whichever of them a core has.
    """
    op, shard = mine[now], shards[mine[now].node]
    row = round(map_channels(tensor, shard) * tensor.area, 3)
    makers = [o for o in mine[:now] if tensor.tensor in [m.tensor for m in o.writes]]
    held = 1.0
    if makers:
        part = kept[makers[-1].node] if makers[-1].phase is Phase.FORWARD else 1.0
        held = part * shards[makers[-1].node].positions
    gathered = held < (1.0 if tensor.whole else shard.positions)
    again = gathered and op.phase is not Phase.FORWARD
    rows = shard.rows / shard.positions if tensor.whole else shard.rows
    return Copy(tensor.tensor, rows, row, again)


def lives(mine: list[Operator], touched: Sequence[dict[Copy, float]], copy: Copy, now: int) -> bool:
    """From the first operator that touches this copy to the last that does or copies it."""
    own = [i for i, found in enumerate(touched) if copy in found]
    written = [i for i, op in enumerate(mine) if copy.tensor in [m.tensor for m in op.writes]]
    parts = [c.part < 1 for found in touched for c in found if c.tensor == copy.tensor]
    if written and own[0] == written[0] and (copy.part < 1 or not any(parts)):
        # others are made from this one
        others = {c for found in touched for c in found if c.tensor == copy.tensor} - {copy}
        own += [next(i for i, found in enumerate(touched) if c in found) for c in others]
    return min(own) <= now <= max(own)


def gradient_lives(ops: Operators, mine: list[Operator], node: int, now: int) -> bool:
    last = [i for i, op in enumerate(mine) if op.node == node and op.phase is Phase.UPDATE]
    users = [v for v, other in enumerate(ops.graph) if v == node or other.tied == node]
    starts = [gradient_starts(mine, v) for v in users]
    if not last:
        return False
    start = min([i for i in starts if i is not None], default=last[0])
    return start <= now <= last[0]


def gradient_starts(mine: list[Operator], node: int) -> int | None:
    """Where the product makes it, else where the first operator behind does."""
    phases = [(i, op.phase) for i, op in enumerate(mine) if op.node == node]
    product = [i for i, phase in phases if phase is Phase.GRADIENT]
    backward = [i for i, phase in phases if phase is Phase.BACKWARD]
    return product[-1] if product else backward[0] if backward else None


@settings(deadline=None)
@given(st.one_of(convolutional_networks(most=8), networks(6)), st.data())
def test_the_brute_force_agrees(network: Network, data: st.DataObject) -> None:
    ops = operators(network)
    parts = st.sampled_from((0.0, 0.25, 0.5, 1.0, 1.0, 1.0))
    positions = st.sampled_from((0.25, 0.5, 1.0, 1.0))
    shards = [
        shard._replace(
            rows=6 * data.draw(parts),
            inputs=shard.inputs * data.draw(parts),
            positions=data.draw(positions),
        )
        for shard in whole(ops, 1)
    ]
    scattered = data.draw(st.frozensets(st.integers(0, len(shards) - 1)))
    use = memory_use(ops, shards, PLAIN, scattered=scattered)
    assert use.series == pytest.approx(oracle(ops, shards, scattered=scattered))


@pytest.mark.parametrize(
    ("operator", "kept"),
    [("", 1), ("relu", 1), ("sigmoid", 1), ("tanh", 1), ("exp", 1), ("gelu", 2), ("silu", 2)],
)
def test_what_is_derived_from_its_result_keeps_no_input(operator: str, kept: int) -> None:
    """As PyTorch's autograd has it: between two products, each in kernels of its own.

    ReLU is a kind of its own ("") and an operator.
    """
    net = Builder("apart", 1, 8)
    net.linear("a", 4)
    net.other("curved", operator) if operator else net.relu("curved")
    net.linear("b", 4)
    found = operators(eager(net.build()))
    use = memory_use(found, whole(found, 1), PLAIN)
    log = dict(zip(use.operators, use.series, strict=True))
    both = {name: log[name] - use.held_bytes for name in ("curved forward", "b forward")}
    of_map = 4 * 8 * 2  # bytes of each
    entry = 1 * 8 * 2
    assert both == {"curved forward": entry + 2 * of_map, "b forward": entry + (kept + 1) * of_map}


def chain() -> Operators:
    net = Builder("chain", 2, 4, 4)
    net.conv("a", 4, 1)
    net.relu("relu")
    net.conv("b", 8, 1)
    net.pool("pool", 4, 4)
    net.flatten("flatten")
    net.fc("c", 3)
    return operators(net.build())


def test_a_chain_by_hand() -> None:
    """Per row: input 64 B, a 128, b 256, pool 16, c 6; weights 8, 32, 24."""
    use = memory_use(chain(), whole(chain(), 1), PLAIN)
    assert use.held_bytes == 10 * 64
    log = dict(zip(use.operators, (x - 10 * 64 for x in use.series), strict=True))
    assert log == {
        "a forward": 64 + 128,
        "b forward": 64 + 128 + 256,
        "pool forward": 64 + 128 + 256 + 16,
        "c forward": 64 + 128 + 256 + 16 + 6,
        "c backward": 64 + 128 + 256 + 16 + 6 + 16,
        "c gradient": 64 + 128 + 256 + 16 + 6 + 16 + 4 * 24,
        "pool backward": 64 + 128 + 256 + 16 + 256 + 4 * 24,
        "b backward": 64 + 128 + 256 + 128 + 4 * 24,
        "b gradient": 64 + 128 + 256 + 128 + 4 * 24 + 4 * 32,
        "a gradient": 64 + 128 + 128 + 4 * 64,
        "a update": 4 * 64,
        "b update": 4 * 56,
        "c update": 4 * 24,
    }
    assert use.operator == "pool backward"
    assert use.peak_bytes == 10 * 64 + 64 + 128 + 256 + 16 + 256 + 4 * 24


def test_another_part_of_a_tensor_is_another_copy() -> None:
    """b reads all rows of half the channels where a wrote half the rows of all channels."""
    ops = chain()
    a, b, c = whole(ops, 1)
    split = [Shard(0.5, a.inputs, a.outputs), Shard(1, b.inputs / 2, b.outputs), c]
    use = memory_use(ops, split, PLAIN)
    log = dict(zip(use.operators, (x - use.held_bytes for x in use.series), strict=True))
    assert log["a forward"] == 32 + 64
    assert log["b forward"] == 32 + 64 + 64 + 256
    assert log["a gradient"] == 32 + 64 + 64 + 64 + 4 * (8 + 16 + 24)


def test_what_a_core_does_not_have_it_does_not_hold() -> None:
    ops = chain()
    use = memory_use(ops, [Shard(0, 2, 4), *whole(ops, 1)[1:]], PLAIN)
    assert not [name for name in use.operators if name.startswith("a ")]
    assert use.held_bytes == 10 * 56
    idle = memory_use(ops, [Shard(0, 1, 1)] * 3, PLAIN)
    assert (idle.series, idle.peak_bytes, idle.operator) == ((), 0, "")


def test_an_order_of_ones_own() -> None:
    ops = chain()
    late = [op for op in ops.schedule() if op.phase is not Phase.GRADIENT]
    late[-3:-3] = [op for op in ops.schedule() if op.phase is Phase.GRADIENT]
    use = memory_use(ops, whole(ops, 1), PLAIN, late)
    assert sorted(use.operators) == sorted(op.name for op in ops.schedule())
    log = dict(zip(use.operators, use.series, strict=True))
    kept = 16 + 6  # what the last layer's gradient still has to read
    assert log["pool backward"] == 10 * 64 + 64 + 128 + 256 + 16 + 256 + kept


def kept_by_blocks(s: int, d: int, heads: int, layers: int) -> int:
    """Elements a row that a transformer's blocks keep for backward, linear outputs with GELU raw.

    Norms' and adds' outputs, queries, keys and values, probabilities, context, 4 d hidden.
    """
    return layers * (s * 12 * d + heads * s * s)


@pytest.mark.parametrize(
    ("name", "features", "heads", "layers", "around", "vocabulary"),
    [
        # ids, embedding and its norm, transform and its norm; pooler and its two classes
        ("bert-base:seq=128", 768, 12, 12, 128 * (1 + 4 * 768) + 768 + 2, 30_522),
        # ids, embedding, last norm
        ("gpt2:seq=128", 768, 12, 12, 128 * (1 + 2 * 768), 50_257),
        ("gpt2-medium:seq=64", 1024, 16, 24, 64 * (1 + 2 * 1024), 50_257),
    ],
)
def test_transformers_by_closed_form(
    name: str, features: int, heads: int, layers: int, around: int, vocabulary: int
) -> None:
    """All is kept and the softmax over the words holds three of its maps: that is the peak."""
    network, rows = load_network(name), 64
    s = int(name.rpartition("=")[2])
    use = memory_use(operators(network), whole(operators(network), rows), PLAIN)
    kept = kept_by_blocks(s, features, heads, layers) + around + 3 * s * vocabulary
    assert use.held_bytes == pytest.approx(10 * network.parameters)
    assert use.peak_bytes == pytest.approx(10 * network.parameters + 2 * rows * kept)
    assert use.operator == "softmax backward"


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_are_held_once(name: str) -> None:
    network = load_network(name)
    ops = operators(network)
    held = sum(parameters(ops, v, shard) for v, shard in enumerate(whole(ops, 1)))
    assert held == pytest.approx(network.parameters)


def test_tied_gradients_are_held_from_their_first_use_on() -> None:
    net = Builder("tied", 1, 5)
    net.embedding("table", 1000, 8)
    net.linear("middle", 8)
    net.linear("head", 1000, shared="table")
    ops = operators(net.build())
    use = memory_use(ops, whole(ops, 1), PLAIN)
    log = dict(zip(use.operators, (x - use.held_bytes for x in use.series), strict=True))
    ids, maps, logits = 2 * 5, 2 * 40, 2 * 5000
    assert log["head backward"] == ids + 2 * maps + logits + maps
    assert log["head gradient"] == ids + 2 * maps + logits + maps + 4 * 8000
    assert log["middle backward"] == ids + 3 * maps + 4 * 8000
    assert log["table gradient"] == ids + maps + 4 * (8000 + 64)
    assert log["table update"] == 4 * (8000 + 64)


def test_tied_gradients_begin_with_whichever_use_comes_first() -> None:
    """Gradients in the order of the layers: the owner's own is the first of the two."""
    net = Builder("tied", 1, 5)
    net.embedding("table", 1000, 8)
    net.linear("middle", 8)
    net.linear("head", 1000, shared="table")
    ops = operators(net.build())
    order = [op for op in ops.schedule() if op.phase is not Phase.GRADIENT]
    order[-2:-2] = [op for node in ops.nodes for op in node.gradient]
    use = memory_use(ops, whole(ops, 1), PLAIN, order)
    log = dict(zip(use.operators, (x - use.held_bytes for x in use.series), strict=True))
    maps, logits, table = 2 * 40, 2 * 5000, 4 * 8000
    # of the maps: both linear layers' inputs, the gradient of the middle one's output, and logits
    assert log["middle gradient"] == 3 * maps + logits + table + 4 * 64
    assert log["head gradient"] == maps + logits + table + 4 * 64


def test_a_weights_gradient_is_there_before_that_of_its_bias() -> None:
    """Of eager PyTorch two kernels of a layer, of which the first reads the layer's input."""
    net = Builder("biased", 1, 5)
    net.embedding("table", 1000, 8)
    net.linear("last", 3, bias=True)
    ops = operators(eager(net.build()))
    use = memory_use(ops, whole(ops, 1), PLAIN)
    log = dict(zip(use.operators, (x - use.held_bytes for x in use.series), strict=True))
    ids, maps, errors, made = 2 * 5, 2 * 40, 2 * 15, 4 * (3 * 8 + 3)
    assert log["last gradient"] == ids + maps + maps + errors + made  # a map, and its gradient
    assert log["last bias gradient"] == ids + maps + errors + made


def test_resnet50_fits_where_it_was_run() -> None:
    """MLPerf ran 128 samples on each 8 GiB core of TPU v2; twice as many do not fit."""
    ops = operators(load_network("resnet50"))
    core = core_of(load_device("tpu-v2")[0])
    small, large = (memory_use(ops, whole(ops, rows), core) for rows in (128, 256))
    assert small.peak_bytes < core.hbm_capacity_bytes
    assert round(large.peak_bytes / 2**30, 2) == 8.56
    assert large.operator == "layer4.2.add backward"
    assert core.hbm_capacity_bytes == 8 * 2**30


def test_what_is_in_front_of_a_stage_works_on_the_part_that_was_received() -> None:
    """Of four a core has a quarter of the stream, and makes a quarter of the norm's output.

    The product reads all positions of the latter, gathered.
    """
    gpt = transformer(Transformer("g", 2, 64, 4, 96, 32, attention="fused"))
    at = [node.name for node in partition_graph(gpt)].index("layer1.attention.qkv")
    ops = operators(cut(gpt, (0, at)).networks[1])
    shards = whole(ops, 1)
    shards[0] = shards[0]._replace(outputs=shards[0].outputs / 4)
    use = memory_use(ops, shards, PLAIN, received=frozenset({0}))
    log = dict(zip(use.operators, use.series, strict=True))
    stream = 64 * 32 * 2
    assert log["layer1.norm1 forward"] - use.held_bytes == 2 * stream / 4
    product = log["layer1.attention.qkv forward"] - use.held_bytes
    assert product == 2 * stream / 4 + stream + 3 * stream / 4
