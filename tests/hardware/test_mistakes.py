"""Mistakes in specs and on the command line: each message names the place and what is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from hardware import SpecError, load_array, load_device, spec_kind
from tests.hardware.conftest import Write
from tests.hardware.specs import CABLES, POD, STACK, TIERS
from tests.mistakes import refused

FP8 = "chip.peak_by_format.fp8"


@pytest.mark.parametrize(
    ("spec", "change", "says"),
    [
        ("dgx-1-v100", "topology.levels.0.kind=switch", 'levels.0.cables: are of the kind "cab'),
        ("dgx-1-v100", "topology.levels.0.reduces=0.5", "only a switch can sum, not a cables"),
        ("dgx-1-v100", "devices.0.count=17", "levels.0.members: 17 units; at most 16 cables"),
        ("tpu-v3", "roofline.matrix_efficiency=0", "efficiency: 0: must be a number from 1e-09 to"),
        ("tpu-v3", "roofline.memory_efficiency=1.1", "memory_efficiency: 1.1: must be a number"),
        ("tpu-v3", "roofline.memory_efficiency=nan", "memory_efficiency: nan: must be a number"),
        ("tpu-v3", 'roofline.memory_efficiency="0.5"', "efficiency: '0.5': must be a number from"),
        ("tpu-v3", "roofline.overhead=2", "roofline.overhead: 2: a quantity needs a unit"),
        ("tpu-v3", "roofline.overhead=2 GB", "roofline.overhead: '2 GB': 'GB' is not a unit of s"),
        ("tpu-v3", "roofline.tile=1", "roofline.tile: 1: must be true or false"),
        ("tpu-v3", "roofline.pad_matrix_unit=-1", "-1: must be a whole number from 0 to 65,536"),
        ("tpu-v3", "roofline.eficiency=1", "roofline.eficiency: unknown key; did you mean"),
        ("tpu-v3", "arithmetic.element=2", "arithmetic.element: 2: a quantity needs a unit"),
        ("tpu-v3", "arithmetic.gradients=4 s", "gradients: '4 s': 's' is not a unit of B"),
        ("tpu-v3", "arithmetic.weights=32 B", "'32 B': a number has at most 16 B; write"),
        ("tpu-v3", "arithmetic.moments=4 B", "moments: '4 B': must be a list, in [ ]"),
        ("tpu-v3", 'arithmetic.moments=["4 B", 4]', "moments.1: 4: a quantity needs a unit"),
        ("tpu-v3", "arithmetic.gradient=4 B", "gradient: unknown key; did you mean gradients?"),
        ("tpu-v3", "arithmetic.compute=bf61", "compute: 'bf61': must be one of 'fp64', 'fp32'"),
        ("tpu-v3", "chip.peak_by_format.bf61=1 TFLOP/s", "bf61: unknown key; did you mean bf16?"),
        ("tpu-v3", f"{FP8}=1 TB/s", f"{FP8}: '1 TB/s': 'TB/s' is not"),
        ("tpu-v3", "arithmetic.master=1 B", "arithmetic.master: 1 B: the optimizer's copy is no n"),
        (
            "tpu-v3",
            "arithmetic.compute=fp8",
            "'fp8': chip.peak_by_format has no peak of it (is no",
        ),
        ("tpu-v3", "arithmetic.compute=fp8", f'is not given); write {FP8} = "180 TFLOP/s"'),
        ("tpu-v2-units", 'units.clock="7"', "units.clock: '7': not a positive number with a unit"),
        ("tpu-v2-units", "units.matrix.0.width=0", "matrix.0.width: 0: must be a whole number fro"),
        ("tpu-v2-units", 'units.matrix.0.dataflow="row"', "units.matrix.0.dataflow: 'row'"),
        ("tpu-v2-units", "units.vectors.0.width=3", "units.vectors: "),
        ("tpu-v2-units", 'units.buffer="4 KiB"', "128 x 128: no layer fits: its tiles need"),
        ("tpu-v2-units", "roofline.variation=0.02", "roofline.variation: a device with [units]"),
        ("hypar-16", "topology.kind=busy", "topology.kind: 'busy': must be one of 'tree', 'bus', "),
        ("hypar-16", "topology.kind=3", "3: must be one of 'tree', 'bus', 'switch', 'ring'"),
        ("hypar-16", "topology.kin=bus", "unknown key; did you mean kind?"),
        ("hypar-16", "devices.0.energy.mca=1 pJ", "unknown key; did you mean mac?"),
        ("hypar-16", "devices.0.energy.mac=1 J/s", "not a unit of J"),
        ("hypar-16", "devices.0.arithmetic.fused=yes", "must be true or false"),
        ("accpar-mixed", "devices.2.count=1", "--set devices.2.count=1: no such entry"),
        ("accpar-mixed", "devices.x.count=1", "no such entry"),
        ("accpar-mixed", "nonsense", "--set 'nonsense': expected KEY=VALUE"),
        ("accpar-mixed", "=3", "expected KEY=VALUE"),
        ("accpar-mixed", "network=3", "--set network=3: network: 3: must be a table"),
        ("accpar-mixed", "devices=3", "is a table"),
        ("accpar-mixed", "devices.0=3", "is a table"),
        ("accpar-mixed", "network.bandwidth.x=3", "needs a unit"),
        ("accpar-mixed", "network.bandwidth=100", "needs a unit"),
        ("accpar-mixed", "devices.0.chip.peak=inf", "needs a unit"),
        ("accpar-mixed", "devices.0.device=nope", "unknown device"),
        ("accpar-mixed", "execution=deploy", "--set execution=deploy: execution: 'deploy'"),
        ("accpar-mixed", "devices.0.arithmetic.gradients=2 B", "devices.*.arithmetic: one array h"),
        (
            "accpar-homogeneous",
            "devices.0.links.bandwidth=1 GB/s",
            "--set devices.0.links.bandwidth=1 GB/s: devices.0.links.per_chip: is missing",
        ),
        ("accpar-homogeneous", "topology.joins=chips", "accpar-tpu-v3 has no links between chips"),
        ("a100-cluster", "precision=fp8", "a100-80 has no fp8; it has bf16, fp16, tf32, fp32"),
        ("tpu-v5e-slice", "precision=fp16", "precision: tpu-v5e has no fp16; it has bf16, int8"),
        ("tpu-v3-pod", "precision=fp32", "tpu-v3 has no fp32; it has bf16 alone; chip.peak_by"),
        ("ripples-16", "precision=bf16", "gtx-1080-ti has no bf16; it has fp32 alone; chip.peak"),
        ("alveo-u280-1", "precision=bf16", "alveo-u280 has no bf16; it has one peak, of its elem"),
        ("alveo-u280-1", "precision=int8", "in which it computes without a precision; chip.peak"),
        (
            "tpu-v3-pod",
            "precision=fp8",
            'it has bf16 alone; chip.peak_by_format.fp8 = "…" with chip.peak_by_format.bf16 = "…" '
            "gives it that",
        ),
        ("h100-cluster", "precision=fp9", "precision: 'fp9': must be one of 'bf16', 'fp16'"),
        ("h100-cluster", "precision=fp4", "precision: h100-sxm has no fp4; it has"),
        ("h100-cluster", "optimizer=adamw", "must be one of 'adam', 'sgd', 'adafactor'"),
        ("h100-cluster", "nodes=0", "nodes: 0"),
        ("h100-cluster", "stack=nemo", "stack=nemo: stack: unknown stack 'nemo'; did you mean"),
    ],
)
def test_on_the_command_line(spec: str, change: str, says: str) -> None:
    load = load_device if spec_kind(spec) == "device" else load_array
    refused(says, load, spec, [change])


RING = 'kind = "ring"'
HERE = "# here"
LEVEL = "topology.levels"
LOW = f"{LEVEL}.1.protocols.0"


@pytest.mark.parametrize(
    ("spec", "old", "new", "key", "says"),
    [
        (TIERS, "members = 4", "members = 5", LEVEL, "join 15 boards; there are 16"),
        (
            TIERS,
            RING,
            'kind = "ring"\nbandwidth = "1 GB/s"\n[[topology.levels]]\nkind = "switch"',
            f"{LEVEL}.1.members",
            "only the innermost and the outermost level may leave it out",
        ),
        (TIERS, RING, f"{RING}\ndimensions = 3", f"{LEVEL}.1.dimensions", "only a torus or mesh h"),
        (
            TIERS,
            RING,
            'kind = "torus"\nshape = [2, 2]\ndimensions = 3',
            f"{LEVEL}.1.dimensions",
            "[2, 2] has 2 sides; leave it out",
        ),
        (TIERS, 'joins = "boards"', RING, "topology.kind", "each of topology.levels has its own"),
        (TIERS, 'joins = "boards"', "factor = 1.5", "topology.factor", "is of a topology without"),
        (TIERS, 'joins = "boards"', 'latency = "1 us"', "topology.latency", "every level has its"),
        (TIERS, RING, f"{RING}\nrails = 2", f"{LEVEL}.1.rails", "only a switch has rails, not a r"),
        (TIERS, RING, f"{RING}\nshape = [4]", f"{LEVEL}.1.shape", "only a torus or mesh has a sha"),
        (TIERS, RING, 'kind = "torus"\nshape = [3, 2]', f"{LEVEL}.1.shape", "[3, 2] is 6, not 4"),
        (TIERS, RING, 'kind = "switch"\nrails = 3', f"{LEVEL}.1.rails", "4 boards do not share 3"),
        (TIERS, "members = 4", "members = 4\nrails = 2", f"{LEVEL}.0.rails", "a single node has o"),
        (
            TIERS,
            RING,
            f"{RING}\noversubscription = 2.0",
            f"{LEVEL}.1.oversubscription",
            "only a swi",
        ),
        (TIERS, RING, 'kind = "bush"', f"{LEVEL}.1.kind", "'bush'"),
        (TIERS, "efficiency = 0.5", "efficiency = 1.5", f"{LEVEL}.0.efficiency", "1.5"),
        (CABLES, '["0-1"]', '["0-1", "1-4"]', f"{LEVEL}.0.cables", "1-4: a cable is between two o"),
        (CABLES, '["0-1"]', '["0-1", "2-2"]', f"{LEVEL}.0.cables", "2-2: a cable is between two o"),
        (CABLES, '["0-1"]', '["0-1", "2-3"]', f"{LEVEL}.0.cables", "do not lead from node 0 to 2,"),
        (CABLES, '["0-1"]', '["0-1 x0"]', f"{LEVEL}.0.cables.0", "'0-1 x0': must be the two nodes"),
        (CABLES, '["0-1"]', "[]", f"{LEVEL}.0.cables", "[]: must have at least 1 item"),
        (CABLES, 'cables = ["0-1"]', "", f"{LEVEL}.0.cables", "are missing"),
        (TIERS, RING, f'{RING}\nprotocols = ["LL 5 us"]', LOW, "must be like"),
        (TIERS, RING, f'{RING}\nprotocols = ["A ring: 5 + 1 s a step at 1"]', LOW, "write it like"),
        (
            TIERS,
            RING,
            f'{RING}\nprotocols = ["A ring: 0 s + 1 s a step at 9"]',
            LOW,
            "must be like",
        ),
        (POD, HERE, 'kind = "taurus"', "topology.kind", "'torus'"),
        (POD, HERE, 'kind = "torus"\nshape = [3, 3]', "topology.shape", "[3, 3] is 9 nodes; there"),
        (POD, HERE, 'kind = "torus"\nshape = [2, 2, 1, 1]', "topology.shape", "must have at most"),
        (POD, HERE, 'kind = "torus"\nshape = [0, 4]', "topology.shape.0", "0: must be a whole num"),
        (POD, HERE, 'kind = "torus"\nshape = "2x2"', "topology.shape", "must be a list"),
        (POD, HERE, 'kind = "ring"\nshape = [4]', "topology.shape", "only a torus or a mesh"),
        (POD, HERE, 'kind = "switch"\nfactor = 1', "topology.factor", "only a tree"),
        (POD, HERE, "factor = 0", "topology.factor", "must be a number from 0.01 to 100"),
        (POD, HERE, 'kind = "torus"\ntwo_way = false', "topology.two_way", "only a ring"),
        (POD, HERE, 'joins = "cores"', "topology.joins", "must be one of 'boards', 'chips'"),
        (POD, HERE, 'latency = "3 m"', "topology.latency", 'write it like "1.5 us"'),
        (POD, HERE, 'latency = "2000 s"', "topology.latency", "outside 0...1000 s"),
        (POD, HERE, 'bandwidth = "3 GB"', "topology.bandwidth", "not a unit of B/s"),
        (POD, HERE, "links = 3", "topology.links", "did you mean joins?"),
        (
            POD,
            HERE,
            'kind = "torus"\njoins = "chips"\nshape = [4, 2, 2]',
            "topology.kind",
            "a torus of 16 chips needs 4 links per chip",
        ),
        (
            POD,
            HERE,
            'kind = "fully_connected"\njoins = "chips"',
            "topology.kind",
            "needs 15 links per chip; tpu-v2 has 3",
        ),
        (STACK, "products = 0.7", "products = 1.7", "efficiency.products", "1.7: must be a number"),
        (STACK, "fp8 = 0.665", "fp7 = 0.665", "chips.h100-sxm.fp7", "unknown key; did you mean fp"),
        (STACK, '"unfused"', '"flash"', "habits.attention", "must be one of 'fused', 'unfused'"),
        (STACK, "h100-sxm", "h100-smx", "chips.h100-smx", "no such chip; did you mean h100-sxm?"),
        (STACK, '"needed"', '"half"', "habits.recompute", "must be one of 'whole', 'needed'"),
        (STACK, '"arrival"', '"soon"', "habits.update_order", "must be one of 'layers', 'arrival'"),
        (STACK, "buffer = true", "buffer = 1", "habits.gradient_buffer", "1: must be true or fals"),
        (STACK, '"2 B"', '"3 B"', "habits.gradients", "'3 B': must be one of '2 B', '4 B'"),
        (
            STACK,
            "hidden_tensor = 0.5",
            "hidden_tensor = 2",
            "habits.hidden_tensor",
            "must be a number",
        ),
        (STACK, 'kind = "stack"', 'kind = "array"', "kind", 'must be a spec with kind = "stack"'),
    ],
)
def test_in_a_file(write: Write, spec: str, old: str, new: str, key: str, says: str) -> None:
    text = f"{spec}links.per_chip = 3\n[topology]\n{HERE}\n" if spec == POD else spec
    assert old in text
    path = write(text.replace(old, new))
    asked = ("h100-cluster", [f"stack={path}"]) if spec == STACK else (path,)
    message = refused(f"{path}: {key}: ", load_array, *asked)
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not toml [", "not valid TOML"),
        ("", "devices: is missing"),
        ("extends = 3", "extends"),
        ('extends = "mine.toml"', "goes round"),
        ("devices = 3", "must be a table"),
        ("devices = [3]", "devices.0"),
        ('[sources]\nx = "y"', "no such keys"),
        ("sources = 3", "must be a table"),
        ("[[devices]]\ndevice = 3\ncount = true", "devices.0.device: 3"),
        ("devices = [[1], [2]]", "mine.toml: devices.1.device: is missing"),
        ("[[devices]]\ncount = 1", "mine.toml: devices.0.device: is missing"),
        ('[[devices]]\ndevice = "a\\u0000.toml"\ncount = 1', "not a path"),
        ('extends = "tree"', "{file}: extends: unknown array 'tree'; one of"),
        ('extends = "accpar-mixd"', "{file}: extends: unknown array 'accpar-mixd'; did you mean"),
        ('extends = "gone.toml"', "{file}: extends: {folder}/gone.toml: cannot be read"),
        ('extends = "tpu-v3"', "{file}: extends: catalog/tpu-v3.toml: kind: this must be"),
        ('extends = "second.toml"', "{folder}/second.toml: extends: unknown array 'tree'"),
        ('extends = "/etc/passwd"', "{file}: extends: '/etc/passwd': outside the folder"),
        ('extends = "../up.toml"', "{file}: extends: '../up.toml': outside the folder"),
        ('extends = "link.toml"', "{file}: extends: 'link.toml': outside the folder"),
        (
            'stack = "/dev/zero"\n[[devices]]\ndevice = "tpu-v3"\ncount = 1',
            "{file}: stack: '/dev/zero': outside the folder",
        ),
        (
            '[[devices]]\ndevice = "../up.toml"\ncount = 1',
            "{file}: devices.0.device: '../up.toml': outside the folder",
        ),
        ('[[devices]]\ndevice = "tpu"\ncount = 1', "{file}: devices.0.device: unknown device"),
        ('[[devices]]\ndevice = "third.toml"\ncount = 1', "{file}: devices.0.device: {folder}/thi"),
        (
            "nodes = 2\n"
            + "".join(f'[[devices]]\ndevice = "{d}"\ncount = 8\n' for d in ("a100-80", "h100-sxm")),
            "mine.toml: nodes: 2 nodes of unlike devices",
        ),
        (
            "".join(
                f'[[devices]]\ndevice = "{d}"\ncount = 65536\n' for d in ("tpu-v2", "tpu-v3") * 2
            ),
            "262144 accelerators",
        ),
    ],
)
def test_a_file_of_an_array(write: Write, tmp_path: Path, text: str, says: str) -> None:
    write('kind = "array"\nextends = "tree"\n', "second.toml")
    write('kind = "device"\nextends = "tree"\n', "third.toml")
    (tmp_path / "link.toml").symlink_to("/etc/passwd")
    path = write(f'kind = "array"\n{text}\n')
    refused(says.format(file=path, folder=tmp_path), load_array, path)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (None, "cannot be read"),
        (b"", 'kind: this must be a spec with kind = "array"'),
        (b'kind = "device"', 'with kind = "array"; write one, with [[devices]] device = "'),
        (b"\xff\xfe\x00", "not a text file"),
        (b"#" * (2 << 20), "larger than"),
        (b"a = " + b"[" * 5000, "not valid TOML"),
    ],
    ids=["gone", "empty", "other kind", "binary", "huge", "deep"],
)
def test_files_that_are_no_arrays(tmp_path: Path, raw: bytes | None, says: str) -> None:
    path = tmp_path / "mine.toml"
    if raw is not None:
        path.write_bytes(raw)
    refused(says, load_array, str(path))
    refused("cannot be read", load_array, f"{tmp_path}/")
    refused("unknown array 'tree'", load_array, "tree")


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ("h200", "; arrays of it: h200-cluster; or write one, with [[devices]]"),
        ("mi250x", '"array"; write one, with [[devices]] device = "mi250x" and a count'),
    ],
)
def test_a_device_in_place_of_an_array(device: str, says: str) -> None:
    refused(says, load_array, device)


BAD_ARRAY = """\
kind = "array"
colour = "red"
[[devices]]
device = "accpar-tpu-v2"
count = -3
[devices.network]
bandwith = "8 Gbit/s"
bandwidth = 8
[[devices]]
device = "accpar-tpu-v3x"
count = 1.5
[[devices]]
device = "tpu-v3"
count = 99999999
[devices.chip]
peak = "nan TFLOP/s"
cores = 0
[devices.hbm]
capacity = "16 GB/s"
bandwidth = "0 GB/s"
"""


def test_one_error_lists_every_fault_with_file_and_key(write: Write) -> None:
    path = write(BAD_ARRAY)
    lines = refused("", load_array, path).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    for key, words in {
        "colour": "unknown key",
        "devices.0.count": "-3",
        "devices.0.network.bandwidth": "needs a unit",
        "devices.0.network.bandwith": "did you mean bandwidth?",
        "devices.1.device": "did you mean accpar-tpu-v3?",
        "devices.1.count": "1.5",
        "devices.2.count": "from 1 to 65,536",
        "devices.2.chip.peak": "not a positive number",
        "devices.2.chip.cores": "must be a whole number from 1 to 4,096",
        "devices.2.hbm.capacity": "not a unit of B",
        "devices.2.hbm.bandwidth": "outside 1...",
    }.items():
        assert [line for line in lines if f": {key}: " in line and words in line], (key, lines)
    assert len(lines) == 11


def test_missing_values_are_named(write: Write) -> None:
    lines = refused("", load_device, write('kind = "device"\n')).splitlines()
    assert {line.split(": ")[1] for line in lines} == {"chips", "chip", "hbm", "network"}


def test_faults_of_an_arrays_entry_name_the_file_and_the_entry(write: Write) -> None:
    odd = write(
        'kind = "device"\nextends = "tpu-v3"\n'
        '[chip.peak_by_format]\nfp32 = "9 TFLOP/s"\nint8 = "400 TFLOP/s"\n'
        '[arithmetic]\ncompute = "fp8"\nweights = "4 B"\nmaster = "2 B"\n',
        "odd.toml",
    )
    array = write('kind = "array"\n[[devices]]\ndevice = "odd.toml"\ncount = 1\n')
    first, second = refused("has no peak of it (has fp32, int8)", load_array, array).splitlines()
    assert first.startswith(f"{odd}: devices.0.arithmetic.compute")
    assert second.startswith(f"{odd}: devices.0.arithmetic.master")


def test_too_many_nodes_are_not_fully_connected() -> None:
    change = ["topology.kind=fully_connected", "devices.0.count=4096"]
    refused("4096 boards; at most 2048", load_array, "accpar-homogeneous", change)


def test_a_file_of_that_name_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as before:
        load_array("my-torus")
    assert "my-torus.toml" not in str(before.value)
    Path("my-torus.toml").write_text('kind = "array"')
    with pytest.raises(SpecError, match=r"did you mean my-torus\.toml\?"):
        load_array("my-torus")
