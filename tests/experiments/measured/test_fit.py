"""Constants are found again from steps that were made with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measured.fit import PROBES, Constants, Probed, carried, fitted, format_of
from tests.experiments.measured.some_rows import small


def made(share: float, a: float = 0.01, b: float = 0.02, **changed: object) -> Probed:
    """A row whose step is a + b / share, and was measured so."""
    row = small(**({"id": f"{share}{changed}"} | changed), step_s=repr(a + b / share))
    return Probed(row, (a + b / PROBES[0], a + b / PROBES[1]))


@given(st.floats(0.2, 0.95))
def test_a_share_is_found_again(share: float) -> None:
    constants = fitted([made(share), made(share, 0.03, id="b")])
    assert constants.shares["H100", "bf16"] == pytest.approx(share, rel=1e-4)
    assert constants.stacks["nemo-2024", "H100"] == pytest.approx(1.0, abs=1e-4)
    assert constants.share(small())[0] == pytest.approx(share, rel=1e-3)
    assert constants.share(small())[1] == ()


def test_stacks_share_a_chip() -> None:
    """One stack reaches half as much again: its factor is above one, drawn towards it."""
    fast = [made(0.6, id=f"f{i}") for i in range(4)]
    slow = [made(0.4, id=f"s{i}", framework="Megatron-LM", year=2022) for i in range(4)]
    constants = fitted([*fast, *slow])
    assert 0.4 < constants.shares["H100", "bf16"] < 0.6
    assert constants.stacks["megatron-2021", "H100"] < 1.0 < constants.stacks["nemo-2024", "H100"]
    one = constants.share(small())[0]
    assert constants.shares["H100", "bf16"] < one < 0.6


def test_releases_share_a_stack() -> None:
    """Of one stack's two years each has its own factor; a third year has the stack's."""
    old = [made(0.4, id=f"o{i}", year=2021) for i in range(3)]
    new = [made(0.6, id=f"n{i}", year=2024) for i in range(3)]
    constants = fitted([*old, *new])
    shares = [constants.share(small(year=year))[0] for year in (2021, 2023, 2024)]
    assert shares[0] < 0.45 < shares[1] < 0.55 < shares[2]
    stack = constants.stacks["nemo-2024", "H100"]
    assert shares[1] == pytest.approx(stack * constants.shares["H100", "bf16"])


def test_a_stack_without_rows_has_the_factor_of_what_it_extends() -> None:
    """FlashAttention-2 in place of cuDNN's kernels says nothing of products."""
    fast = [made(0.6, id=f"f{i}") for i in range(4)]
    slow = [made(0.4, id=f"s{i}", framework="Megatron-LM", year=2022) for i in range(4)]
    constants = fitted([*fast, *slow])
    shares = [
        constants.share(small(framework=of))[0]
        for of in ("NeMo 24.03", "NeMo 24.09", "NeMo Megatron 23.08", "torchtitan")
    ]
    assert shares[0] == shares[1] == shares[2] > constants.shares["H100", "bf16"] == shares[3]


def test_rows_that_do_not_feel_products_say_nothing_of_their_stack() -> None:
    """A step of 50 ms that is all waiting, beside one that computes."""
    waiting = made(0.5, 0.05, 1e-6, id="w", framework="Megatron-DeepSpeed")
    off = Probed(small(id="w", framework="Megatron-DeepSpeed", step_s=0.06), waiting.seconds)
    constants = fitted([off, made(0.5)])
    assert constants.stacks["deepspeed-2022", "H100"] == pytest.approx(1.0, abs=0.03)


def test_chips_without_rows_take_their_siblings() -> None:
    """GB200: 1.2 times the watts of B200 for 5 PFLOP/s instead of 4.5 in fp8."""
    constants = Constants({("B200", "fp8"): 0.5, ("H100", "bf16"): 0.6}, {}, {})
    share, said = constants.share(small(hw="GB200", precision="fp8"))
    assert share == pytest.approx(0.5 * 1.2 * 4.5 / 5)
    assert said == ("share of B200 fp8",)
    share, said = constants.share(small(hw="H100", precision="fp8"))
    assert share == pytest.approx(0.6, rel=1e-3)
    assert said == ("share of H100 bf16",)
    assert constants.share(small(hw="TPUv4"))[1] == ("share 0.6",)
    assert format_of(small(precision="fp16")) == "bf16"


def test_watts_and_bits_set_the_pace() -> None:
    """As in the docstring: 2.25 PFLOP/s of B200 in fp8 are 3.15 of GB300, and 6.3 in fp4."""
    constants = Constants({("B200", "fp8"): 0.5, ("B200", "bf16"): 0.4}, {}, {})
    eight = constants.share(small(hw="GB300", precision="fp8"))[0]
    four = constants.share(small(hw="GB300", precision="fp4"))[0]
    assert 5e15 * eight == pytest.approx(3.15e15)
    assert 15e15 * four == pytest.approx(6.3e15)
    assert carried(("A100-80", "bf16"), ("A100-80", "fp32")) == 1.0  # without tensor cores


def test_a_chip_that_has_fp16_alone() -> None:
    """V100 in fp16, whose share is kept as bf16's: 125 TFLOP/s, and 15.7 without tensor cores."""
    for format_, factor in (("bf16", 1.0), ("fp32", 2 * 15.7 / 125)):
        constants = Constants({("V100-32", format_): 0.5}, {}, {})
        share, _ = constants.share(small(hw="V100-32", precision="fp16"))
        assert share == pytest.approx(0.5 * factor, rel=1e-3)


def test_h100_at_500_watts() -> None:
    """Both were calibrated, each on rows of its own: the rule is right within a twelfth."""
    known = {("H100", "bf16"): 0.618, ("H100", "fp8"): 0.556}
    measured = {"bf16": 0.471, "fp8": 0.371}
    for format_, share in measured.items():
        row = small(hw="H100-96-500W", precision=format_)
        assert Constants(known, {}, {}).share(row)[0] == pytest.approx(share, rel=1 / 12)
