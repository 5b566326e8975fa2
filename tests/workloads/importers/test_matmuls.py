"""Matrix products of models in neutral terms: who is a weight, what is a group, what is a row."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.importers.models import layers, network, op, trained
from workloads import Network, NetworkError, Tensor

SIDES = st.integers(1, 5)


@given(st.lists(SIDES, max_size=2), SIDES, SIDES, st.integers(1, 3))
def test_a_linear_layer_on_every_position(rows: list[int], into: int, out: int, batch: int) -> None:
    """Whatever stands between samples and features is positions."""
    found = layers(
        op("matmul", "x w", (batch, *rows, out), "f"),
        constants=trained(w=(into, out)),
        x=(batch, *rows, into),
        batch=batch,
    )["f"]
    assert (found.kind, found.weights, found.bias) == ("fc", into * out, False)
    assert found.macs == prod(rows) * into * out
    assert (found.input.channels, found.output.channels) == (into, out)
    assert found.input.area == found.output.area == prod(rows)


def test_a_bias_is_the_products_third_operand_or_an_addition_behind_it() -> None:
    constants = trained(w=(4, 6), b=(6,), v=(6, 3), c=(3,))
    found = layers(
        op("matmul", "x w b", (1, 6), "f"),
        op("matmul", "f v", (1, 3), "g"),
        op("add", "g c", (1, 3), "biased"),
        op("relu", "biased", (1, 3), "r"),
        constants=constants,
        x=(1, 4),
    )
    assert list(found) == ["f", "g", "r"]
    assert [layer.bias for layer in found.values()] == [True, True, False]
    assert [layer.parameters for layer in found.values()] == [30, 21, 0]


@pytest.mark.parametrize(("inputs", "shape"), [("g c", (5,)), ("f c", (3,)), ("g g", (3,))])
def test_what_is_added_elsewhere_is_no_bias(inputs: str, shape: tuple[int, ...]) -> None:
    """Another length, another tensor than the last product's, or no constant at all."""
    constants = trained(w=(4, 3), v=(3, 3), c=shape)
    found = layers(
        op("matmul", "x w", (1, 3), "f"),
        op("matmul", "f v", (1, 3), "g"),
        op("add", inputs, (1, 3), "sum"),
        constants=constants,
        x=(1, 4),
    )
    assert not found["g"].bias
    assert (found["sum"].kind, found["sum"].operator) == ("other", "add")


@pytest.mark.parametrize(
    ("inputs", "turned", "x", "w"),
    [
        ("x w", (), (2, 5, 4), (4, 6)),
        ("x w", (1,), (2, 5, 4), (6, 4)),
        ("x w", (0,), (2, 4, 5), (4, 6)),
    ],
)
def test_operands_may_be_turned(
    inputs: str, turned: tuple[int, ...], x: tuple[int, ...], w: tuple[int, ...]
) -> None:
    found = layers(
        op("matmul", inputs, (2, 5, 6), "f", transposed=turned),
        constants=trained(w=w),
        x=x,
        batch=2,
    )["f"]
    assert (found.weights, found.output.channels, found.macs) == (24, 6, 120)


def test_a_constant_in_front_is_a_product_the_other_way_round() -> None:
    found = layers(
        op("matmul", "w x", (2, 6, 5), "f"),
        op("matmul", "f v", (2, 6, 3), "g"),
        constants=trained(w=(6, 4), v=(5, 3)),
        x=(2, 4, 5),
        batch=2,
    )
    assert (found["f"].input, found["f"].output) == (Tensor(4, 5), Tensor(6, 5))
    assert found["f"].macs == 6 * 4 * 5
    assert found["g"].macs == 6 * 5 * 3


def test_matrices_of_several_groups_are_one_linear_layer() -> None:
    found = layers(
        op("matmul", "x w", (2, 3, 5, 7), "f"),
        constants=trained(w=(3, 4, 7)),
        x=(2, 3, 5, 4),
        batch=2,
    )["f"]
    assert (found.kind, found.groups, found.weights) == ("fc", 3, 84)
    assert (found.input, found.output) == (Tensor(12, 5), Tensor(21, 5))
    assert found.macs == 3 * 5 * 4 * 7


@given(st.integers(1, 3), st.integers(1, 3), SIDES, SIDES, SIDES)
def test_a_product_of_two_computed_tensors_counts_its_groups(
    batch: int, heads: int, rows: int, depth: int, columns: int
) -> None:
    """(samples, heads, rows, depth) by (samples, heads, depth, columns)."""
    found = layers(
        op("relu", "x", (batch, heads, rows, depth), "a"),
        op("relu", "y", (batch, heads, depth, columns), "b"),
        op("matmul", "a b", (batch, heads, rows, columns), "m"),
        op("matmul", "m w", (batch, heads, rows, 2), "f"),
        constants=trained(w=(columns, 2)),
        x=(batch, heads, rows, depth),
        inputs={"y": (batch, heads, depth, columns)},
        batch=batch,
    )["m"]
    assert (found.kind, found.groups, found.inputs) == ("matmul", heads, ("a", "b"))
    assert found.macs == heads * rows * depth * columns
    assert found.input == Tensor(heads * depth, rows)
    assert found.output == Tensor(heads * columns, rows)
    assert found.operands[1].elements == heads * depth * columns


def test_a_bias_of_two_computed_tensors_is_an_addition() -> None:
    found = network(
        op("matmul", "x w", (2, 5, 4), "a"),
        op("matmul", "a a b", (2, 5, 5), "m", transposed=(1,)),
        constants=trained(w=(4, 4), b=(5,)),
        x=(2, 5, 4),
        batch=2,
    )
    assert [layer.operator or layer.kind for layer in found.layers] == ["fc", "matmul", "add"]
    assert found.parameters == 16 + 5


@pytest.mark.parametrize(("shape", "own"), [((1,), 1), ((5, 6), 30), ((1, 6), 6)])
def test_a_bias_counts_its_own_elements(shape: tuple[int, ...], own: int) -> None:
    found = layers(
        op("matmul", "x w b", (2, 5, 6), "f"),
        op("matmul", "x w b", (2, 5, 6), "again"),
        constants=trained(w=(4, 6), b=shape),
        x=(2, 5, 4),
        batch=2,
    )
    assert [layer.parameters for layer in found.values()] == [24 + own, 0]


def test_heads_that_read_one_pair_of_keys_have_it_once() -> None:
    """A second operand repeated to four heads is still one matrix."""
    found = layers(
        op("relu", "x", (1, 4, 5, 8), "q"),
        op("relu", "y", (1, 1, 8, 7), "k"),
        op("expand", "k", (1, 4, 8, 7), "many"),
        op("matmul", "q many", (1, 4, 5, 7), "m"),
        op("matmul", "m w", (1, 4, 5, 2), "f"),
        constants=trained(w=(7, 2)),
        x=(1, 4, 5, 8),
        inputs={"y": (1, 1, 8, 7)},
    )["m"]
    assert (found.groups, found.operands[1].elements) == (4, 56)
    assert found.macs == 4 * 5 * 8 * 7


def test_a_vector_is_a_row_in_front_and_a_column_behind() -> None:
    found = layers(
        op("matmul", "x w", (3, 6), "f"),
        op("matmul", "f v", (3,), "g"),
        constants=trained(w=(4, 6), v=(6,)),
        x=(3, 4),
        batch=3,
    )
    assert (found["g"].output, found["g"].weights, found["g"].macs) == (Tensor(1), 6, 6)


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (op("matmul", "x w", (2, 5, 7), "f"), "(2, 5, 4) times (4, 6) is not (2, 5, 7)"),
        (op("matmul", "x -", (2, 5, 7), "f"), "a product takes two operands"),
        (op("matmul", "x v", (3, 5, 6), "f"), "(2, 5, 4) times (3, 4, 6) is not (3, 5, 6)"),
    ],
)
def test_products_that_do_not_fit(operation: object, words: str) -> None:
    with pytest.raises(NetworkError) as caught:
        network(operation, constants=trained(w=(4, 6), v=(3, 4, 6)), x=(2, 5, 4), batch=2)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_a_matrix_used_again_is_shared_and_counted_once() -> None:
    found = network(
        op("matmul", "x w", (1, 4), "f"),
        op("relu", "f", (1, 4), "r"),
        op("matmul", "r w", (1, 4), "g"),
        constants=trained(w=(4, 4)),
        x=(1, 4),
    )
    assert [layer.shared for layer in found.layers] == ["", "", "f"]
    assert (found.weights, found.parameters, found.macs) == (16, 16, 32)


def experts(rows: int, *, bias: str = "") -> Network:
    """Rows of two samples, in one row, that meet one of four matrices each."""
    return network(
        op("reshape", "x", (2 * rows, 6), "rows"),
        op("experts", f"rows w x {bias}", (2 * rows, 3), "moe"),
        op("matmul", "moe v", (2 * rows, 7), "f"),
        constants=trained(w=(4, 6, 3), b=(4, 3), v=(3, 7)),
        x=(2, rows, 6),
        batch=2,
    )


def test_each_row_meets_one_of_the_experts() -> None:
    found = experts(8)
    moe, behind = found.layers
    assert (moe.kind, moe.groups, moe.input, moe.output) == (
        "fc",
        4,
        Tensor(24, 2),
        Tensor(12, 2),
    )
    assert (moe.weights, moe.macs, behind.macs) == (4 * 6 * 3, 8 * 6 * 3, 8 * 3 * 7)
    assert found.notes == ()
    assert experts(8, bias="b").layers[0].parameters == 4 * 6 * 3 + 4 * 3


def test_rows_that_do_not_deal_out_are_counted_up_and_said() -> None:
    found = experts(9)
    assert found.layers[0].macs == 4 * 3 * 6 * 3
    assert found.notes == (
        "moe: a sample's 9 rows do not deal out to 4 experts; counted as 3 for each",
    )


def test_experts_of_another_form() -> None:
    w = trained(w=(4, 6, 3), u=(4, 9, 3), v=(6, 6))
    stem = op("matmul", "x v", (2, 5, 6), "f")
    found = network(stem, op("experts", "f w", (2, 5, 3), "moe"), constants=w, x=(2, 5, 6), batch=2)
    assert "moe: a grouped product of other tensors" in found.notes[0]
    assert found.layers[1].kind == "other"
    with pytest.raises(NetworkError, match=r"\(5, 6\) times \(4, 9, 3\) is not \(5, 3\)"):
        network(op("experts", "x u", (5, 3), "moe"), constants=w, x=(5, 6), batch=5)


@pytest.mark.parametrize(
    ("inputs", "x", "w", "y"),
    [
        ("x w", (2, 1, 10, 16), (4, 16, 8), (2, 4, 10, 8)),
        ("w x", (2, 1, 16, 10), (4, 8, 16), (2, 4, 8, 10)),
        ("x w", (2, 3, 1, 10, 16), (3, 4, 16, 8), (2, 3, 4, 10, 8)),  # 3 meet 3, 4 meet one
        ("x w", (1, 10, 16), (4, 16, 8), (4, 10, 8)),
    ],
)
def test_matrices_that_meet_the_same_rows(
    inputs: str, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...]
) -> None:
    """Each with all of them, as numpy broadcasts; a product behind reads what comes out."""
    turned = inputs == "w x"
    one, other = (w, x) if turned else (x, w)
    assert np.matmul(np.zeros(one), np.zeros(other)).shape == y
    batch = x[0]
    found = network(
        op("matmul", inputs, y, "f"),
        op("matmul", "f v", (*y[:-1], 5), "g"),
        constants=trained(w=w, v=(y[-1], 5)),
        x=x,
        batch=batch,
    )
    assert found.layers[0].macs * batch == prod(y) * 16
    assert found.layers[1].macs * batch == prod(y) * 5
    assert found.layers[0].weights == prod(w)


def test_a_product_over_unlike_depths_is_refused() -> None:
    with pytest.raises(NetworkError, match=r"\(2, 5, 4\) times \(2, 5, 4\): 4 is not 5"):
        network(
            op("matmul", "x w", (2, 5, 4), "a"),
            op("matmul", "a a", (2, 5, 4), "m"),
            constants=trained(w=(4, 4)),
            x=(2, 5, 4),
            batch=2,
        )


@pytest.mark.parametrize(("made", "weights"), [("repeat", 32), ("concat", 64)])
def test_copies_for_each_sample_are_one_matrix_and_others_are_not(made: str, weights: int) -> None:
    found = network(
        op("other", "w", (2, 8, 4), "repeat", operator="repeat"),
        op("concat", "w v", (2, 8, 4), "concat"),
        op("matmul", f"x {made}", (2, 5, 4), "f"),
        constants=trained(w=(1, 8, 4), v=(1, 8, 4)),
        x=(2, 5, 8),
        batch=2,
    )
    assert found.weights == weights


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_copies_of_several_matrices_meet_the_same_rows(batch: int) -> None:
    found = network(
        op("expand", "w", (batch, 3, 8, 8), "copies"),
        op("matmul", "x copies", (batch, 3, 6, 8), "f"),
        constants=trained(w=(3, 8, 8)),
        x=(batch, 1, 6, 8),
        batch=batch,
    )
    assert (found.parameters, found.macs) == (3 * 8 * 8, 3 * 6 * 8 * 8)


def test_all_that_a_smaller_product_of_parameters_is_made_of_is_trained() -> None:
    """Rows of a table through a matrix that is larger than they are."""
    found = network(
        op("matmul", "rows w", (2, 4), "small"),
        op("matmul", "x small", (3, 2), "f", transposed=(1,)),
        constants=trained(rows=(2, 4), w=(4, 4)),
        x=(3, 4),
        batch=3,
    )
    assert found.parameters == 8 + 16
