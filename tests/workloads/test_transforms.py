"""Transformed networks against numpy: spectra multiplied by hand, zeros inserted by hand."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hardware import Device, load_device
from planners.partition import WHOLE, Shard
from planners.sizing import sizing
from simulator.cost.roofline import core_of, flops, traffic
from simulator.cost.training_operators import operators
from tests.planners.slow_sizes import sizes
from tests.simulator.shapes import unsplit
from workloads import Builder, Layer, Network, NetworkError, Tensor, load_network, partition_graph
from workloads.transforms import (
    apart,
    circulant,
    eager,
    inserted_products,
    transformed,
    useful_products,
    with_zeros,
)

Complex = NDArray[np.complex128]


class Counting:
    """A block-circulant product by radix-2 transforms, which counts what it does."""

    def __init__(self) -> None:
        self.operations = 0

    def transform(self, values: Complex) -> Complex:
        size = len(values)
        if size == 1:
            return values
        even, odd = self.transform(values[::2]), self.transform(values[1::2])
        turned = np.exp(-2j * np.pi * np.arange(size // 2) / size) * odd
        self.operations += (size // 2) * (6 + 2 + 2)  # a complex product and two sums
        return np.concatenate([even + turned, even - turned])

    def back(self, spectrum: Complex) -> Complex:
        whole = self.transform(spectrum.conj()).conj() / len(spectrum)
        return whole.astype(np.complex128)

    def product(
        self, blocks: NDArray[np.float64], vector: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """``blocks`` has the first column of each block: outputs, inputs, numbers."""
        rows, columns, size = blocks.shape
        parts = [
            self.transform(vector[i * size : (i + 1) * size].astype(complex))
            for i in range(columns)
        ]
        half = size // 2 + 1
        out = []
        for row in range(rows):
            total = np.zeros(half, dtype=complex)
            for column in range(columns):
                total += np.fft.fft(blocks[row, column])[:half] * parts[column][:half]
                self.operations += half * (6 + 2)
            whole = np.concatenate([total, np.conj(total[1 : size - half + 1][::-1])])
            out.append(self.back(whole).real)
        return np.concatenate(out)


def dense(blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """The matrix that the blocks stand for: column j of a block is its first turned j times."""
    return np.block(
        [[np.array([np.roll(b, j) for j in range(len(b))]).T for b in row] for row in blocks]
    )


def fc(ins: int, outs: int, block: int = 1) -> Layer:
    return Layer("f", "fc", ("input",), Tensor(ins), Tensor(outs), block=block)


@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from([2, 4, 8, 16]))
def test_a_layer_has_the_operations_and_weights_of_a_numpy_implementation(
    ins: int, outs: int, block: int
) -> None:
    draw = np.random.default_rng(ins * 100 + outs * 10 + block)
    blocks, vector = draw.normal(size=(outs, ins, block)), draw.normal(size=ins * block)
    counting = Counting()
    found = counting.product(blocks, vector)
    assert found == pytest.approx(dense(blocks) @ vector)
    layer = fc(ins * block, outs * block, block)
    assert 2 * layer.macs == counting.operations
    assert layer.weights == blocks.size == dense(blocks).size // block


@settings(max_examples=20)
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([2, 4]),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_a_convolution_transforms_each_position_once(
    ins: int, outs: int, block: int, side: int, kernel: int
) -> None:
    """Position by position: transforms of all inputs, products at each output and tap."""
    out_side = side
    counting = Counting()
    for _ in range(side * side * ins):
        counting.transform(np.zeros(block, dtype=complex))
    for _ in range(out_side * out_side):
        for _ in range(kernel * kernel * ins * outs):
            counting.operations += (block // 2 + 1) * 8
        for _ in range(outs):
            counting.back(np.zeros(block, dtype=complex))
    layer = Layer(
        "c",
        "conv",
        ("input",),
        Tensor(ins * block, side, side),
        Tensor(outs * block, out_side, out_side),
        kernel,
        block=block,
    )
    assert 2 * layer.macs == counting.operations
    assert layer.weights == ins * outs * block * kernel * kernel


@pytest.mark.parametrize(("kind", "gates"), [("lstm", 4), ("gru", 3)])
@pytest.mark.parametrize("directions", [1, 2])
def test_a_cell_has_a_product_for_every_step_and_direction(
    kind: str, gates: int, directions: int
) -> None:
    block, into, hidden, steps = 4, 8, 16, 3
    counting, weights = Counting(), 0
    draw = np.random.default_rng(7)
    for _ in range(directions):
        blocks = draw.normal(size=(gates * hidden // block, (into + hidden) // block, block))
        weights += blocks.size
        for _ in range(steps):
            counting.product(blocks, draw.normal(size=into + hidden))
    shapes = Tensor(into, steps), Tensor(directions * hidden, steps)
    layer = Layer("l", kind, ("input",), *shapes, directions=directions, block=block)
    assert 2 * layer.macs == counting.operations
    assert layer.weights == weights


def test_the_docstrings_operations() -> None:
    assert 2 * fc(512, 512, 64).macs == 16 * 1920 + 64 * 33 * 8 == 47616


def test_a_step_reads_moves_and_keeps_a_block_th_of_the_weights() -> None:
    """Bytes of weights, gradients and updates are 1/b, those of activations as they were."""
    builder = Builder("n", 64, 1)
    builder.fc("f", 128)
    network = builder.build()
    changed = circulant(network, 16)
    core = replace(core_of(Device("d", 1, 1, 1e12, 1e9, 1e9, 1e9)), tile=False)
    shard = Shard(10, 64, 128, 1)
    plain, blocks = (operators(n).nodes[0] for n in (network, changed))
    maps = 2 * 10 * (64 + 128)
    assert traffic(plain.forward[0], shard, core) == maps + 2 * 64 * 128
    assert traffic(blocks.forward[0], shard, core) == maps + 2 * 64 * 128 / 16
    assert traffic(blocks.gradient[0], shard, core) == maps + 4 * 64 * 128 / 16
    assert traffic(blocks.update[0], shard, core) == 28 * 64 * 128 / 16
    assert flops(blocks.forward[0], shard) == 10 * 2 * changed.layers[0].macs


def test_planners_see_the_same_weights_and_products() -> None:
    """Gradients on the wires are 1/b, FLOPs what is left; one by one and all at once."""
    network = load_network("vgg11")
    for block in (1, 16):
        own = network if block == 1 else circulant(network, block)
        graph = partition_graph(own)
        shards = np.array([[WHOLE] * len(graph)], dtype=np.float64)
        many = sizing(graph).of(8, shards, fused=True)
        for v, node in enumerate(graph):
            one = sizes(node, 8, WHOLE, fused=True)
            layer = next(x for x in own.layers if x.name == node.name)
            assert one.weights == many.weights[0, v] == layer.weights
            assert one.flops[0] == pytest.approx(2 * 8 * layer.macs)
            assert [f[0, v] for f in many.flops] == list(one.flops)


def test_what_has_other_channels_stays_dense_and_is_said() -> None:
    found = transformed(load_network("vgg11"), ["circulant=64"])
    assert found.name == "vgg11, circulant=64"
    assert "dense: conv1, fc8" in found.notes[-1] or "dense: conv1" in found.notes[-1]
    assert {layer.block for layer in found.layers if layer.weighted} == {1, 64}
    tied = transformed(load_network("bert-base"), ["circulant=8"])
    shared = {layer.shared: layer.block for layer in tied.layers if layer.shared}
    assert all(block == 1 for block in shared.values())


def test_spectra_are_not_padded_to_a_matrix_unit() -> None:
    network = circulant(load_network("alexnet"), 64)
    op = next(o for o in operators(network).schedule() if o.block > 1)
    core = core_of(load_device("tpu-v3", ["roofline.pad_matrix_unit=128"])[0])
    assert flops(op, Shard(1, 64, 64, 1), core.pad_matrix_unit) == flops(op, Shard(1, 64, 64, 1))


@st.composite
def transposed(draw: st.DrawFn) -> Layer:
    kernel, stride = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    side, dilation = draw(st.integers(1, 5)), draw(st.integers(1, 2))
    reach = dilation * (kernel - 1)
    padding = draw(st.integers(0, reach))
    out = (side - 1) * stride - 2 * padding + reach + 1 + draw(st.integers(0, stride - 1))
    groups = draw(st.sampled_from([1, 2]))
    shapes = Tensor(2, side, side), Tensor(4, max(out, 1), max(out, 1))
    return Layer(
        "t", "conv", ("input",), *shapes, kernel, stride, padding,
        groups=groups, dilation=dilation, transposed=True,
    )  # fmt: skip


@given(transposed())
def test_useful_products_are_those_of_elements_that_are_no_zeros(layer: Layer) -> None:
    """The input with zeros inserted, element by element under the kernel."""
    (kernel, _), (stride, _), (padding, _), (dilation, _) = (
        (v, v) if isinstance(v, int) else v
        for v in (layer.kernel, layer.stride, layer.padding, layer.dilation)
    )
    useful = everything = 0
    inserted = {i * stride for i in range(layer.input.height)}
    for y, x in product(range(layer.output.height), repeat=2):
        for t, u in product(range(kernel), repeat=2):
            everything += 1
            at = y + padding - t * dilation, x + padding - u * dilation
            useful += at[0] in inserted and at[1] in inserted
    pair = 2 * 4 // layer.groups
    assert useful_products(layer) == useful * pair
    assert inserted_products(layer) == everything * pair


@given(transposed())
def test_zeros_make_a_plain_convolution_of_the_same_output(layer: Layer) -> None:
    network = Network("n", layer.input, (layer,))
    found = with_zeros(network)
    zeros, conv = found.layers
    assert (zeros.operator, conv.transposed, conv.output) == ("insert_zeros", False, layer.output)
    assert conv.macs == inserted_products(layer)
    assert conv.weights == layer.weights
    assert useful_products(layer) <= layer.macs
    reach = (layer.dilation if isinstance(layer.dilation, int) else 1) * (
        (layer.kernel if isinstance(layer.kernel, int) else 1) - 1
    )
    assert conv.input.height - reach == conv.output.height


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("circulant=3", "a block is a power of two from 2 to 4096"),
        ("circulant=", "a block is a power of two"),
        ("circulant=8192", "a block is a power of two"),
        ("circular=8", "circulant=B"),
        ("zeros=1", "circulant=B"),
        ("zeros", "has no transposed convolution"),
        ("circulant=4096", "no layer's channels are multiples of 4096"),
    ],
)
def test_mistakes(text: str, said: str) -> None:
    with pytest.raises(NetworkError, match=said):
        transformed(load_network("lenet"), [text])


@pytest.mark.parametrize("block", [3, 0, 5])
def test_a_layer_with_impossible_blocks(block: int) -> None:
    with pytest.raises(NetworkError, match="blocks of"):
        Network("n", Tensor(64), (fc(64, 64, block),))


def test_a_gpt_block() -> None:
    network = apart(load_network("gpt3-125m:layers=1:compiled=yes"))
    alone = {x.name for x in network.layers if x.apart}
    # norms are operators of their own anyway; dropout in front of an add is done by the add
    assert alone >= {"layer0.attention.dropout", "layer0.gelu"}
    assert not alone & {"layer0.dropout1", "layer0.dropout2", "dropout", "positions"}
    assert network.layers[-1].operator == "cross_entropy"
    assert network == load_network("gpt3-125m:layers=1:compiled=yes").__class__(
        network.name, network.input, network.layers, network.description
    )


def test_a_llama_block() -> None:
    """SwiGLU is one kernel; rotary positions are another, in front of attention's products."""
    network = apart(load_network("llama3-8b:layers=1:attention=fused"))
    alone = {x.name for x in network.layers if x.apart}
    assert {"layer0.query.rotary", "layer0.key.rotary"} <= alone
    assert "layer0.silu" not in alone


def test_eager_runs_each_element_wise_operator_by_itself() -> None:
    """In passing they move nothing; apart each reads all and writes all."""
    net = Builder("scaled", 8, 4)
    net.conv("first", 8, kernel=1)
    net.other("scale", "scale")
    net.other("shift", "sub")
    net.conv("second", 8, kernel=1)
    plain = net.build()
    alone = eager(plain)
    assert {layer.name for layer in alone.layers if layer.apart} == {"scale", "shift"}
    assert {layer.name for layer in apart(plain).layers if layer.apart} == {"shift"}
    core = core_of(load_device("v100-16")[0])

    def moved(network: Network) -> float:
        """Forward, of one sample."""
        made = operators(network)
        found = (one for one in made.schedule() if one.phase == "forward")
        return sum(traffic(one, unsplit(made.graph[one.node], 1), core) for one in found)

    assert moved(alone) - moved(plain) == 2 * 2 * 8 * 4 * core.bytes.activation


def test_nothing_else_changes() -> None:
    network = load_network("llama3-8b:layers=2")
    changed = apart(network)
    assert changed.parameters == network.parameters
    assert changed.macs == network.macs
    assert [x.output for x in changed.layers] == [x.output for x in network.layers]
    assert apart(changed) == changed


def test_what_says_that_it_is_not_compiled_is_not_compiled_by_a_transform() -> None:
    with pytest.raises(NetworkError, match=r"says compiled=no; take it with compiled=yes"):
        transformed(load_network("gpt2:layers=1:compiled=no"), ["compiled"])
    plain = load_network("gpt2:layers=1")
    assert transformed(plain, ["compiled"]).layers == plain.layers


def test_an_eager_batch_norm_reads_twice_and_writes() -> None:
    """A pass for the statistics, then one to normalise; compiled, what reads it does the latter."""
    network = load_network("resnet18")
    for one, steps in ((network, 1), (eager(network), 2)):
        norm = next(layer for layer in one.layers if "bn" in layer.name)
        made = norm.type.forward(norm)
        assert len(made) == steps
        assert made[0].what == "statistics"
        assert one.parameters == network.parameters
