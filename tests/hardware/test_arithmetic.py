"""Number formats: what a spec says of them, what follows, and what is refused."""

from __future__ import annotations

from dataclasses import fields

import pytest

from hardware import Arithmetic, Array, Device, load_array, load_device
from hardware.schema import OPTIMIZERS, PRECISIONS


@pytest.mark.parametrize(("element", "wide"), [(1.0, 4.0), (2.0, 4.0), (4.0, 4.0), (8.0, 8.0)])
def test_what_follows_the_element(element: float, wide: float) -> None:
    """Gradients, the optimizer's copy and momentum are float32, or wider with wider weights."""
    device, _ = load_device("tpu-v3", [f'arithmetic.element="{element:g} B"'])
    expected = Arithmetic(element, False, element, element, wide, wide, (wide,))
    assert device.arithmetic == expected == Arithmetic(element)
    plain = Device("plain", 1, 1, 1e12, 1e9, 1e9, 1e9)
    assert plain.arithmetic == Arithmetic(2.0)


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("activations", "activation_bytes"),
        ("weights", "weight_bytes"),
        ("gradients", "gradient_bytes"),
        ("master", "master_bytes"),
    ],
)
def test_each_key_sets_its_own_bytes_alone(key: str, field: str) -> None:
    """3 B is no default of anything; wider weights alone take others with them (4 B: not yet)."""
    changed = load_device("tpu-v3", [f"arithmetic.{key}=3 B"])[0].arithmetic
    plain = load_device("tpu-v3")[0].arithmetic
    for each in fields(Arithmetic):
        value = getattr(changed, each.name)
        assert value == (3.0 if each.name == field else getattr(plain, each.name)), each.name


def test_moments_are_as_many_as_are_written() -> None:
    adam = load_device("tpu-v3", ['arithmetic.moments=["4 B", "2 B"]'])[0].arithmetic
    assert adam.moment_bytes == (4.0, 2.0)
    assert load_device("tpu-v3", ["arithmetic.moments=[]"])[0].arithmetic.moment_bytes == ()


def test_a_master_copy_may_be_the_weight_itself() -> None:
    """bfloat16 throughout: as wide as the weights is wide enough."""
    changes = ["arithmetic.master=2 B", "arithmetic.gradients=2 B", 'arithmetic.moments=["2 B"]']
    found = load_device("tpu-v3", changes)[0].arithmetic
    assert found == Arithmetic(2.0, False, 2.0, 2.0, 2.0, 2.0, (2.0,))


def test_an_array_has_one_arithmetic_in_every_format() -> None:
    array = load_array("accpar-mixed", [f"devices.{i}.arithmetic.gradients=2 B" for i in (0, 1)])
    assert array.group.arithmetic.gradient_bytes == 2.0
    assert load_array("accpar-mixed", ["devices.0.arithmetic.weights=2 B"])  # it is that anyway


PEAKS = ["chip.peak_by_format.fp8=246 TFLOP/s", "chip.peak_by_format.fp32=15 TFLOP/s"]


@pytest.mark.parametrize(
    ("changes", "peak"),
    [
        ([], 123e12),
        (['arithmetic.element="4 B"'], 123e12),  # one peak: that of whatever it computes in
        (PEAKS, 123e12),  # bf16 has no peak of its own
        ([*PEAKS, 'arithmetic.element="4 B"'], 15e12),
        ([*PEAKS, 'arithmetic.element="1 B"'], 246e12),
        ([*PEAKS, 'arithmetic.element="8 B"'], 123e12),
        ([*PEAKS, "arithmetic.compute=fp8"], 246e12),  # whatever is held and moved
        ([*PEAKS, "arithmetic.activations=4 B"], 123e12),  # the element decides, or compute
        ([*PEAKS, "chip.peak_by_format.bf16=120 TFLOP/s"], 120e12),
        ([*PEAKS, "chip.peak_by_format.tf32=60 TFLOP/s", 'arithmetic.element="4 B"'], 15e12),
        (["chip.peak_by_format.tf32=60 TFLOP/s", "arithmetic.compute=tf32"], 60e12),
    ],
)
def test_the_peak_of_the_format_computed_in(changes: list[str], peak: float) -> None:
    assert load_device("tpu-v3", changes)[0].chip_peak_flops_per_s == peak


def test_kinds_of_one_array_may_compute_in_unlike_formats() -> None:
    changes = [f"devices.1.{PEAKS[0]}", "devices.1.arithmetic.compute=fp8"]
    (_, _), (fast, _) = load_array("accpar-mixed", changes).group.kinds
    assert fast.chip_peak_flops_per_s == 246e12


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


def test_one_peak_is_in_the_format_of_the_elements() -> None:
    """A GTX 1080 Ti's is of fp32: it was refused that, and gave it for bf16, which it has not."""
    found = device("precision=fp32", array="ripples-16")
    assert found.chip_peak_flops_per_s == device(array="ripples-16").chip_peak_flops_per_s
    assert found.arithmetic.weight_bytes == 4.0


def test_attention_stays_in_bf16_where_products_are_narrower() -> None:
    for name in ("fp8", "int8"):
        assert device(f"precision={name}").chip_attention_flops_per_s == 989e12
    for name in ("bf16", "fp16", "fp32", "tf32"):
        assert device(f"precision={name}").chip_attention_flops_per_s is None


def test_mixed_precision_with_adam_holds_sixteen_bytes_and_a_gradient() -> None:
    """2 (weights) + 4 (their copy) + 4 + 4 (moments) = 14 B, and 4 B of gradient: 18 B."""
    arithmetic = device("precision=bf16", "optimizer=adam").arithmetic
    assert arithmetic == Arithmetic(2.0, False, 2.0, 2.0, 4.0, 4.0, (4.0, 4.0))
    assert device("precision=fp32").arithmetic == Arithmetic(4.0)


@pytest.mark.parametrize(("name", "moments"), OPTIMIZERS.items())
def test_an_optimizer_keeps_its_moments(name: str, moments: int) -> None:
    assert device(f"optimizer={name}").arithmetic.moment_bytes == (4.0,) * moments


def test_what_is_written_of_a_device_goes_before_what_a_precision_makes_of_it() -> None:
    found = device("devices.0.arithmetic.gradients=2 B", "precision=fp8", "optimizer=adam")
    assert found.arithmetic.gradient_bytes == 2.0
    assert found.arithmetic.moment_bytes == (4.0, 4.0)


def test_a_chip_without_peaks_by_format_has_bf16() -> None:
    plain, named = (load_array("tpu-v3-pod", c).group for c in ([], ["precision=bf16"]))
    assert named == plain


def test_settings_tell_where_a_value_is_from() -> None:
    array: Array = load_array("h100-cluster", ["precision=fp8"])
    sources = {setting.key: setting.source for setting in array.settings}
    assert sources["devices.0.arithmetic.compute"] == 'precision = "fp8"'
    assert sources["precision"] == "command line"
