"""Rows picked by ids, of models in neutral terms."""

import pytest

from tests.workloads.importers.models import layers, network, op, trained
from workloads import Network, NetworkError, Tensor, partition_graph
from workloads.importers.neutral import Constant


def test_an_embedding_is_a_row_for_every_id() -> None:
    found = network(
        op("embedding", "table x", (2, 7, 5), "words"),
        op("matmul", "words w", (2, 7, 3), "f"),
        constants=trained(table=(50, 5), w=(5, 3)),
        x=(2, 7),
        batch=2,
        whole=frozenset({"x"}),
    )
    words = found.layers[0]
    assert (words.kind, words.vocabulary, words.weights, words.macs) == ("embedding", 50, 250, 0)
    assert (words.input, words.output) == (Tensor(1, 7), Tensor(5, 7))
    assert found.input == Tensor(1, 7)


def test_a_head_that_uses_the_table_is_tied_to_it() -> None:
    found = network(
        op("embedding", "table x", (1, 7, 5), "words"),
        op("matmul", "words table", (1, 7, 50), "head", transposed=(1,)),
        constants=trained(table=(50, 5)),
        x=(1, 7),
        whole=frozenset({"x"}),
    )
    assert [node.tied for node in partition_graph(found)] == [None, 0]
    assert found.parameters == 250


@pytest.mark.parametrize(
    "table",
    [
        Constant((50, 5)),
        Constant((50, 5, 2), {"table": 500}),
    ],
)
def test_a_gather_from_what_is_no_trained_table_is_an_operator(table: Constant) -> None:
    found = layers(
        op("embedding", "table x", (1, 7, *table.shape[1:]), "rows"),
        op("other", "rows", (1, 7, 5), "picked", operator="pick"),
        op("matmul", "picked w", (1, 7, 3), "f"),
        constants={"table": table, **trained(w=(5, 3))},
        x=(1, 7),
        whole=frozenset({"x"}),
    )
    assert (found["rows"].kind, found["rows"].operator) == ("other", "gather")


def bag(ids: tuple[int, ...], *, batch: int, bags: int, offsets: tuple[int, ...] = ()) -> Network:
    """A bag of a table of 50 rows of 5, and a product behind it; ids are no first input."""
    reads = "table ids offsets" if offsets else "table ids"
    return network(
        op("embedding_bag", reads, (bags, 5), "bag"),
        op("matmul", "bag w", (bags, 3), "f"),
        constants=trained(table=(50, 5), w=(5, 3)),
        x=(batch, 2),
        inputs={"ids": ids, **({"offsets": offsets} if offsets else {})},
        batch=batch,
        whole=frozenset({"ids", "offsets"}),
    )


@pytest.mark.parametrize("batch", [1, 2, 5, 7])
def test_a_bag_reads_many_rows_and_writes_one(batch: int) -> None:
    """However ids are laid out, and whatever else has the size of the batch."""
    by_sample = bag((batch, 7), batch=batch, bags=batch)
    in_a_row = bag((7 * batch,), batch=batch, bags=batch, offsets=(batch,))
    for found in (by_sample, in_a_row):
        layer = found.layers[0]
        assert (layer.kind, layer.input, layer.output) == ("embedding", Tensor(1, 7), Tensor(5))
        assert (found.parameters, found.macs) == (250 + 15, 15)


def test_several_bags_for_a_sample_are_positions() -> None:
    found = bag((24,), batch=2, bags=6, offsets=(6,))
    assert (found.layers[0].input, found.layers[0].output) == (Tensor(1, 12), Tensor(5, 3))
    assert found.macs == 3 * 15
    with pytest.raises(NetworkError, match="its 3 bags are not those of 2 samples"):
        bag((12,), batch=2, bags=3, offsets=(3,))


def picked(
    axes: tuple[int, ...], shape: tuple[int, ...], ids: dict[str, tuple[int, ...]]
) -> Network:
    """A product on what ids pick of (2 samples, 5 rows, 6 features)."""
    made = (*shape[:-1], 3)
    return network(
        op("index", f"x {' '.join(ids)}", shape, "picked", axes=axes),
        op("matmul", "picked w", made, "f"),
        constants={name: Constant(of) for name, of in ids.items()} | trained(w=(shape[-1], 3)),
        x=(2, 5, 6),
        batch=2,
    )


def test_constant_ids_leave_samples_alone() -> None:
    assert picked((1,), (2, 3, 6), {"i": (3,)}).macs == 3 * 6 * 3
    pairs = picked((1, 2), (2, 15), {"i": (15,), "j": (15,)})
    assert (pairs.layers[0].output, pairs.macs) == (Tensor(15), 15 * 3)


def test_computed_ids_bring_their_samples_along() -> None:
    """Rows of all samples in a row, taken in the order that ids say: still of two samples."""
    found = network(
        op("reshape", "x", (10, 6), "rows"),
        op("reshape", "ids", (30,), "all"),
        op("index", "rows all", (30, 6), "taken", axes=(0,)),
        op("matmul", "taken w", (30, 3), "f"),
        constants=trained(w=(6, 3)),
        x=(2, 5, 6),
        inputs={"ids": (2, 5, 3)},
        batch=2,
        whole=frozenset({"ids"}),
    )
    assert found.macs == 15 * 6 * 3


def test_ids_apart_come_first_and_a_wrong_shape_is_said() -> None:
    apart = network(
        op("index", "x i j", (4, 5), "picked", axes=(0, 2)),
        op("matmul", "picked w", (4, 3), "f"),
        constants={"i": Constant((4,)), "j": Constant((4,)), **trained(w=(5, 3))},
        x=(1, 5, 6),
    )
    assert apart.layers[0].operator == "gather"
    with pytest.raises(NetworkError, match=r"its output should be \(2, 3, 6\)"):
        picked((1,), (2, 3, 7), {"i": (3,)})
