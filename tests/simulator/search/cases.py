"""Small random steps of one kind of device, for comparisons with all there is."""

from dataclasses import replace

from hypothesis import strategies as st

from hardware import Array, ChipLinks, Device, Group, Roofline, Topology
from simulator import Execution
from workloads import Builder, Network

EXECUTIONS = st.builds(
    Execution,
    st.just("deployed"),
    overlap=st.booleans(),
    whole_shards=st.booleans(),
    bucket_bytes=st.sampled_from((0.0, 1e5, 25.0 * 2**20)),
    update_order=st.sampled_from(("", "layers", "arrival")),
    mode=st.sampled_from(("training", "training", "inference")),
)
"""Of both modes: forward alone is a third."""
BATCHES = st.sampled_from((1, 3, 8, 64, 256))


@st.composite
def chains(draw: st.DrawFn, most: int = 3) -> Network:
    """Convolutions, then fully connected layers, ``most`` together; sometimes with a shortcut."""
    net = Builder("random", draw(st.sampled_from((1, 3, 8, 16))), 8, 8)
    convolutions = draw(st.integers(0, most - 1))
    width = draw(st.sampled_from((2, 8, 64)))
    for i in range(convolutions):
        net.conv(f"conv{i}", width, 3, 1, 1)
    if convolutions == 2 and most > 3 and draw(st.booleans()):
        net.add("add", "conv0", "conv1")
    net.flatten("flatten")
    for i in range(draw(st.integers(1, most - convolutions))):
        net.fc(f"fc{i}", draw(st.sampled_from((2, 10, 256))))
    return net.build()


@st.composite
def like_cores(draw: st.DrawFn, most: int = 4) -> Array:
    """1 to ``most`` cores, a power of two, on boards of one or two chips."""
    cores = draw(st.sampled_from([1 << i for i in range(most.bit_length()) if 1 << i <= most]))
    chips = draw(st.sampled_from((1, min(2, cores))))
    device = Device(
        "d",
        chips,
        1,
        chip_peak_flops_per_s=10.0 ** draw(st.integers(11, 14)),
        hbm_capacity_bytes=16e9,
        hbm_bytes_per_s=10.0 ** draw(st.integers(10, 12)),
        network_bytes_per_s=10.0 ** draw(st.integers(8, 11)),
        network_latency_s=draw(st.sampled_from((0.0, 2e-6))),
        links=ChipLinks(4, 10.0 ** draw(st.integers(8, 11)), 1e-6),
        roofline=Roofline(overhead_s=draw(st.sampled_from((0.0, 2e-6))), tile=draw(st.booleans())),
    )
    kind = draw(st.sampled_from(("switch", "ring", "torus", "fully_connected")))
    return Array("like", "", Group(((device, cores // chips),)), topology=Topology(kind))


@st.composite
def unlike_cores(draw: st.DrawFn) -> Array:
    """One or two cores of each of two kinds, on boards of one chip."""
    one = draw(like_cores(1))
    ((device, _),) = one.group.kinds
    other = replace(device, name="e", chip_peak_flops_per_s=2 * device.chip_peak_flops_per_s)
    other = replace(other, network_bytes_per_s=draw(st.sampled_from((1e8, 1e10))))
    many = draw(st.sampled_from((1, 2))), draw(st.sampled_from((1, 2)))
    group = Group(((device, many[0]), (other, many[1])))
    kind = draw(st.sampled_from(("switch", "tree")))
    return replace(one, name="unlike", group=group, topology=Topology(kind))


def one_channel() -> tuple[Network, Array, int, Execution]:
    """Layers of one and two channels on four cores, of which some have nothing of them."""
    net = Builder("one channel", 1, 8, 8)
    net.conv("conv0", 2, 3, 1, 1)
    net.conv("conv1", 2, 3, 1, 1)
    net.add("add", "conv0", "conv1")
    net.flatten("flatten")
    net.fc("fc", 256)
    device = Device(
        "d",
        2,
        1,
        1e11,
        16e9,
        1e10,
        1e9,
        network_latency_s=2e-6,
        links=ChipLinks(4, 1e8, 1e-6),
        roofline=Roofline(overhead_s=2e-6),
    )
    array = Array("like", "", Group(((device, 2),)), topology=Topology("switch"))
    execution = Execution("deployed", overlap=False, bucket_bytes=1e5)
    return net.build(), execution.planned(array), 64, execution
