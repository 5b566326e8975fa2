"""Random networks, devices, arrays and plans for property tests."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from hardware import Array, Device, Group
from planners import Partition, Plan, Split
from planners.partition import WHOLE, Scale, legal, shrunk
from simulator import Execution, Timeline, simulate
from simulator.execution import Model
from workloads import Builder, Layer, Network, Tensor, partition_graph


@st.composite
def networks(draw: st.DrawFn, most: int = 7, joins: bool = True) -> Network:
    """Graphs of layers with arbitrary shapes; with ``joins``, adds of two earlier layers.

    Shapes need not fit where one layer reads another, as in the layer files
    of the AccPar authors' program, except that an add's two inputs are alike.
    """
    layers: list[Layer] = []
    tensors = st.builds(
        Tensor, st.integers(1, 9), st.sampled_from((1, 2, 4)), st.sampled_from((1, 2, 4))
    )
    for i in range(draw(st.integers(1, most))):
        sources = [layer.name for layer in layers] if joins else [lay.name for lay in layers[-1:]]
        source = draw(st.sampled_from(sources)) if sources else "input"
        if joins and len(layers) >= 2 and draw(st.integers(0, 2)) == 0:
            other = draw(st.sampled_from([name for name in sources if name != source]))
            shape = draw(tensors)
            layers.append(Layer(f"add{i}", "add", (source, other), shape, shape))
        elif draw(st.booleans()):
            kernel = draw(st.sampled_from((1, 3)))
            layers.append(
                Layer(f"conv{i}", "conv", (source,), draw(tensors), draw(tensors), kernel)
            )
        else:
            into, out = Tensor(draw(st.integers(1, 40))), Tensor(draw(st.integers(1, 40)))
            layers.append(Layer(f"fc{i}", "fc", (source,), into, out))
        if draw(st.integers(0, 4)) == 0:
            shape = draw(tensors)
            layers.append(Layer(f"relu{i}", "relu", (layers[-1].name,), shape, shape))
    return Network("random", Tensor(3), tuple(layers))


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
    """Any legal types and shares at every split; halves that may be alike sometimes are."""
    graph = partition_graph(network)
    names = tuple(node.name for node in graph)
    shares = st.one_of(st.just(0.5), st.sampled_from((0.0, 1.0, 0.25)), st.floats(0.0, 1.0))

    def split(group: Group, scales: Sequence[Scale]) -> Split | None:
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
    return Plan("random", network.name, batch, "time", names, root)


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
