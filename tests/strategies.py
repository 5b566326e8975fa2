"""Random networks, devices, arrays and plans for property tests."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from hardware import Array, Device, Group, Model
from planners import Partition, Plan, Split, Update
from planners.partition import WHOLE, Shard, legal
from planners.plan.updates import updates_of
from simulator import Execution, Timeline, simulate
from tests.planners.slow_sizes import shrunk
from workloads import Builder, Layer, Network, Sides, Tensor, partition_graph

SMALL = st.sampled_from((1, 2, 4))
UPDATES = st.sampled_from((Update.REPLICATED, Update.SHARDED, Update.SHARDED))
TENSORS = st.builds(Tensor, st.integers(1, 9), SMALL, SMALL)


WEIGHTED = ("conv", "conv", "fc", "fc", "grouped", "embedding", "lstm", "gru")
JOINED = ("add", "mul", "concat", "other", "matmul")
ANY = (*WEIGHTED, *JOINED, "transposed")
KERNELS: tuple[Sides, ...] = (1, 3, (1, 3))
KERNEL = st.sampled_from(KERNELS)


@st.composite
def networks(
    draw: st.DrawFn, most: int = 7, joins: bool = True, kinds: Sequence[str] = ANY
) -> Network:
    """Graphs of layers of ``kinds`` with arbitrary shapes; a chain without ``joins``.

    Shapes need not fit where one layer reads another, as in the layer files
    of the AccPar authors' program, except within a layer.
    """
    layers: list[Layer] = []
    for i in range(draw(st.integers(1, most))):
        sources = [layer.name for layer in layers] if joins else [lay.name for lay in layers[-1:]]
        source = draw(st.sampled_from(sources)) if sources else "input"
        if joins and len(layers) >= 2 and draw(st.integers(0, 2)) == 0:
            other = draw(st.sampled_from([name for name in sources if name != source]))
            layers.append(draw(joined(i, kinds, source, other)))
        else:
            layers.append(draw(weighted(i, kinds, source, layers)))
        if draw(st.integers(0, 4)) == 0:
            shape = draw(TENSORS)
            layers.append(Layer(f"relu{i}", "relu", (layers[-1].name,), shape, shape))
    return Network("random", Tensor(3), tuple(layers))


@st.composite
def weighted(
    draw: st.DrawFn, i: int, kinds: Sequence[str], source: str, layers: list[Layer]
) -> Layer:
    """A weighted layer of any kind; an fc may share the weights of an embedding before it."""
    kind = draw(st.sampled_from([kind for kind in WEIGHTED if kind in kinds]))
    name, rows = f"{kind}{i}", draw(SMALL)
    if kind == "conv":
        transposed, kernel = "transposed" in kinds and draw(st.booleans()), draw(KERNEL)
        shapes = draw(TENSORS), draw(TENSORS)
        return Layer(name, "conv", (source,), *shapes, kernel, transposed=transposed)
    if kind == "grouped":
        groups = draw(st.sampled_from((2, 3, 8)))
        into, out = (Tensor(groups * draw(st.integers(1, 3)), draw(SMALL)) for _ in range(2))
        return Layer(name, "conv", (source,), into, out, 3, groups=groups)
    if kind == "embedding":
        out = Tensor(draw(st.integers(1, 9)), rows)
        return Layer(
            name, kind, (source,), Tensor(1, rows), out, vocabulary=draw(st.integers(1, 40))
        )
    if kind in ("lstm", "gru"):
        directions = draw(st.integers(1, 2))
        out = Tensor(directions * draw(st.integers(1, 5)), rows)
        into = Tensor(draw(st.integers(1, 9)), rows)
        return Layer(name, kind, (source,), into, out, directions=directions)
    tables = [layer for layer in layers if layer.kind == "embedding"]
    if len(tables) > 0 and draw(st.booleans()):
        owner = tables[draw(st.integers(0, len(tables) - 1))]
        into, out = Tensor(owner.output.channels, rows), Tensor(owner.vocabulary, rows)
        return Layer(name, kind, (source,), into, out, shared=owner.name)
    into, out = (Tensor(draw(st.integers(1, 40)), rows) for _ in range(2))
    return Layer(name, kind, (source,), into, out)


@st.composite
def joined(draw: st.DrawFn, i: int, kinds: Sequence[str], *sources: str) -> Layer:
    """A join of two tensors, or their product in heads, some of which may share the second."""
    kind = draw(st.sampled_from([kind for kind in JOINED if kind in kinds]))
    one, two, name = draw(TENSORS), draw(TENSORS), f"{kind}{i}"
    if kind == "matmul":
        k, n, rows = (draw(st.integers(1, 5)) for _ in range(3))
        second, groups = draw(SMALL), draw(SMALL)
        heads = second * groups
        left, right, out = Tensor(heads * k, rows), Tensor(second * k, n), Tensor(heads * n, rows)
        return Layer(name, kind, sources, left, out, groups=heads, others=(right,))
    if kind in ("add", "mul"):
        return Layer(name, kind, sources, one, one)
    if kind == "concat":
        two = Tensor(two.channels, one.height, one.width)
        whole = Tensor(one.channels + two.channels, one.height, one.width)
        return Layer(name, kind, sources, one, whole, others=(two,))
    return Layer(name, kind, sources, one, draw(TENSORS), others=(two,), operator="gather")


@st.composite
def convolutional_networks(draw: st.DrawFn, most: int = 14) -> Network:
    """Graphs whose shapes fit: products, norms, activations, pools and adds in any order.

    Only products read the network's input.
    """
    net = Builder("random", draw(st.integers(1, 9)), 8, 8)
    shapes = {"input": net.input}
    for i in range(draw(st.integers(1, most))):
        source = draw(st.sampled_from(list(shapes)))
        shape = shapes[source]
        alike = [n for n, s in shapes.items() if s == shape and "input" not in (n, source)]
        kinds = ["batch_norm", "relu", *["pool"] * (shape.area > 1), *["add"] * bool(alike)]
        kind = draw(st.sampled_from(["conv", *kinds] if source != "input" else ["conv"]))
        name = f"{kind}{i}"
        if kind == "conv":
            shape = Tensor(draw(st.integers(1, 9)), shape.height, shape.width)
            net.conv(name, shape.channels, 3, 1, 1, after=source)
        elif kind == "pool":
            shape = Tensor(shape.channels, shape.height // 2, shape.width // 2)
            net.pool(name, 2, 2, average=draw(st.booleans()), after=source)
        elif kind == "add":
            net.add(name, source, draw(st.sampled_from(alike)))
        else:
            getattr(net, kind)(name, source)
        shapes[name] = shape
    net.fc("fc", 10, bias=True, after=net.flatten("flatten", draw(st.sampled_from(list(shapes)))))
    return net.build()


@st.composite
def devices(draw: st.DrawFn) -> Device:
    """Boards of 1 to 4 cores with peaks and bandwidths of one order of magnitude."""
    return Device(
        name=draw(st.sampled_from(("a", "b", "c"))),
        chips=draw(st.integers(1, 2)),
        cores_per_chip=draw(st.integers(1, 2)),
        chip_peak_flops_per_s=draw(st.floats(1e6, 1e8)),
        hbm_capacity_bytes=1e9,
        hbm_bytes_per_s=1e9,
        network_bytes_per_s=draw(st.floats(1e5, 1e7)),
    )


@st.composite
def arrays(draw: st.DrawFn, most: int = 6, kinds: int = 3) -> Array:
    """One to ``kinds`` kinds of up to ``most`` boards each; counts need not be even."""
    chosen = draw(
        st.lists(devices(), min_size=1, max_size=kinds, unique_by=lambda device: device.name)
    )
    return Array("random", "", Group(tuple((d, draw(st.integers(1, most))) for d in chosen)))


@st.composite
def plans(draw: st.DrawFn, network: Network, array: Array, batch: int) -> Plan:
    """Any legal types and shares at every split; halves that may be alike sometimes are.

    Updates are replicated in half of them, else shared out for any of the nodes.
    """
    graph = partition_graph(network)
    names = tuple(node.name for node in graph)
    shares = st.one_of(
        st.just(0.5), st.sampled_from((0.0, 1.0, 0.25)), st.floats(0.0, 1.0, allow_subnormal=False)
    )

    def split(group: Group, scales: Sequence[Shard]) -> Split | None:
        if group.size == 1:
            return None
        first, second = group.halves()
        alike = first == second and draw(st.booleans())
        partitions = tuple(
            Partition(draw(st.sampled_from(legal(node, scale))), 0.5 if alike else draw(shares))
            for node, scale in zip(graph, scales, strict=True)
        )
        kept = shrunk(scales, partitions)
        halves = (
            [split(first, kept[0])] if alike else [split(first, kept[0]), split(second, kept[1])]
        )
        return Split(partitions, 0.0, tuple(halves))

    root = split(array.group, (WHOLE,) * len(graph))
    updates = draw(
        st.one_of(st.just([]), st.lists(UPDATES, min_size=len(names), max_size=len(names)))
    )
    return Plan("random", network.name, batch, "time", names, root, updates=updates_of(updates))


@st.composite
def timelines(draw: st.DrawFn, model: Model | None = None, folded: bool | None = None) -> Timeline:
    """A step of a small random network, array and plan under either model."""
    models: tuple[Model, ...] = (model,) if model else ("published", "deployed")
    execution = Execution(
        draw(st.sampled_from(models)),
        overlap=draw(st.booleans()),
        whole_shards=draw(st.booleans()),
    )
    network, array = draw(networks(4)), draw(arrays(3, 2))
    plan = draw(plans(network, execution.planned(array), 12))
    folded = draw(st.booleans()) if folded is None else folded
    return simulate(network, plan, array, execution, folded=folded)


def port_bytes_per_s(group: Group) -> float:
    """The published model's link of a group: one accelerator's, the slowest kind's."""
    return min(device.network_bytes_per_s for device, _ in group.kinds)
