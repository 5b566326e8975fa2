"""Software stacks: what they make of devices and links, and what is wrong with one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import accelarray
from experiments.api.inputs import network_of
from hardware import Array, SpecError, Stack, load_array, load_stack
from hardware.device import Roofline
from tests.hardware.conftest import Write
from tests.hardware.specs import STACK


@pytest.fixture
def spec(write: Write) -> str:
    return write(STACK, "ours.toml")


def loaded(spec: str, array: str = "h100-cluster", *changes: str) -> Array:
    return load_array(array, [*changes, f"stack={spec}"])


def test_a_stack_changes_what_a_device_reaches(spec: str) -> None:
    ((device, _),) = loaded(spec).group.kinds
    roofline = device.roofline
    assert (roofline.matrix_efficiency, roofline.attention_efficiency) == (0.63, 0.35)
    assert (roofline.memory_efficiency, roofline.overhead_s) == (0.9, 1e-6)
    assert roofline.host_s == 5e-6
    assert device.arithmetic.gradient_bytes == 2.0
    assert device.arithmetic.gradient_buffer
    assert device.arithmetic.gradient_copy


def test_gradients_of_fp16_may_be_others(spec: str) -> None:
    """Here the other way round than Megatron-LM's, whose default has four bytes."""
    ((device, _),) = loaded(spec, "h100-cluster", "precision=fp16").group.kinds
    assert device.arithmetic.gradient_bytes == 4.0
    found = [
        load_array("a100-cluster", ["stack=megatron-2021", f"precision={one}"]).group.kinds[0][0]
        for one in ("fp16", "bf16")
    ]
    assert [one.arithmetic.gradient_bytes for one in found] == [2.0, 4.0]


@pytest.mark.parametrize("stack", ["megatron-2025", "nemo-2024", "pytorch-2026", "deepspeed-2022"])
def test_gradients_of_wide_weights_are_as_wide(stack: str) -> None:
    """What a stack says of them is of 16-bit weights."""
    for precision in ("fp32", "tf32"):
        array = load_array("a100-cluster", [f"stack={stack}", f"precision={precision}"])
        assert array.group.kinds[0][0].arithmetic.gradient_bytes == 4.0


def test_a_chip_of_its_own_goes_before_all_chips(spec: str) -> None:
    ((a100, _),) = loaded(spec, "a100-cluster").group.kinds
    assert (a100.roofline.matrix_efficiency, a100.roofline.attention_efficiency) == (0.7, 0.2)


def test_a_format_goes_before_all_products(spec: str) -> None:
    for precision, share in (("fp8", 0.665), ("bf16", 0.63), ("fp32", 0.63)):
        ((device, _),) = loaded(spec, "h100-cluster", f"precision={precision}").group.kinds
        assert device.roofline.matrix_efficiency == share


def test_the_command_line_goes_before_a_stack(spec: str) -> None:
    changes = ("devices.0.roofline.matrix_efficiency=0.5", "devices.0.arithmetic.compute=fp8")
    ((device, _),) = loaded(spec, "h100-cluster", *changes).group.kinds
    assert device.roofline.matrix_efficiency == 0.5
    ((device, _),) = loaded(spec, "h100-cluster", changes[1]).group.kinds
    assert device.roofline.matrix_efficiency == 0.665


def test_links_give_a_share_in_collectives(spec: str) -> None:
    plain, stacked = (array.topology.levels for array in (load_array("h100-cluster"), loaded(spec)))
    assert [t.bytes_per_s for t in stacked] == [0.5 * t.bytes_per_s for t in plain]


def test_habits_are_the_arrays(spec: str) -> None:
    assert loaded(spec).stack == Stack(
        "ours", "", "unfused", None, False, 40e6, 0.5, 0.5, True, "arrival"
    )
    assert load_array("h100-cluster").stack is None
    assert load_stack(spec)[0].description == "ours"


def test_values_name_the_stack_they_are_from(spec: str) -> None:
    sources = {setting.key: setting.source for setting in loaded(spec).settings}
    assert sources["devices.0.roofline.host"] == "stack ours: measured"


@pytest.mark.usefixtures("spec")
def test_an_array_names_a_stack_beside_its_own_file(tmp_path: Path) -> None:
    text = 'kind = "array"\nextends = "h100-cluster"\nstack = "ours.toml"\nprecision = "fp8"\n'
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    ((device, _),) = load_array(str(tmp_path / "mine.toml")).group.kinds
    assert device.roofline.matrix_efficiency == 0.665


def test_a_chip_of_a_file_of_ones_own_is_no_mistake(tmp_path: Path) -> None:
    """Whatever it is called where it is in use, and elsewhere unless a chip is called almost so."""
    for name in ("ours", "h100-sxmx"):
        chip = 'kind = "device"\nextends = "h100-sxm"\n'
        (tmp_path / f"{name}.toml").write_text(chip, encoding="utf-8")
        stack = f'kind = "stack"\n[chips.{name}]\nproducts = 0.25\n'
        (tmp_path / "stack.toml").write_text(stack, encoding="utf-8")
        spec = str(tmp_path / "stack.toml")
        own = loaded(spec, "h100-cluster", f"devices.0.device={tmp_path / name}.toml")
        assert own.group.kinds[0][0].roofline.matrix_efficiency == 0.25
        if name == "ours":
            assert loaded(spec).group.kinds[0][0].roofline.matrix_efficiency != 0.25


@pytest.mark.parametrize(("format_", "form"), [("fp32", "eager"), ("fp16", "unfused")])
def test_attention_of_wide_numbers_may_be_another(format_: str, form: str, tmp_path: Path) -> None:
    file = tmp_path / "cards.toml"
    file.write_text(
        f'kind = "array"\nexecution = "deployed"\nstack = "megatron-2021"\n'
        f'precision = "{format_}"\n[[devices]]\ndevice = "v100-16"\ncount = 1\n'
    )
    network = network_of("gpt2:layers=1", (), load_array(str(file)))
    assert network.name == f"gpt2:layers=1, attention {form}"


def test_a_device_has_the_efficiencies_of_the_one_that_it_extends(tmp_path: Path) -> None:
    """But for those that a stack has for it by its own name."""
    (tmp_path / "more.toml").write_text(
        'kind = "device"\nextends = "h100-sxm"\nhbm.capacity = "96 GiB"\n'
    )
    (tmp_path / "own.toml").write_text(
        'kind = "stack"\n[chips.h100-sxm]\nproducts = 0.5\noverhead = "3 us"\n'
        "[chips.more]\nproducts = 0.25\n"
    )
    array = tmp_path / "array.toml"

    def roofline(device: str, stack: str) -> Roofline:
        array.write_text(
            f'kind = "array"\nexecution = "deployed"\nstack = "{stack}"\nprecision = "bf16"\n'
            f'[topology]\nkind = "ring"\n[[devices]]\ndevice = "{device}"\ncount = 2\n'
        )
        return load_array(str(array)).group.kinds[0][0].roofline

    for stack in ("megatron-2025", "pytorch-2026"):
        assert roofline("more.toml", stack) == roofline("h100-sxm", stack)
    theirs = roofline("more.toml", "own.toml")
    assert (theirs.matrix_efficiency, theirs.overhead_s) == (0.25, 3e-6)


@pytest.mark.parametrize(
    ("card", "fp16", "fp32"), [("t4", 0.645, 0.34), ("rtx-4090", 1.0, 0.66), ("l40s", 0.74, 0.51)]
)
def test_cards_reach_less_of_their_peak_in_fp32(
    write: Write, card: str, fp16: float, fp32: float
) -> None:
    """Plain PyTorch's stack has their share in fp32; the card's own is of its matrix units."""
    text = f'kind = "array"\nexecution = "deployed"\n[[devices]]\ndevice = "{card}"\ncount = 1\n'
    file = write(text, "one.toml")
    for precision, share in (("fp16", fp16), ("fp32", fp32)):
        array = load_array(file, [f"precision={precision}", "stack=pytorch-2026"])
        assert array.group.kinds[0][0].roofline.matrix_efficiency == share


@pytest.mark.parametrize(
    ("stack", "array", "like"),
    [
        ("composer-2023", "h200-cluster", "h100-cluster"),
        ("torchtitan-2024", "h100-cluster", "h200-cluster"),
    ],
)
def test_a_chip_with_the_cores_of_another_has_its_efficiencies(
    stack: str, array: str, like: str
) -> None:
    """H100 and H200 differ in their memory alone; a stack has one of them."""
    first, second = (
        load_array(one, [f"stack={stack}"]).group.kinds[0][0].roofline for one in (array, like)
    )
    assert first == second
    slower = load_array(array, [f"stack={stack}", "devices.0.chip.peak=1 TFLOP/s"])
    assert slower.group.kinds[0][0].roofline == first


def test_a_chip_with_other_cores_has_its_own_efficiencies() -> None:
    """A100-PCIe has the cores of the SXM card, but fewer watts to run them."""
    own, with_stack = (
        load_array("a100-cluster", ["devices.0.device=a100-pcie", f"stack={stack}"])
        for stack in ("none", "composer-2023")
    )
    share = own.group.kinds[0][0].roofline.matrix_efficiency
    assert with_stack.group.kinds[0][0].roofline.matrix_efficiency == share


@pytest.mark.parametrize("chip", ["h100-sxm", "b200", "b300"])
def test_a_step_that_is_one_graph_waits_for_no_host(chip: str) -> None:
    array = load_array("h100-cluster", [f"devices.0.device={chip}", "stack=megatron-2026"])
    roofline = array.group.kinds[0][0].roofline
    assert (roofline.host_s, roofline.host_layer_s, roofline.group_s) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("stack", ["ngc-2019", "ngc-2020"])
def test_kernels_of_small_batches_take_their_hosts_as_long_on_any_gpu(stack: str) -> None:
    """Four images a GPU are bound by what starts kernels, 256 by the GPU."""
    times: dict[int, list[float]] = {4: [], 256: []}
    for name, own in (("dgx-1-v100", stack), ("a100-cluster", "nemo-2024")):
        array = load_array(name, ["nodes=1"] * (name != "dgx-1-v100") + [f"stack={own}"])
        for images, found in times.items():
            step = accelarray.simulate("resnet50", "data_parallel", array, 8 * images)
            found.append(step.iteration_s)
    assert times[4][0] == pytest.approx(times[4][1], rel=0.1)
    assert times[256][0] > 1.5 * times[256][1]


def test_a_stack_with_a_share_of_its_own_keeps_what_else_the_same_cores_have(
    tmp_path: Path,
) -> None:
    """As ``papers calibrate`` writes it, of a chip that its base knows by another's cores."""
    own = tmp_path / "own.toml"
    own.write_text('kind = "stack"\nextends = "torchtitan-2024"\n[chips.h100-sxm]\nbf16 = 0.5\n')
    base, with_share = (
        load_array("h100-cluster", [f"stack={stack}"]).group.kinds[0][0].roofline
        for stack in ("torchtitan-2024", own)
    )
    assert base.attention_efficiency != Roofline().attention_efficiency
    assert with_share == replace(base, matrix_efficiency=0.5)


def test_a_stack_that_adds_a_key_keeps_the_efficiencies_of_the_same_cores(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        'kind = "stack"\nextends = "torchtitan-2024"\n[chips.h100-sxm]\ngroup = "1 us"\n'
    )
    theirs, with_key = (
        load_array("h100-cluster", [f"stack={stack}"]).group.kinds[0][0].roofline
        for stack in ("torchtitan-2024", own)
    )
    assert with_key == replace(theirs, group_s=1e-6)


def test_cores_of_which_no_power_is_known_are_not_the_same(tmp_path: Path) -> None:
    """MI300X and MI325X have the same peaks, and no watts in their specs."""
    own = tmp_path / "own.toml"
    own.write_text('kind = "stack"\n[chips.mi300x]\nproducts = 0.123\n')
    array = load_array("mi325x-cluster", [f"stack={own}"])
    assert array.group.kinds[0][0].roofline.matrix_efficiency != 0.123


def test_an_empty_table_of_a_chip_says_nothing(write: Write) -> None:
    stack = write('kind = "stack"\n[chips.h100-sxm]\n')
    array = load_array("h100-cluster", [f"stack={stack}"])
    assert array.group.kinds == load_array("h100-cluster", ["stack=none"]).group.kinds


def test_a_chip_with_a_dot_in_its_name_is_told(write: Write) -> None:
    stack = write('kind = "stack"\n[chips."h1.5"]\nproducts = 0.5\n')
    with pytest.raises(SpecError, match=r'chips\."h1\.5": a name cannot have a dot here'):
        load_stack(stack)
