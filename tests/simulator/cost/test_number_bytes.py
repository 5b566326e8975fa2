"""Bytes of an update and of what a parameter keeps, beside an optimizer that logs its passes."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Arithmetic, load_array, load_device
from simulator.cost.number_bytes import NumberBytes, number_bytes

WIDTHS = st.sampled_from((1.0, 2.0, 4.0, 8.0))


def arithmetic(
    weight: float, gradient: float, master: float, moments: tuple[float, ...]
) -> Arithmetic:
    return Arithmetic(3.0, False, 5.0, weight, gradient, master, moments)


def lars(numbers: Arithmetic) -> Iterator[float]:
    """Every read and write of one parameter's update: a pass for the norms, one to update."""
    yield numbers.master_bytes  # norm of the weights
    yield numbers.gradient_bytes  # norm of the gradient
    yield numbers.gradient_bytes  # the update reads all three ...
    yield numbers.master_bytes
    yield from numbers.moment_bytes
    yield from numbers.moment_bytes  # ... and writes what it keeps
    yield numbers.master_bytes


@pytest.mark.parametrize(
    ("weight", "gradient", "master", "moments", "update", "state"),
    [
        (2.0, 4.0, 4.0, (4.0,), 28, 2 + 4 + 4),  # MLPerf's ResNet-50 on TPUs
        (4.0, 4.0, 4.0, (4.0,), 28, 4 + 4),  # float32: the weights are the master copy
        (2.0, 2.0, 2.0, (2.0,), 14, 2 + 2),  # bfloat16 throughout
        (8.0, 8.0, 8.0, (8.0,), 56, 8 + 8),
        (2.0, 4.0, 4.0, (4.0, 4.0), 36, 2 + 4 + 4 + 4),  # two moments, as Adam's
        (2.0, 2.0, 4.0, (4.0, 4.0), 32, 2 + 4 + 4 + 4),
        (2.0, 4.0, 4.0, (), 20, 2 + 4),  # no momentum
        (1.0, 2.0, 4.0, (1.0, 2.0), 22, 1 + 4 + 1 + 2),
    ],
)
def test_updates_and_states_by_hand(
    weight: float,
    gradient: float,
    master: float,
    moments: tuple[float, ...],
    update: float,
    state: float,
) -> None:
    numbers = arithmetic(weight, gradient, master, moments)
    assert number_bytes(numbers) == NumberBytes(5.0, weight, gradient, update, state)
    assert sum(lars(numbers)) == update


@given(WIDTHS, WIDTHS, WIDTHS, st.lists(WIDTHS, max_size=3))
def test_any_formats_beside_the_log(
    weight: float, gradient: float, wider: float, moments: list[float]
) -> None:
    numbers = arithmetic(weight, gradient, max(weight, wider), tuple(moments))
    found = number_bytes(numbers)
    assert found.update == sum(lars(numbers))
    held = [weight, *moments, *([numbers.master_bytes] if wider > weight else [])]
    assert found.state == sum(held)
    twice = arithmetic(
        2 * weight, 2 * gradient, 2 * numbers.master_bytes, tuple(2 * each for each in moments)
    )
    assert number_bytes(twice)[1:] == tuple(2 * each for each in found[1:])


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("tpu-v2", NumberBytes(2, 2, 4, 28, 10)),
        ("accpar-tpu-v3", NumberBytes(2, 2, 4, 28, 10)),
        ("hypar-hmc", NumberBytes(4, 4, 4, 28, 8)),
    ],
)
def test_devices_of_the_catalog(device: str, expected: NumberBytes) -> None:
    assert number_bytes(load_device(device)[0].arithmetic) == expected


def test_the_state_that_transformers_are_trained_with() -> None:
    """Mixed precision with Adam holds 16 B and a 2 B gradient, or 14 B and a 4 B one."""
    changes = ['devices.0.arithmetic.moments=["4 B", "4 B"]']
    numbers = number_bytes(load_array("tpu-v3-8", changes).group.arithmetic)
    assert numbers.state + numbers.gradient == 18
    half = [*changes, "devices.0.arithmetic.gradients=2 B"]
    numbers = number_bytes(load_array("tpu-v3-8", half).group.arithmetic)
    assert numbers.state + numbers.gradient == 16
