"""Which keys of a spec gave the fields that somebody asked for."""

from dataclasses import asdict
from pathlib import Path

import pytest

from hardware import Array, Device, load_array
from hardware.watched import KEYS, unread, watched

OTHERS = {
    "chips": "2",
    "chip.cores": "4",
    "chip.peak": "1 TFLOP/s",
    "chip.peak_by_format.bf16": "2 TFLOP/s",
    "chip.peak_by_format.fp32": "3 TFLOP/s",
    "hbm.capacity": "1 GB",
    "hbm.bandwidth": "1 GB/s",
    "network.bandwidth": "1 GB/s",
    "network.latency": "1 ms",
    "network.efficiency": "0.25",
    "network.half_size": "3 MB",
    "links.per_chip": "7",
    "links.bandwidth": "1 GB/s",
    "links.latency": "1 ms",
    "links.efficiency": "0.25",
    "links.half_size": "3 MB",
    "roofline.matrix_efficiency": "0.4",
    "roofline.memory_efficiency": "0.4",
    "roofline.overhead": "1 ms",
    "roofline.tile": "false",
    "roofline.pad_matrix_unit": "16",
    "arithmetic.element": "8 B",
    "arithmetic.fused": "false",
    "arithmetic.compute": "fp8",
    "arithmetic.activations": "8 B",
    "arithmetic.weights": "16 B",
    "arithmetic.gradients": "8 B",
    "arithmetic.master": "12 B",
    "arithmetic.moments": '["8 B"]',
    "energy.mac": "1 mJ",
    "energy.hbm": "1 mJ/B",
    "energy.transfer": "1 mJ/B",
}
"""Every key of a device's spec, with a value that the one below does not have."""
DEVICE = """
kind = "device"
chips = 4
chip = {cores = 2, peak = "5 TFLOP/s"PEAKS}
hbm = {capacity = "8 GB", bandwidth = "8 GB/s"}
network = {bandwidth = "8 GB/s", latency = "1 us", efficiency = 0.5, half_size = "1 MB"}
links = {per_chip = 4, bandwidth = "8 GB/s", latency = "1 us", efficiency = 0.5, half_size = "1 MB"}
energy = {mac = "1 pJ", hbm = "1 pJ/B", transfer = "1 pJ/B"}
[roofline]
matrix_efficiency = 0.5
memory_efficiency = 0.5
overhead = "1 us"
tile = true
pad_matrix_unit = 128
[arithmetic]
element = "2 B"
fused = true
"""
PEAKS = ', peak_by_format = {bf16 = "6 TFLOP/s", fp32 = "7 TFLOP/s", fp8 = "8 TFLOP/s"}'
FORMATS = "".join(f'{key} = "4 B"\n' for key in ("activations", "weights", "gradients"))
FORMATS += 'master = "16 B"\n'


def spec(folder: Path, device: str) -> str:
    (folder / "device.toml").write_text(device)
    path = folder / "array.toml"
    path.write_text('kind = "array"\n[[devices]]\ndevice = "./device.toml"\ncount = 2\n')
    return str(path)


def fields_of(array: Array) -> dict[str, object]:
    """Every field of its one kind of device, as KEYS names them."""
    flat: dict[str, object] = {}
    for name, value in asdict(array.group.kinds[0][0]).items():
        inner = value.items() if isinstance(value, dict) else None
        flat |= {f"{name}.{k}": v for k, v in inner} if inner is not None else {name: value}
    return flat


@pytest.mark.parametrize(
    "device",
    [
        DEVICE.replace("PEAKS", ""),
        DEVICE.replace("PEAKS", "").replace(', efficiency = 0.5, half_size = "1 MB"', ""),
        DEVICE.replace("PEAKS", PEAKS),
        DEVICE.replace("PEAKS", PEAKS) + 'compute = "bf16"\n',
        DEVICE.replace("PEAKS", "") + 'weights = "8 B"\n',
        DEVICE.replace("PEAKS", PEAKS) + FORMATS + 'moments = ["4 B"]\n',
    ],
    ids=["plain", "ideal links", "peaks", "compute", "weights", "formats"],
)
def test_a_key_is_unread_exactly_when_no_field_that_it_changes_is(
    device: str, tmp_path: Path
) -> None:
    path = spec(tmp_path, device)
    array = load_array(path)
    before, keys = fields_of(array), [s.key.removeprefix("devices.0.") for s in array.settings]
    feeds = {}
    for key in (key for key in keys if key in OTHERS):
        after = fields_of(load_array(path, [f"devices.0.{key}={OTHERS[key]}"]))
        feeds[key] = {name for name in before if before[name] != after[name]}
    assert len(feeds) >= 20
    for field in [*KEYS, "chip_peak_flops_per_s"]:
        if field.startswith(("topology.", "units.")):
            continue
        silent = {key.removeprefix("devices.0.") for key in unread(array, [field])}
        assert {key for key in feeds if field in feeds[key]} == feeds.keys() - silent, field


def test_every_field_of_a_device_and_a_topology_has_its_key() -> None:
    array = load_array(
        "tpu-v3-8", ["devices.0.energy.mac=1 pJ", "devices.0.energy.transfer=1 pJ/B"]
    )
    topology = {f"topology.{name}" for name in asdict(array.topology)}
    named = {"name", "extends", "description", "chip_peak_flops_per_s", "units", "power", "price"}
    keys = {key for key in KEYS if not key.startswith("units.")}  # tests/hardware/units
    named |= {"links.half_bytes", "network_half_bytes"}  # parts of the latencies
    assert ((fields_of(array).keys() - named) | topology) - {"topology.share"} == keys


def test_a_watched_array_notes_what_it_is_asked() -> None:
    seen: set[str] = set()
    array = load_array("tpu-v3-8")
    copy = watched(array, seen)
    device = copy.group.kinds[0][0]
    assert isinstance(device, Device)
    seen.clear()  # the array itself has compared its devices' arithmetic
    assert device.cores == array.group.kinds[0][0].cores
    assert device.roofline.overhead_s == array.group.kinds[0][0].roofline.overhead_s
    assert seen == {"chips", "cores_per_chip", "roofline", "roofline.overhead_s"}


def test_equality_and_hashes_ask_nothing_and_are_not_those_of_plain_parts() -> None:
    seen: set[str] = set()
    array = load_array("tpu-v3-8")
    first, again = (watched(array, seen).group.kinds[0][0] for _ in range(2))
    seen.clear()
    assert len({first, array.group.kinds[0][0]}) == 2
    assert first != again  # each copy has watchers of its own
    assert not seen


def test_whether_a_topology_is_shared_reads_its_kind_only_where_it_is() -> None:
    for name, silent in (("hypar-16", False), ("hypar-16-torus", True)):
        seen: set[str] = set()
        array = load_array(name)
        assert watched(array, seen).topology.shared != silent
        assert ("topology.kind" in unread(array, seen)) == silent


def test_a_precision_is_read_where_what_it_says_is() -> None:
    """Its peak, here; an optimizer says nothing but moments, which nobody asks for."""
    seen: set[str] = set()
    array = load_array("h100-cluster", ["precision=fp8", "optimizer=adam"])
    assert watched(array, seen).group.kinds[0][0].chip_peak_flops_per_s == 1979e12
    left = unread(array, seen)
    assert "precision" not in left
    assert "optimizer" in left
    assert "devices.0.arithmetic.moments" in left
    assert {"nodes", "devices.0.arithmetic.compute"}.isdisjoint(left)


def test_the_peak_of_the_attentions_format_is_read_where_attention_is() -> None:
    """Products in fp8 leave attention and the head in bf16."""
    seen: set[str] = set()
    array = load_array("h100-cluster", ["precision=fp8"])
    assert watched(array, seen).group.kinds[0][0].chip_attention_flops_per_s == 989e12
    left = unread(array, seen)
    assert "devices.0.chip.peak_by_format.bf16" not in left
    assert "devices.0.chip.peak_by_format.fp32" in left


def test_a_stack_is_read_where_its_habits_are_or_what_it_makes_of_a_device() -> None:
    seen: set[str] = set()
    array = load_array("h100-cluster", ["stack=nemo-2024"])
    copy = watched(array, seen)
    seen.clear()
    assert "stack" in unread(array, seen)
    assert copy.stack is not None
    assert copy.stack.hidden_tensor == 0.5
    assert "stack" not in unread(array, seen)
    seen.clear()
    assert copy.group.kinds[0][0].roofline.memory_efficiency == 0.8
    assert "stack" not in unread(array, seen)
