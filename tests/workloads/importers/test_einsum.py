"""Einstein sums against numpy: shapes of its results, products counted index by index."""

import string
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workloads.importers.models import network, op, trained
from workloads import Network, Tensor


def shapes(equation: str, sizes: dict[str, int]) -> tuple[tuple[int, ...], ...]:
    left, result = equation.split("->")
    return tuple(tuple(sizes[c] for c in term) for term in (*left.split(","), result))


def read(equation: str, sizes: dict[str, int], *, weight: bool, batch: int) -> Network:
    """A first operand that was computed, and a second one that is a weight or was, too."""
    one, two, result = shapes(equation, sizes)
    zeros = [np.zeros(shape, dtype=np.int8) for shape in (one, two)]
    assert np.einsum(equation, *zeros).shape == result  # numpy agrees that this is an einsum
    if weight:
        return network(
            op("einsum", "x w", result, "e", equation=equation),
            constants=trained(w=two),
            x=one,
            batch=batch,
        )
    return network(
        op("matmul", "x w", (*one[:-1], one[-1]), "a"),
        op("relu", "y", two, "b"),
        op("einsum", "a b", result, "e", equation=equation),
        constants=trained(w=(one[-1], one[-1])),
        x=one,
        inputs={"y": two},
        batch=batch,
    )


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, dict[str, int]]:
    """``b`` are samples; other labels are summed, or kept from one operand or both."""
    letters = iter(string.ascii_lowercase.replace("b", ""))
    rows, depth, columns = (
        "".join(next(letters) for _ in range(draw(st.integers(1, 2)))) for _ in range(3)
    )
    left = draw(st.permutations(rows + depth))
    right = draw(st.permutations(depth + columns))
    result = draw(st.permutations(rows + columns))
    sizes = {c: draw(st.sampled_from([2, 3, 5])) for c in rows + depth + columns} | {"b": 2}
    return f"b{''.join(left)},{''.join(right)}->b{''.join(result)}", sizes


@settings(deadline=None)
@given(equations())
def test_a_product_with_a_weight(case: tuple[str, dict[str, int]]) -> None:
    """Every combination of indices is one multiplication; the weight is counted once."""
    equation, sizes = case
    (layer,) = read(equation, sizes, weight=True, batch=2).layers
    assert layer.kind in ("fc", "conv")
    assert layer.weights == prod(shapes(equation, sizes)[1])
    assert layer.macs * 2 == prod(sizes.values())


@settings(deadline=None)
@given(equations())
def test_a_product_of_two_computed_tensors(case: tuple[str, dict[str, int]]) -> None:
    """With samples in both operands."""
    equation, sizes = case
    one, rest = equation.split(",")
    batched = f"{one},b{rest}"
    found = read(batched, sizes, weight=False, batch=2).layers
    assert found[-1].kind == "matmul"
    assert found[-1].macs * 2 == prod(sizes.values())


@pytest.mark.parametrize(
    ("equation", "one", "two", "result", "macs"),
    [
        ("...d,df->...f", (2, 5, 4), (4, 6), (2, 5, 6), 120),
        ("b...d,df->b...f", (2, 5, 3, 4), (4, 6), (2, 5, 3, 6), 360),
        ("bhid,bhjd->bhij", (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 5, 7), 420),
        ("...id,...jd->...ij", (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 5, 7), 420),
        (" b d , d f -> b f ", (2, 4), (4, 6), (2, 6), 24),
        ("bsd,df", (2, 5, 4), (4, 6), (2, 6, 5), 120),  # as bfs: in order
        ("...d,df", (2, 5, 4), (4, 6), (2, 5, 6), 120),
    ],
)
def test_ellipses_and_blanks(
    equation: str,
    one: tuple[int, ...],
    two: tuple[int, ...],
    result: tuple[int, ...],
    macs: int,
) -> None:
    computed = len(two) > 2
    steps = [
        op("matmul", "x w", one, "a"),
        op("relu", "y", two, "b"),
        op("einsum", "a b" if computed else "a v", result, "e", equation=equation),
    ]
    found = network(
        *steps,
        constants=trained(w=(one[-1], one[-1]), v=two),
        x=one,
        inputs={"y": two},
        batch=2,
    )
    assert found.layers[-1].macs == macs


@pytest.mark.parametrize(
    ("equation", "result"),
    [
        ("bij->bji", (2, 4, 5)),
        ("bii,ij->bj", (2, 4)),
        ("bij,jk->bi", (2, 5)),
        ("bij,jk", (2, 5, 4)),
        ("bij,jk,kl->bil", (2, 5, 4)),
    ],
)
def test_what_is_no_matrix_product_is_an_operator(equation: str, result: tuple[int, ...]) -> None:
    """One operand, a trace, a label summed out of one operand alone, or three operands."""
    found = network(
        op("matmul", "x w", (2, 5, 4), "a"),
        op("einsum", " ".join("a" * (1 + equation.count(","))), result, "e", equation=equation),
        constants=trained(w=(4, 4)),
        x=(2, 5, 4),
        batch=2,
    )
    assert found.layers[-1].kind == "other"
    assert found.notes == (
        f"e: Einsum {equation!r}, which is no matrix product; counted as memory traffic",
    )


def test_an_elementwise_product_has_a_multiplication_each() -> None:
    found = network(
        op("matmul", "x w", (2, 5, 4), "a"),
        op("einsum", "a a", (2, 5, 4), "e", equation="bij,bij->bij"),
        constants=trained(w=(4, 4)),
        x=(2, 5, 4),
        batch=2,
    )
    assert found.layers[-1].macs == 20


@pytest.mark.parametrize(
    ("equation", "w", "result", "output"),
    [
        ("bij,j->bij", (4,), (2, 5, 4), Tensor(4, 5)),
        ("bij,ij->bji", (5, 4), (2, 4, 5), Tensor(4, 5)),
        ("bij,k->bijk", (3,), (2, 5, 4, 3), Tensor(12, 5)),
    ],
)
def test_a_gate_is_no_product(
    equation: str, w: tuple[int, ...], result: tuple[int, ...], output: Tensor
) -> None:
    found = network(
        op("matmul", "x v", (2, 5, 4), "a"),
        op("einsum", "a w", result, "e", equation=equation),
        constants=trained(v=(4, 4), w=w),
        x=(2, 5, 4),
        batch=2,
    )
    gate = found.layers[-1]
    assert (gate.operator, gate.output, gate.macs, gate.extra) == ("mul", output, 0, prod(w))
    assert found.notes == ()


def test_a_constant_in_front_changes_places() -> None:
    (layer,) = network(
        op("einsum", "w x", (2, 6, 5), "e", equation="fd,bsd->bfs"),
        constants=trained(w=(6, 4)),
        x=(2, 5, 4),
        batch=2,
    ).layers
    assert (layer.kind, layer.output, layer.weights) == ("fc", Tensor(6, 5), 24)
