"""Precisions and optimizers by name: what they make of devices, and who lacks which."""

from __future__ import annotations

import pytest

from hardware import Arithmetic, Array, Device, SpecError, load_array
from hardware.schema import OPTIMIZERS, PRECISIONS


def device(*changes: str, array: str = "h100-cluster") -> Device:
    ((found, _),) = load_array(array, changes).group.kinds
    return found


@pytest.mark.parametrize("name", PRECISIONS)
def test_products_run_at_the_peak_of_their_format(name: str) -> None:
    peaks = {"bf16": 989, "fp16": 989, "tf32": 495, "fp32": 67, "fp8": 1979, "int8": 1979}
    if name == "fp4":
        assert device("precision=fp4", array="b200-cluster").chip_peak_flops_per_s == 9000e12
        return
    assert device(f"precision={name}").chip_peak_flops_per_s == peaks[name] * 1e12


def test_attention_stays_in_bf16_where_products_are_narrower() -> None:
    for name in ("fp8", "int8"):
        assert device(f"precision={name}").chip_attention_flops_per_s == 989e12
    for name in ("bf16", "fp16", "fp32", "tf32"):
        assert device(f"precision={name}").chip_attention_flops_per_s is None


def test_mixed_precision_with_adam_holds_sixteen_bytes_and_a_gradient() -> None:
    """2 (weights) + 4 (their copy) + 4 + 4 (moments) = 14 B, and 4 B of gradient: 18 B."""
    arithmetic = device("precision=bf16", "optimizer=adam").arithmetic
    assert arithmetic == Arithmetic(2.0, False, 2.0, 2.0, 4.0, 4.0, (4.0, 4.0))
    assert device("precision=fp32").arithmetic == Arithmetic.of(4.0)


@pytest.mark.parametrize(("name", "moments"), OPTIMIZERS.items())
def test_an_optimizer_keeps_its_moments(name: str, moments: int) -> None:
    assert device(f"optimizer={name}").arithmetic.moment_bytes == (4.0,) * moments


def test_what_is_written_of_a_device_goes_before_what_a_precision_makes_of_it() -> None:
    found = device("devices.0.arithmetic.gradients=2 B", "precision=fp8", "optimizer=adam")
    assert found.arithmetic.gradient_bytes == 2.0
    assert found.arithmetic.moment_bytes == (4.0, 4.0)


@pytest.mark.parametrize(
    ("array", "name", "says"),
    [
        ("a100-cluster", "fp8", "precision: a100-80 has no fp8; it has bf16, fp16, tf32, fp32"),
        ("tpu-v5e-slice", "fp16", "precision: tpu-v5e has no fp16; it has bf16, int8"),
        ("tpu-v3-pod", "fp32", "precision: tpu-v3 has no fp32; it has bf16 alone; chip.peak_by"),
        ("h100-cluster", "fp9", "precision: 'fp9': must be one of 'bf16', 'fp16'"),
        ("h100-cluster", "fp4", "precision: h100-sxm has no fp4; it has"),
    ],
)
def test_a_chip_without_a_format_says_which_it_has(array: str, name: str, says: str) -> None:
    with pytest.raises(SpecError) as error:
        load_array(array, [f"precision={name}"])
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_chip_without_peaks_by_format_has_bf16() -> None:
    plain, named = (load_array("tpu-v3-pod", c).group for c in ([], ["precision=bf16"]))
    assert named == plain


def test_an_optimizer_that_is_not_known() -> None:
    with pytest.raises(SpecError, match="must be one of 'adam', 'sgd', 'adafactor'"):
        load_array("h100-cluster", ["optimizer=adamw"])


def test_settings_tell_where_a_value_is_from() -> None:
    array: Array = load_array("h100-cluster", ["precision=fp8"])
    sources = {setting.key: setting.source for setting in array.settings}
    assert sources["devices.0.arithmetic.compute"] == 'precision = "fp8"'
    assert sources["precision"] == "command line"
