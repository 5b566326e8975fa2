"""Number formats: what a spec says of them, what follows, and what is refused."""

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Arithmetic, Device, SpecError, load_array, load_device

WIDTHS = st.sampled_from((1.0, 2.0, 4.0, 8.0))
MAYBE = st.none() | WIDTHS


@pytest.mark.parametrize(
    ("element", "activations", "weights", "gradients", "master", "moments"),
    [
        (1.0, 1.0, 1.0, 4.0, 4.0, (4.0,)),
        (2.0, 2.0, 2.0, 4.0, 4.0, (4.0,)),  # bfloat16 as TPUs train with it
        (4.0, 4.0, 4.0, 4.0, 4.0, (4.0,)),
        (8.0, 8.0, 8.0, 8.0, 8.0, (8.0,)),
    ],
)
def test_what_follows_the_element(
    element: float,
    activations: float,
    weights: float,
    gradients: float,
    master: float,
    moments: tuple[float, ...],
) -> None:
    device, _ = load_device("tpu-v3", [f'arithmetic.element="{element:g} B"'])
    expected = Arithmetic(element, False, activations, weights, gradients, master, moments)
    assert device.arithmetic == expected == Arithmetic.of(element)


def test_a_device_that_says_nothing_is_bfloat16() -> None:
    plain = Device("plain", 1, 1, 1e12, 1e9, 1e9, 1e9)
    assert plain.arithmetic == load_device("tpu-v2")[0].arithmetic == Arithmetic.of(2.0)


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


@given(WIDTHS, MAYBE, MAYBE, MAYBE)
def test_what_is_said_is_kept_and_the_optimizer_is_no_narrower(
    element: float, activations: float | None, weights: float | None, gradients: float | None
) -> None:
    found = Arithmetic.of(
        element, activation_bytes=activations, weight_bytes=weights, gradient_bytes=gradients
    )
    assert found.element_bytes == element
    assert found.activation_bytes == (activations or element)
    assert found.weight_bytes == (weights or element)
    assert found.gradient_bytes == (gradients or max(4.0, found.weight_bytes))
    assert found.master_bytes == found.moment_bytes[0] == max(4.0, found.weight_bytes)
    said = Arithmetic.of(element, activation_bytes=element, weight_bytes=element)
    assert said == Arithmetic.of(element)  # one value, however it is written


def test_an_array_has_one_arithmetic_in_every_format() -> None:
    with pytest.raises(SpecError, match="one number format"):
        load_array("accpar-mixed", ["devices.0.arithmetic.gradients=2 B"])
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("arithmetic.element=2", "arithmetic.element: 2: a quantity needs a unit"),
        ("arithmetic.gradients=4 s", "arithmetic.gradients: '4 s': 's' is not a unit of B"),
        ("arithmetic.weights=32 B", "arithmetic.weights: '32 B': a number has at most 16 B; write"),
        ("arithmetic.moments=4 B", "arithmetic.moments: '4 B': must be a list, in [ ]"),
        ('arithmetic.moments=["4 B", 4]', "arithmetic.moments.1: 4: a quantity needs a unit"),
        ("arithmetic.gradient=4 B", "arithmetic.gradient: unknown key; did you mean gradients?"),
        ("arithmetic.compute=bf61", "arithmetic.compute: 'bf61': must be one of 'fp64', 'fp32'"),
        ("chip.peak_by_format.bf61=1 TFLOP/s", "bf61: unknown key; did you mean bf16?"),
        ("chip.peak_by_format.fp8=1 TB/s", "chip.peak_by_format.fp8: '1 TB/s': 'TB/s' is not"),
        (
            "arithmetic.master=1 B",
            "arithmetic.master: 1 B: the optimizer's copy is no narrower than the weights, "
            "which have 2 B",
        ),
        (
            "arithmetic.compute=fp8",
            "arithmetic.compute: 'fp8': chip.peak_by_format has no peak of it (is not given); "
            'write chip.peak_by_format.fp8 = "180 TFLOP/s"',
        ),
    ],
)
def test_faults_name_the_key(change: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_device("tpu-v3", [change])
    assert words in str(caught.value)


def test_faults_of_an_arrays_entry_name_the_file_and_the_entry(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text(
        'kind = "device"\nextends = "tpu-v3"\n'
        '[chip.peak_by_format]\nfp32 = "9 TFLOP/s"\nint8 = "400 TFLOP/s"\n'
        '[arithmetic]\ncompute = "fp8"\nweights = "4 B"\nmaster = "2 B"\n'
    )
    array = tmp_path / "array.toml"
    array.write_text('kind = "array"\n[[devices]]\ndevice = "odd.toml"\ncount = 1\n')
    with pytest.raises(SpecError) as caught:
        load_array(str(array))
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"{tmp_path}/odd.toml: devices.0.arithmetic.") for line in lines)
    assert "chip.peak_by_format has no peak of it (has fp32, int8)" in lines[0]
