"""Fused attention of models in neutral terms: its two products and the softmax between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.importers.models import layers, network, op, trained
from workloads import Layer, Tensor, with_attention
from workloads.importers.neutral import ModelOperation

SIDES = st.integers(1, 4)


def attended(
    q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], y: tuple[int, ...], **more: int
) -> dict[str, Layer]:
    """Three computed operands, and a product behind that reads what comes out."""
    steps: list[ModelOperation] = [
        op("relu", name, shape, letter)
        for name, shape, letter in (("x", q, "q"), ("kx", k, "k"), ("vx", v, "v"))
    ]
    steps += [
        op("attention", "q k v", y, "att", **more),
        op("matmul", "att w", (*y[:-1], 3), "out"),
    ]
    return layers(
        *steps,
        constants=trained(w=(y[-1], 3)),
        x=q,
        inputs={"kx": k, "vx": v},
        batch=q[0],
    )


@given(st.integers(1, 3), SIDES, SIDES, SIDES, SIDES, SIDES)
def test_heads_as_a_dimension(
    batch: int, heads: int, queries: int, keys: int, features: int, values: int
) -> None:
    found = attended(
        (batch, heads, queries, features),
        (batch, heads, keys, features),
        (batch, heads, keys, values),
        (batch, heads, queries, values),
    )
    scores, softmax, context = (found[f"att.{part}"] for part in ("scores", "softmax", "context"))
    assert (scores.groups, scores.macs) == (heads, heads * queries * features * keys)
    assert (context.groups, context.macs) == (heads, heads * queries * keys * values)
    assert (softmax.kind, softmax.inputs) == ("softmax", ("att.scores",))
    assert softmax.output == Tensor(heads * keys, queries)
    assert context.inputs == ("att.softmax", "v")
    assert scores.inputs == ("q", "k")


@given(st.integers(1, 3), st.integers(2, 4), SIDES, SIDES, SIDES)
def test_heads_inside_the_features(
    batch: int, heads: int, queries: int, keys: int, features: int
) -> None:
    """(samples, positions, heads * features), as ONNX's Attention has it with three dimensions."""
    found = attended(
        (batch, queries, heads * features),
        (batch, keys, heads * features),
        (batch, keys, heads * features),
        (batch, queries, heads * features),
        heads=heads,
        kv_heads=heads,
    )
    assert found["att.scores"].macs == heads * queries * features * keys
    assert found["att.context"].macs == heads * queries * keys * features
    assert found["out"].input == Tensor(heads * features, queries)
    assert found["out"].macs == queries * heads * features * 3


def test_fewer_heads_of_keys_serve_several_of_queries() -> None:
    found = attended(
        (1, 5, 6 * 4), (1, 7, 2 * 4), (1, 7, 2 * 4), (1, 5, 6 * 4), heads=6, kv_heads=2
    )
    assert found["att.scores"].groups == 6
    assert found["att.scores"].operands[1] == Tensor(8, 7)
    assert found["att.scores"].macs == 6 * 5 * 4 * 7


def test_a_trained_mask_is_added_and_counted_fused_too() -> None:
    shape = (1, 2, 5, 4)
    found = network(
        op("relu", "x", shape, "q"),
        op("attention", "q q q m", shape, "att"),
        op("attention", "att q q m", shape, "again"),
        op("matmul", "again w", (1, 2, 5, 3), "out"),
        constants=trained(w=(4, 3), m=(5, 5)),
        x=shape,
    )
    assert [layer.name for layer in found.layers if layer.extra] == ["att.mask"]
    assert found.parameters == with_attention(found, "fused").parameters == 12 + 25


@pytest.mark.parametrize("mask", ["", " x"])
def test_a_mask_changes_no_product(mask: str) -> None:
    shape = (1, 2, 5, 4)
    found = layers(
        op("relu", "x", shape, "q"),
        op("relu", "q", shape, "k"),
        op("attention", f"q k k{mask}", shape, "att"),
        op("matmul", "att w", (1, 2, 5, 3), "out"),
        constants=trained(w=(4, 3)),
        x=shape,
    )
    assert [name for name in found if name.startswith("att.")] == [
        "att.scores",
        "att.softmax",
        "att.context",
    ]
