"""Maps of operators by hand: of which of a node's channels they are, and what part is read."""

import pytest

from planners.partition import II, III, I, Shard
from simulator.cost.operands import Operands
from simulator.cost.operators import Map, Minor
from simulator.cost.roofline import map_bytes, map_channels
from tests.simulator.shapes import PLAIN
from workloads import Builder, Layer, Network, Tensor
from workloads.layer_types import Kept

POSITIONS, HEADS = Minor.POSITIONS, Minor.HEADS


def of(network: Network) -> tuple[Operands, dict[str, Layer]]:
    return Operands(network), {layer.name: layer for layer in network.layers}


def chain() -> Network:
    """pool, conv 3 to 8 channels, norm, pool, conv 8 to 6 channels."""
    net = Builder("chain", 3, 8, 8)
    net.pool("early", 2, 2)
    net.conv("one", 8, 1)
    net.batch_norm("norm")
    net.pool("pool", 2, 2)
    net.conv("two", 6, 1)
    return net.build()


def test_a_product_reads_its_nodes_inputs_and_writes_its_outputs() -> None:
    maps, layers = of(chain())
    assert maps.input(layers["one"]) == Map("early", II, 1.0, 16)
    assert maps.output(layers["one"], "one") == Map("one", III, 1.0, 16)
    assert maps.input(layers["two"]) == Map("pool", II, 1.0, 4)


def test_operators_behind_a_product_are_split_as_its_output() -> None:
    maps, layers = of(chain())
    assert maps.input(layers["norm"]) == Map("one", III, 1.0, 16)
    assert maps.input(layers["pool"]) == Map("one", III, 1.0, 16)  # through the norm
    assert maps.output(layers["pool"], "pool") == Map("pool", III, 1.0, 4)


def test_operators_in_front_of_the_first_product_are_split_as_its_input() -> None:
    maps, layers = of(chain())
    assert maps.input(layers["early"]) == Map("input", II, 1.0, 64)
    assert maps.output(layers["early"], "early") == Map("early", II, 1.0, 16)


def test_gradients_have_the_shapes_and_sides_of_what_they_belong_to() -> None:
    maps, layers = of(chain())
    assert maps.input_gradients(layers["two"], [0]) == [Map("gradient of two's input", II, 1.0, 4)]
    assert maps.received(layers["pool"]) == [Map("gradient of two's input", III, 1.0, 4)]
    assert maps.product_gradient(layers["one"]) == Map("gradient of pool's input", III, 1.0, 16)
    assert maps.input_gradients(layers["early"], [0]) == []  # nobody in front is trained
    assert maps.input_gradients(layers["one"], [0]) == []


def test_what_a_norm_rides_on_is_read_again() -> None:
    maps, layers = of(chain())
    assert maps.changed(layers["one"]) == [Map("one", III, 1.0, 16)]
    assert maps.changed(layers["two"]) == []
    assert maps.changed(layers["pool"]) == []


def test_pairs_are_counted_inside_groups() -> None:
    net = Builder("grouped", 8, 4, 4)
    net.conv("all", 6, 3)
    net.conv("groups", 6, 1, groups=3)
    maps, _ = of(net.build())
    assert [maps.pairs(index) for index in (0, 1)] == [48, 6 * 6 / 3]


def test_a_slice_of_channels_and_a_slice_of_positions() -> None:
    """The tensor that was written is held whole; a reader uses its share of it."""
    net = Builder("slices", 4, 10)
    fused = net.linear("fused", 12)
    columns = net.other("columns", "slice", Tensor(3, 10), fused)
    rows = net.other("rows", "slice", Tensor(12, 2), fused)
    net.linear("one", 5, after=columns)
    net.linear("two", 5, after=rows)
    maps, layers = of(net.build())
    one, two = maps.input(layers["one"]), maps.input(layers["two"])
    assert one == Map("fused", II, 4.0, 10, 0.25, POSITIONS)  # 12 channels for 3 inputs
    assert two == Map("fused", II, 1.0, 10, 0.2, POSITIONS)
    whole = 7 * 12 * 10 * 2
    assert map_bytes(one, Shard(7, 3, 5), PLAIN) == whole
    assert map_bytes(two, Shard(7, 12, 5), PLAIN) == whole


def test_ids_are_split_by_rows_alone() -> None:
    net = Builder("words", 1, 5)
    net.embedding("table", 100, 8)
    maps, layers = of(net.build())
    ids = maps.input(layers["table"])
    assert ids == Map("input", I, 1.0, 5, minor=POSITIONS)
    for shard in (Shard(3, 100, 8), Shard(3, 50, 8), Shard(3, 100, 1)):
        assert map_channels(ids, shard) == 1
        assert map_bytes(ids, shard, PLAIN) == 3 * 5 * 2


def test_operands_of_a_product_of_maps() -> None:
    """Four heads of 3 share two heads of keys: 5 positions, 2 x 2 x 5 of them in each group."""
    net = Builder("grouped", 8, 5)
    query, key = net.linear("query", 12), net.linear("key", 6, after="input")
    net.matmul("scores", query, key, 20, groups=4)
    maps, layers = of(net.build())
    scores = layers["scores"]
    for place, elements in ((0, 12 * 5), (1, 6 * 5)):
        whole = Shard(1, 3, 5, 2)  # two groups of 3 inputs and 5 outputs
        read, written = maps.input(scores, place), maps.input_gradients(scores, [place])[0]
        assert read.along is written.along is II
        assert map_channels(read, whole) * read.area == pytest.approx(elements)
        assert map_channels(written, whole) * written.area == pytest.approx(elements)
        assert read.minor is POSITIONS  # as it was written
        half = whole._replace(groups=1)
        assert map_channels(read, half) == map_channels(read, whole) / 2
    assert maps.output(scores, "scores").minor is HEADS


@pytest.mark.parametrize(("kind", "gates"), [("lstm", 4), ("gru", 3)])
def test_a_cell_keeps_its_gates_and_one_more_state(kind: str, gates: int) -> None:
    """One column of the node for each gate, so a unit's gates stay together."""
    net = Builder("cell", 6, 5)
    net.cell(kind, "cell", 7, directions=2)
    maps, layers = of(net.build())
    cell, whole = layers["cell"], Shard(1, 6 + 7, gates * 14)
    parts = cell.type.forward(cell)[0].writes[-1], cell.type.gradient(cell)[0].reads[-1]
    kept, errors = (maps.kept(cell, part) for part in parts if isinstance(part, Kept))
    assert (kept.along, errors.along) == (III, III)
    assert map_channels(kept, whole) * kept.area == pytest.approx((gates + 1) * 14 * 5)
    assert map_channels(errors, whole) * errors.area == pytest.approx(gates * 14 * 5)
    assert kept.tensor == "cell's gates"
    assert errors.tensor == "gradient of cell's gates"


def test_gradients_of_parts_come_in_their_own_shapes() -> None:
    net = Builder("slices", 4, 10)
    fused = net.linear("fused", 12)
    for name, channels in (("left", 4), ("right", 8)):
        part = net.other(name, "slice", Tensor(channels, 10), fused)
        net.linear(f"after {name}", 2, after=part)
    maps, layers = of(net.build())
    parts = maps.received(layers["fused"])
    whole = Shard(1, 4, 12)
    assert [map_channels(part, whole) * part.area for part in parts] == pytest.approx([40, 80])
    assert all(part.along is III for part in parts)
    assert maps.product_gradient(layers["fused"]) == Map(
        "gradient of fused", III, 1.0, 10, minor=POSITIONS
    )
