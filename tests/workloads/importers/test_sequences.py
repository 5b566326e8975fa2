"""Recurrent cells of models in neutral terms."""

import pytest

from tests.workloads.importers.models import layers, network, op, trained
from workloads import NetworkError, Tensor
from workloads.importers.neutral import Constant, ModelOperation

CELLS = {"lstm": 4, "gru": 3}
"""Gates of each."""
ATTRIBUTES = {"hidden": 4, "directions": 1, "biased": True, "batch_axis": 0, "split": False}


def cell(
    verb: str, inputs: str, outputs: dict[str, tuple[int, ...]], **changes: object
) -> ModelOperation:
    return op(verb, inputs, outputs, "cell", **(ATTRIBUTES | changes))


def matrices(verb: str, into: int, hidden: int, directions: int = 1) -> dict[str, Constant]:
    gates = CELLS[verb]
    return trained(
        w=(directions, gates * hidden, into),
        r=(directions, gates * hidden, hidden),
        b=(directions, 2 * gates * hidden),
    )


@pytest.mark.parametrize("verb", CELLS)
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("biased", [True, False])
def test_a_cell_counts_both_its_products_at_every_step(
    verb: str, directions: int, biased: bool
) -> None:
    """Gates x (features + state) multiplications a step, direction and unit."""
    y = (2, 7, 4 * directions)
    found = layers(
        cell(verb, "x w r b", {"y": y}, directions=directions, biased=biased),
        constants=matrices(verb, 3, 4, directions),
        x=(2, 7, 3),
        batch=2,
        inputs={},
    )
    (layer,) = found.values()
    weights = directions * CELLS[verb] * 4 * (3 + 4)
    assert (layer.kind, layer.directions) == (verb, directions)
    assert (layer.input, layer.output) == (Tensor(3, 7), Tensor(4 * directions, 7))
    assert (layer.weights, layer.macs) == (weights, 7 * weights)
    assert layer.parameters == weights + (2 * directions * CELLS[verb] * 4 if biased else 0)


@pytest.mark.parametrize(
    ("split", "batch_axis", "x", "every", "last"),
    [
        (False, 0, (2, 7, 3), (2, 7, 8), (2, 2, 4)),
        (False, 1, (7, 2, 3), (7, 2, 8), (2, 2, 4)),
        (True, 0, (2, 7, 3), (2, 7, 2, 4), (2, 2, 4)),  # ONNX: samples, then directions
        (True, 1, (7, 2, 3), (7, 2, 2, 4), (2, 2, 4)),
    ],
)
def test_all_states_and_the_last_ones_keep_their_meaning(
    split: bool,
    batch_axis: int,
    x: tuple[int, ...],
    every: tuple[int, ...],
    last: tuple[int, ...],
) -> None:
    """Both directions of all states are channels of every step; of the last ones, of a vector."""
    shape = every
    if split and batch_axis:
        shape = (7, 2, 2, 4)
    steps = [
        op("transpose", "x", (2, 7, 3), "seq", perm=(0, 1, 2)),
        cell(
            "lstm",
            "seq w r b" if batch_axis == 0 else "turned w r b",
            {"y": shape, "h": last, "c": last},
            directions=2,
            split=split,
            batch_axis=batch_axis,
        ),
        op("relu", "y", shape, "all"),
        op("relu", "h", last, "end"),
    ]
    if batch_axis:
        steps[0] = op("transpose", "x", (7, 2, 3), "turned", perm=(1, 0, 2))
    found = layers(*steps, constants=matrices("lstm", 3, 4, 2), x=(2, 7, 3), batch=2)
    assert x == (steps[0].outputs[steps[0].name])
    assert found["all"].input == Tensor(8, 7)
    assert found["end"].input == Tensor(8)
    assert found["all"].inputs == found["end"].inputs == ("cell",)


def test_last_states_of_samples_first_begin_with_the_samples() -> None:
    """ONNX with layout=1: (samples, directions, hidden), joined by a reshape."""
    found = layers(
        cell("lstm", "x w r b", {"y": (3, 7, 2, 4), "h": (3, 2, 4)}, directions=2, split=True),
        op("reshape", "h", (3, 8), "joined"),
        op("matmul", "joined v", (3, 5), "f"),
        constants=matrices("lstm", 3, 4, 2) | trained(v=(8, 5)),
        x=(3, 7, 3),
        batch=3,
    )
    assert (found["f"].input, found["f"].weights) == (Tensor(8), 40)


def test_first_states_and_peepholes_are_trained_too() -> None:
    """A cell that is used again brings what it has not had before."""
    found = layers(
        cell("lstm", "x w r b - h c p", {"y": (2, 7, 4)}),
        op("lstm", "y w r b - k", {"z": (2, 7, 4)}, "again", **ATTRIBUTES),
        constants=matrices("lstm", 4, 4)
        | trained(h=(1, 1, 4), c=(1, 1, 4), p=(1, 12), k=(1, 1, 4)),
        x=(2, 7, 4),
        batch=2,
    )
    assert [layer.extra for layer in found.values()] == [4 + 4 + 12, 4]
    assert (found["again"].shared, found["again"].parameters) == ("cell", 4)


def test_matrices_of_another_size_are_refused() -> None:
    words = r"128 weights expected, its tensors are \(1, 16, 3\), \(1, 16, 4\)"
    with pytest.raises(NetworkError, match=words):
        layers(
            cell("lstm", "x w r", {"y": (2, 7, 4)}), constants=matrices("lstm", 3, 4), x=(2, 7, 4)
        )


def test_a_computed_initial_state_is_noted() -> None:
    state = op("matmul", "z v", (1, 2, 4), "state")
    found = network(
        state,
        cell("gru", "x w r b state", {"y": (2, 7, 4)}),
        constants=matrices("gru", 3, 4) | trained(v=(4, 4)),
        x=(2, 7, 3),
        inputs={"z": (1, 2, 4)},
        batch=2,
    )
    assert found.notes == ("cell: what sets its initial state is not followed",)
