"""What commands say of values that their execution model does not read."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import accelarray
from experiments.cli import main
from experiments.studies import unread as module
from experiments.studies.case import Case, step_of
from experiments.studies.comparison import scaled
from experiments.studies.unread import changed, warnings
from hardware import load_array
from simulator import DEPLOYED, PUBLISHED, Execution
from workloads import load_network

BANDWIDTH = "devices.0.hbm.bandwidth=9 TB/s"
SAID = (
    "The published model does not read devices.0.hbm.bandwidth, which was changed; the deployed "
    "model does."
)
SPEC = (
    "The published model does not read hbm, roofline of this array's spec; the deployed model does."
)


@pytest.mark.parametrize(
    "name", ["accpar-mixed", "tpu-v3-8", "hypar-16", "ring-8", "ethernet-100g"]
)
@pytest.mark.parametrize("execution", [PUBLISHED, DEPLOYED], ids=str)
@pytest.mark.parametrize(
    ("change", "doubled"),
    [
        ("devices.0.hbm.bandwidth", "9 TB/s"),
        ("devices.0.chip.peak", "1 TFLOP/s"),
        ("devices.0.roofline.memory_efficiency", "0.01"),
        ("network.bandwidth", "1 Gbit/s"),
        ("network.latency", "1 s"),
    ],
)
def test_what_is_said_not_to_be_read_changes_nothing(
    name: str, execution: Execution, change: str, doubled: str
) -> None:
    """And what changes a step is never said: the engine itself is the judge."""
    before, after = (load_array(name, changes) for changes in ((), (f"{change}={doubled}",)))
    network = load_network("lenet")
    steps = [
        step_of(Case(network, "data_parallel", a, 512, execution=execution))[1].iteration_ps
        for a in (before, after)
    ]
    assert bool(changed(after, execution)) <= (steps[0] == steps[1])
    if change == "network.latency" and execution is PUBLISHED:
        assert changed(after, execution)


@pytest.mark.parametrize("recompute", ["none", "selective", "full", "2"])
def test_recomputation_that_the_probe_cannot_do_hides_nothing(recompute: str) -> None:
    """The network that is run to see what is read has no attention, and no blocks."""
    array = load_array("h100-cluster", ["devices.0.network.bandwidth=1 Gbit/s"])
    (said,) = changed(array, replace(DEPLOYED, recompute=recompute))
    assert said.startswith("The deployed model does not read devices.0.network.bandwidth")


@pytest.mark.parametrize(("nodes", "lone"), [(1, True), (2, False)])
def test_the_network_of_one_node_is_not_read(nodes: int, lone: bool) -> None:
    key = "topology.levels.1.bandwidth"
    slow = load_array("h100-cluster", [f"nodes={nodes}", f"{key}=1 GB/s"])
    told = [said for said in changed(slow, DEPLOYED) if f"not read {key}" in said]
    assert len(told) == lone
    ports = load_array("h100-cluster", [f"nodes={nodes}", "devices.0.network.bandwidth=1 GB/s"])
    assert (key in " ".join(changed(ports, DEPLOYED))) != lone


def test_other_models_are_named_only_where_they_read_it() -> None:
    (said,) = changed(load_array("tpu-v3-8", ["network.latency=1 us"]), DEPLOYED)
    assert said == (
        "The deployed model does not read network.latency, which was changed; no model does."
    )
    (said,) = changed(load_array("dgx-h100", ["devices.0.chip.peak=300 TFLOP/s"]), DEPLOYED)
    assert said.endswith("products are in another format: change chip.peak_by_format.bf16.")
    assert warnings(load_array("accpar-mixed"), DEPLOYED) == []
    assert warnings(load_array("tpu-v3-8"), DEPLOYED) == []  # its port is nobody's matter


@pytest.mark.parametrize(
    ("name", "change", "read"),
    [
        ("h100-cluster", "network.bandwidth=1 Gbit/s", False),
        ("h100-cluster", "devices.0.chip.peak=1 TFLOP/s", False),
        ("h100-cluster", "topology.levels.1.bandwidth=1 Gbit/s", True),
        ("mixed-a100-h100", "devices.1.chip.peak=1 TFLOP/s", False),
        ("tpu-v3-8", "devices.0.roofline.blocking=true", False),
        ("tpu-v3-8", "devices.0.chip.exponentials=1 TFLOP/s", True),
        ("units.toml", "devices.0.chip.exponentials=1 TFLOP/s", False),
        ("units.toml", "devices.0.roofline.blocking=true", False),
    ],
)
def test_a_value_without_the_one_that_it_is_about_is_not_read(
    name: str, change: str, read: bool, tmp_path: Path
) -> None:
    """Nobody waits for a host that takes no time; units have exponentials of their own."""
    (tmp_path / "units.toml").write_text(
        'kind = "array"\nexecution = "deployed"\n[topology]\nkind = "ring"\n'
        '[[devices]]\ndevice = "tpu-v2-units"\ncount = 1\nroofline.host = "1 us"\n'
    )
    array = load_array(str(tmp_path / name) if name == "units.toml" else name, [change])
    assert (changed(array, DEPLOYED) == []) is read


def test_a_kind_of_topology_means_something_to_published_only_as_a_bus() -> None:
    ring, bus = (load_array("hypar-16", [f"topology.kind={kind}"]) for kind in ("ring", "bus"))
    assert "topology.kind, which was changed" in changed(ring, PUBLISHED)[0]
    assert changed(bus, PUBLISHED) == []


STEP = ["lenet", "--set", BANDWIDTH, "--execution", "published"]
COMMANDS = {
    "simulate": ["simulate", *STEP, "--planner", "owt"],
    "compare": ["compare", *STEP, "--planners", "owt,accpar"],
    "explain": ["explain", *STEP, "--planner", "owt"],
    "speedup": ["speedup", "--networks", *STEP, "--planners", "owt"],
    "levels": ["speedup", "--networks", *STEP, "--planners", "owt", "--levels", "2,3"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_say_it_once_and_in_json(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(COMMANDS[command]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines.count(said) for said in (SAID, SPEC)] == [1, 1]
    assert main([*COMMANDS[command], "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["warnings"]
    assert [found.count(said) for said in (SAID, SPEC)] == [1, 1]


def test_a_sweep_says_it_of_varied_values_and_in_its_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    axes = ["devices.0.hbm.bandwidth=1 TB/s,2 TB/s", "execution=published,deployed"]
    file = tmp_path / "x.json"
    command = ["sweep", "--networks", "lenet", "--planners", "owt", "--output", str(file)]
    assert main([*command, *(word for axis in axes for word in ("--vary", axis))]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [SAID, SPEC]
    rows = json.loads(file.read_text())
    assert {row["execution"]: row["warnings"] for row in rows} == {
        "published": [SAID],
        "deployed": [],
    }
    result = accelarray.sweep(axes, "lenet", "owt")
    assert result.to_dict()["warnings"] == [SAID, SPEC]


def test_a_trace_has_no_table_so_stderr_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["--planner", "owt", "--output", str(tmp_path / "x.csv")]
    assert main(["timeline", *STEP, *output]) == 0
    assert f"accelarray: warning: {SAID}\n" in capsys.readouterr().err


def test_results_of_a_script_have_it_too() -> None:
    step = accelarray.simulate("lenet", "owt", set=BANDWIDTH)
    assert step.unread == step.to_dict()["warnings"] == [SAID, SPEC]
    assert SAID in step.summary().splitlines()
    other = accelarray.simulate("lenet", "accpar", set=BANDWIDTH)
    assert accelarray.difference(step, other).to_dict()["warnings"].count(SAID) == 1
    assert SAID in accelarray.compare("lenet", "owt", set=BANDWIDTH).to_dict()["warnings"]


def test_how_a_large_boards_chips_are_joined_is_said_where_it_is_assumed() -> None:
    """Eight chips on a board are a mesh of 4 x 2 unless something else is said."""
    array = load_array("accpar-homogeneous", ["devices.0.chips=8", "devices.0.count=2"])
    said = [text for text in warnings(array, DEPLOYED) if "are taken to be joined" in text]
    assert said == [
        "The 8 chips of a accpar-tpu-v3 are taken to be joined as a 4 x 2 mesh; "
        'topology.joins = "chips" with [[topology.levels]] says how they are.'
    ]
    assert not [text for text in warnings(array, PUBLISHED) if "are taken to be joined" in text]
    plain = load_array("accpar-homogeneous")
    assert not [text for text in warnings(plain, DEPLOYED) if "are taken to be joined" in text]


def test_the_large_arrays_of_a_sweep_of_sizes_are_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What they are called, and where their values are from, does not change what is read."""
    arrays = [scaled(load_array("accpar-mixed"), level) for level in (5, 9, 16)]
    first = warnings(arrays[0], PUBLISHED)
    monkeypatch.setattr(module, "simulate", lambda *_, **__: pytest.fail("asked again"))
    assert [warnings(array, PUBLISHED) for array in arrays] == [first] * 3


def test_what_counts_in_place_of_a_port_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    step = ("simulate", "gpt2", "--array", "h100-cluster", "--parallel", "dp=32", "--batch", "64")
    for key in ("network.bandwidth", "devices.0.network.bandwidth"):
        assert main([*step, "--set", f"{key}=800 Gbit/s"]) == 0
        assert (
            f"does not read {key}, which was changed; what counts here is "
            "topology.levels.0.bandwidth and topology.levels.1.bandwidth."
        ) in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("second", ["a100-40", "l40s"])
def test_ports_of_devices_are_not_read_where_the_outer_tier_has_its_own(
    second: str, tmp_path: Path
) -> None:
    levels = 'kind = "switch"\nmembers = 4\n[[topology.levels]]\nkind = "switch"\n'
    path = tmp_path / "mine.toml"
    path.write_text(
        'kind = "array"\nexecution = "deployed"\n[topology]\njoins = "chips"\n'
        f'[[topology.levels]]\n{levels}bandwidth = "100 Gbit/s"\n'
        f'[[devices]]\ndevice = "a100-40"\ncount = 4\n[[devices]]\ndevice = "{second}"\ncount = 4\n'
    )
    array = load_array(str(path), ["devices.0.network.bandwidth=1 Gbit/s"])
    (said,) = changed(array, DEPLOYED)
    assert "does not read devices.0.network.bandwidth" in said


def test_a_tiers_latency_is_not_that_of_small_messages(capsys: pytest.CaptureFixture[str]) -> None:
    """Its protocols have their own; without them all messages have the tier's."""
    ask, times = ["collective", "all-reduce", "--bytes", "1MB", "--array", "dgx-h100"], []
    for without in ([], ["--set", "topology.levels.0.protocols=[]"]):
        for latency in ("0 s", "500 us"):
            change = ["--set", f"topology.levels.0.latency={latency}"]
            assert main([*ask, *without, *change, "--format", "json"]) == 0
            found = json.loads(capsys.readouterr().out)
            times.append(found["time_s"])
            said = "Small collectives may not read topology.levels.0.latency: ring ones and direct"
            assert (said in str(found["warnings"])) == (not without)
    assert times[0] == times[1]
    assert times[3] > times[2] + 500e-6


@pytest.mark.parametrize("key", ["chip.peak", "chip.peak_by_format.bf16"])
def test_units_say_the_peak_in_place_of_the_chip(key: str) -> None:
    array = load_array("tpu-v3-8", ["devices.0.device=tpu-v3-units", f"devices.0.{key}=9 TFLOP/s"])
    (said,) = changed(array, DEPLOYED)
    assert f"devices.0.{key}" in said
    assert said.endswith("what counts here is units.clock and units.matrix.")


@pytest.mark.parametrize(
    "change",
    [
        "matrix_efficiency=0.5",
        "attention_efficiency=0.2",
        "attention_backward=0.5",
        "pad_heads=128",
        "causal_tile=256",
        "pad_matrix_unit=512",
        "winograd=2",
    ],
)
def test_units_price_their_products_themselves(change: str) -> None:
    key = f"devices.0.roofline.{change}"
    array = load_array("tpu-v3-8", ["devices.0.device=tpu-v3-units", key])
    (said,) = changed(array, DEPLOYED)
    assert said.startswith(f"The deployed model does not read {key.partition('=')[0]}, ")
    assert said.endswith("no model does.")


def test_energy_of_exchanges_where_nothing_is_exchanged() -> None:
    energy = [f"devices.0.energy.{key}" for key in ("mac=1 pJ", "hbm=1 pJ/B", "transfer=9 pJ/B")]
    (said,) = changed(load_array("wham-1", energy), DEPLOYED)
    assert said.endswith("energy.transfer, which was changed; nothing is exchanged here.")


@pytest.mark.parametrize(("count", "told"), [(8, True), (32, True), (64, False)])
def test_small_tori_of_tpus_have_no_links_around(count: int, told: bool) -> None:
    said = warnings(load_array("tpu-v4-slice", [f"devices.0.count={count}"]), DEPLOYED)
    assert any("slices of TPU v4 and v5p" in one for one in said) == told


def test_what_whole_shards_read_is_not_read_by_no_model() -> None:
    array = load_array("a100-cluster", ["devices.0.roofline.pad_heads=96"])
    (said,) = changed(array, replace(DEPLOYED, whole_shards=False))
    assert said.endswith("the deployed (--shards whole) model does.")


def test_a_stack_without_a_share_of_peak_for_a_chip_is_told() -> None:
    """The chip's own is that of its best products; who sets one is not told."""
    array = load_array("a100-cluster", ["stack=maxtext-2024"])
    (said,) = warnings(array, DEPLOYED)
    assert said == (
        "Stack maxtext-2024 does not say how near products come to the peak of a100-80: that of "
        "its spec is taken, 0.87."
    )
    for changes in (
        ["stack=maxtext-2024", "devices.0.roofline.matrix_efficiency=0.5"],
        ["stack=nemo-2024"],
        [],
    ):
        assert not any(
            "of its spec is taken" in one
            for one in warnings(load_array("a100-cluster", changes), DEPLOYED)
        )
    assert not any(
        "of its spec is taken" in one for one in warnings(load_array("tpu-v3-8"), DEPLOYED)
    )


def test_a_stack_that_says_nothing_of_a_chip_is_told_with_both_shares() -> None:
    """Convolutional networks wait for memory more than for products."""
    (said,) = warnings(load_array("dgx-h100", ["stack=ngc-2020"]), DEPLOYED)
    assert said == (
        "Stack ngc-2020 does not say how near products come to the peak and traffic comes to the "
        "bandwidth of h100-sxm: those of its spec are taken, 0.8 and 0.8."
    )


def test_links_of_a_chip_are_those_of_a_tier_and_a_format_is_that_of_products() -> None:
    (said,) = changed(load_array("h100-cluster", ["devices.0.links.per_chip=36"]), DEPLOYED)
    assert said.endswith("topology.levels.0.bandwidth and topology.levels.1.bandwidth.")
    peak = "devices.0.chip.peak_by_format.fp16"
    (said,) = changed(load_array("h100-cluster", [f"{peak}=1 TFLOP/s"]), DEPLOYED)
    assert said.endswith(f"{peak}, which was changed; products are in bf16 (precision).")
