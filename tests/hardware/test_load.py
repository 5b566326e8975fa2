from pathlib import Path

import pytest

from hardware import Roofline, SpecError, catalog_names, load_array, load_device
from tests.strategies import port_bytes_per_s


def test_the_papers_boards() -> None:
    v2, _ = load_device("accpar-tpu-v2")
    v3, _ = load_device("accpar-tpu-v3")
    assert (v2.chips, v2.cores_per_chip, v2.cores) == (4, 2, 8)
    assert (v2.peak_flops_per_s, v3.peak_flops_per_s) == (180e12, 420e12)
    assert (v2.network_bytes_per_s, v3.network_bytes_per_s) == (1e9, 2e9)


def test_googles_boards() -> None:
    v3, _ = load_device("tpu-v3")
    assert v3.chip_peak_flops_per_s == 123e12
    assert v3.hbm_capacity_bytes == 32 * 2**30
    assert v3.hbm_bytes_per_s == 900e9


@pytest.mark.parametrize("name", catalog_names("device"))
def test_every_value_of_a_device_has_a_source(name: str) -> None:
    _, settings = load_device(name)
    keys = {s.key for s in settings}
    assert keys >= {
        "chips",
        "chip.cores",
        "units.clock" if "units.clock" in keys else "chip.peak",
        "hbm.capacity",
        "hbm.bandwidth",
        "network.bandwidth",
    }
    if name in ("tpu-v2", "tpu-v3"):
        assert {s.key for s in settings} >= {
            "roofline.matrix_efficiency",
            "roofline.memory_efficiency",
            "roofline.overhead",
            "roofline.tile",
            "roofline.pad_matrix_unit",
        }
    assert not [s for s in settings if s.source.startswith("set in")]


@pytest.mark.parametrize("name", catalog_names("array"))
def test_every_value_of_an_array_has_a_source(name: str) -> None:
    assert not [s for s in load_array(name).settings if s.source.startswith("set in")]


PLAIN = """
kind = "device"
chips = 1
chip.cores = 1
chip.peak = "1 TFLOP/s"
hbm.capacity = "1 GiB"
hbm.bandwidth = "1 GB/s"
network.bandwidth = "1 Gbit/s"
"""


def test_a_device_without_a_roofline_table_has_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "plain.toml"
    path.write_text(PLAIN)
    device, settings = load_device(str(path))
    assert device.roofline == Roofline(1.0, 0.75, 2e-6, tile=False, pad_matrix_unit=0)
    assert not [s for s in settings if s.key.startswith("roofline")]


def test_a_roofline_table(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PLAIN + '[roofline]\nmemory_efficiency = 0.5\noverhead = "0 s"\ntile = true\n')
    device, _ = load_device(str(path), ["roofline.pad_matrix_unit=64"])
    assert device.roofline == Roofline(1.0, 0.5, 0.0, tile=True, pad_matrix_unit=64)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("roofline.matrix_efficiency=0", "must be a number above 0 and at most 1"),
        ("roofline.memory_efficiency=1.1", "above 0 and at most 1"),
        ("roofline.memory_efficiency=nan", "above 0 and at most 1"),
        ('roofline.memory_efficiency="0.5"', "must be a number above 0"),
        ("roofline.overhead=2", "a quantity needs a unit"),
        ("roofline.overhead=2 GB", "not a unit of s"),
        ("roofline.tile=1", "must be true or false"),
        ("roofline.pad_matrix_unit=-1", "must be a whole number from 0 to 65,536"),
        ("roofline.eficiency=1", "unknown key; did you mean"),
    ],
)
def test_faults_of_a_roofline_table(change: str, fault: str) -> None:
    with pytest.raises(SpecError, match=fault) as error:
        load_device("tpu-v3", [change])
    assert change.partition("=")[0] in str(error.value)


def test_values_change_from_the_command_line() -> None:
    array = load_array(
        "accpar-mixed",
        [
            "devices.0.count=64",
            "devices.1.device=tpu-v3",
            'devices.0.chip.peak="50 TFLOP/s"',
            "network.bandwidth=100 Gbit/s",
        ],
    )
    (first, n), (second, m) = array.group.kinds
    assert (n, m) == (64, 128)
    assert first.chip_peak_flops_per_s == 50e12
    assert second.name == "tpu-v3"
    assert first.network_bytes_per_s == second.network_bytes_per_s == 12.5e9
    sources = {s.key: s.source for s in array.settings}
    assert sources["devices.0.chip.peak"] == "command line"
    assert sources["devices.1.chip.peak"].startswith("Google")


def test_an_entrys_own_value_beats_the_arrays() -> None:
    array = load_array(
        "accpar-mixed",
        ["network.bandwidth=8 Gbit/s", "devices.1.network.bandwidth=80 Gbit/s"],
    )
    assert [d.network_bytes_per_s for d, _ in array.group.kinds] == [1e9, 1e10]


def test_the_command_line_beats_every_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'kind = "array"\n[[devices]]\ndevice = "tpu-v2"\ncount = 2\n'
        'network.bandwidth = "1 Gbit/s"\n'
    )
    assert port_bytes_per_s(load_array(str(path)).group) == 1.25e8
    assert port_bytes_per_s(load_array(str(path), ["network.bandwidth=8 Gbit/s"]).group) == 1e9


def test_users_files_extend_the_catalog_and_each_other(tmp_path: Path) -> None:
    (tmp_path / "fast.toml").write_text(
        'kind = "device"\nextends = "accpar-tpu-v3"\ndescription = "mine"\n'
        'network.bandwidth = "80 Gbit/s"\n[sources]\n"network.bandwidth" = "a wish"\n'
    )
    (tmp_path / "faster.toml").write_text(
        'kind = "device"\nextends = "fast.toml"\nchip.peak = "200 TFLOP/s"\n'
    )
    (tmp_path / "pod.toml").write_text(
        'kind = "array"\nextends = "accpar-mixed"\n[[devices]]\ndevice = "faster.toml"\ncount = 3\n'
    )
    array = load_array(str(tmp_path / "pod.toml"))
    ((device, count),) = array.group.kinds
    assert (array.name, device.name, count) == ("pod", "faster", 3)
    assert device.network_bytes_per_s == 1e10
    assert device.chip_peak_flops_per_s == 200e12
    sources = {s.key: s.source for s in array.settings}
    assert sources["devices.0.network.bandwidth"] == "a wish"
    assert sources["devices.0.chip.peak"].startswith("set in ")


def test_a_file_may_extend_the_catalogs_spec_of_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tpu-v3.toml").write_text(
        'kind = "device"\nextends = "tpu-v3"\nchip.peak = "105 TFLOP/s"\n'
    )
    monkeypatch.chdir(tmp_path)
    device, _ = load_device("tpu-v3.toml")
    assert (device.name, device.chip_peak_flops_per_s) == ("tpu-v3", 105e12)


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('\ufeffkind = "device"\nextends = "tpu-v3"\n')
    assert load_device(str(path))[0].cores == 8


def test_inline_tables_on_the_command_line() -> None:
    array = load_array("accpar-mixed", ['network={bandwidth="100 Gbit/s"}'])
    assert port_bytes_per_s(array.group) == 12.5e9
    array = load_array("accpar-mixed", ["devices.0.chip={cores=3}"])
    assert array.group.kinds[0][0].cores_per_chip == 3


def test_neighbouring_entries_of_one_device_are_one_kind(tmp_path: Path) -> None:
    entry = '[[devices]]\ndevice = "tpu-v2"\ncount = 2\n'
    (tmp_path / "twice.toml").write_text('kind = "array"\n' + entry + entry)
    assert [n for _, n in load_array(str(tmp_path / "twice.toml")).group.kinds] == [4]


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


def test_one_error_lists_every_fault_with_file_and_key(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(BAD_ARRAY)
    with pytest.raises(SpecError) as caught:
        load_array(str(path))
    lines = str(caught.value).splitlines()
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


def test_missing_values_are_named(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.write_text('kind = "device"\n')
    with pytest.raises(SpecError) as caught:
        load_device(str(path))
    assert {line.split(": ")[1] for line in str(caught.value).splitlines()} == {
        "chips",
        "chip",
        "hbm",
        "network",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('extends = "tree"', "{file}: extends: unknown array 'tree'; one of"),
        ('extends = "accpar-mixd"', "{file}: extends: unknown array 'accpar-mixd'; did you mean"),
        ('extends = "gone.toml"', "{file}: extends: {folder}/gone.toml: cannot be read"),
        ('extends = "tpu-v3"', "{file}: extends: catalog/tpu-v3.toml: kind: this must be"),
        ('extends = "second.toml"', "{folder}/second.toml: extends: unknown array 'tree'"),
        ('[[devices]]\ndevice = "tpu"\ncount = 1', "{file}: devices.0.device: unknown device"),
        (
            '[[devices]]\ndevice = "third.toml"\ncount = 1',
            "{file}: devices.0.device: {folder}/third.toml: extends: unknown device 'tree'",
        ),
    ],
)
def test_a_name_that_is_not_known_names_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "self.toml"
    path.write_text(f'kind = "array"\n{text}\n')
    (tmp_path / "second.toml").write_text('kind = "array"\nextends = "tree"\n')
    (tmp_path / "third.toml").write_text('kind = "device"\nextends = "tree"\n')
    with pytest.raises(SpecError) as caught:
        load_array(str(path))
    assert str(caught.value).startswith(words.format(file=path, folder=tmp_path))
    with pytest.raises(SpecError, match=r"^unknown array 'tree'"):
        load_array("tree")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not toml [", "not valid TOML"),
        ('kind = "array"', "devices: is missing"),
        ('kind = "device"', 'kind = "array"'),
        ("", "kind"),
        ('kind = "array"\nextends = 3', "extends"),
        ('kind = "array"\nextends = "self.toml"', "goes round"),
        ('kind = "array"\nextends = "nothing"', "unknown array 'nothing'"),
        ('kind = "array"\ndevices = 3', "must be a table"),
        ('kind = "array"\ndevices = [3]', "devices.0"),
        ('kind = "array"\n[sources]\nx = "y"', "no such keys"),
        ('kind = "array"\nsources = 3', "must be a table"),
        ('kind = "array"\n[[devices]]\ndevice = 3\ncount = true', "devices.0.device: 3"),
        ('kind = "array"\ndevices = [[1], [2]]', "self.toml: devices.1.device: is missing"),
        ('kind = "array"\n[[devices]]\ncount = 1', "self.toml: devices.0.device: is missing"),
        ('kind = "array"\n[[devices]]\ndevice = "a\\u0000.toml"\ncount = 1', "not a path"),
    ],
)
def test_malformed_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "self.toml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_array(str(path))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("devices.2.count=1", "no such entry"),
        ("devices.x.count=1", "no such entry"),
        ("nonsense", "expected KEY=VALUE"),
        ("=3", "expected KEY=VALUE"),
        ("network=3", "must be a table"),
        ("devices=3", "is a table"),
        ("devices.0=3", "is a table"),
        ("network.bandwidth.x=3", "needs a unit"),
        ("network.bandwidth=100", "needs a unit"),
        ("devices.0.chip.peak=inf", "needs a unit"),
        ("devices.0.device=nope", "unknown device"),
    ],
)
def test_changes_that_make_no_sense(change: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_array("accpar-mixed", [change])
    assert words in str(caught.value)
    assert "--set" in str(caught.value)


def test_files_that_are_no_specs(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        load_array(str(tmp_path / "nothing.toml"))
    with pytest.raises(SpecError, match="cannot be read"):
        load_array(f"{tmp_path}/")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not a text file"):
        load_array(str(tmp_path / "binary.toml"))
    (tmp_path / "huge.toml").write_bytes(b"#" * (2 << 20))
    with pytest.raises(SpecError, match="larger than"):
        load_array(str(tmp_path / "huge.toml"))
    (tmp_path / "deep.toml").write_text("a = " + "[" * 5000)
    with pytest.raises(SpecError, match="not valid TOML"):
        load_array(str(tmp_path / "deep.toml"))


def test_an_array_of_absurd_size_is_refused(tmp_path: Path) -> None:
    entries = "".join(
        f'[[devices]]\ndevice = "{name}"\ncount = 65536\n' for name in ("tpu-v2", "tpu-v3") * 2
    )
    (tmp_path / "huge.toml").write_text('kind = "array"\n' + entries)
    with pytest.raises(SpecError, match="262144 accelerators"):
        load_array(str(tmp_path / "huge.toml"))
