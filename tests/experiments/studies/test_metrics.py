"""``--metrics``: energy and traffic in every table that shows time, and nothing unless asked."""

import csv
import io
import json
import shlex
from pathlib import Path

import pytest

from experiments.cli import main
from hardware import load_array
from planners import load_planner
from simulator import Timeline, simulate
from workloads import load_network

ON = ("--array", "hypar-16", "--batch", "256")
ALL = ("--metrics", "time,energy,traffic")
NETWORK = "hypar-lenet-c"


def out(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(args) == 0
    return capsys.readouterr().out


def table(file: str) -> list[dict[str, str]]:
    with Path(file).open() as lines:
        return list(csv.DictReader(lines))


def step(planner: str) -> Timeline:
    array, network = load_array("hypar-16"), load_network(NETWORK)
    return simulate(network, load_planner(planner)(network, array, 256), array)


def test_simulate(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("simulate", NETWORK, "--planner", "hypar", *ON)
    data = json.loads(out(capsys, *args, *ALL, "--format", "json"))
    timeline = step("hypar")
    assert data["energy_j"] == timeline.energy_j
    assert data["traffic_bytes"] == timeline.traffic_bytes
    assert (
        not {"energy_j", "traffic_bytes"}
        & json.loads(out(capsys, *args, "--format", "json")).keys()
    )
    assert f"{timeline.energy_j:.6g} J" in out(capsys, *args, *ALL)


def test_speedup(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("speedup", *ON, "--networks", NETWORK, "--planners", "hypar,model_parallel")
    data = json.loads(out(capsys, *args, *ALL, "--format", "json"))
    base = step("data_parallel").energy_j or 0
    for row in data["rows"]:
        timeline = step(row["planner"])
        assert row["energy_j"] == timeline.energy_j
        assert row["energy_efficiency"] == base / (timeline.energy_j or 1)
        assert row["traffic_bytes"] == timeline.traffic_bytes
        assert data["geomean_energy"][row["planner"]] == pytest.approx(row["energy_efficiency"])
    columns = ["network", "planner", "iteration_s", "speedup", "slow_share", "fast_alone_speedup"]
    for metrics, more in (((), []), (("--metrics", "time,traffic"), ["traffic_bytes"])):
        text = out(capsys, *args, *metrics, "--format", "csv")
        assert next(csv.reader(io.StringIO(text))) == [
            *columns,
            *more,
            "samples_per_s",
            "mfu",
            "share_of_peak",
            "lower_bound_s",
            "step_gap",
        ]
    text = out(capsys, *args, "--metrics", "energy,traffic")
    assert "Speedup" not in text
    assert "Energy efficiency over data parallelism" in text
    assert "hypar [GB]" in text


def test_compare(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("compare", NETWORK, "--planners", "owt,hypar", *ON)
    data = json.loads(out(capsys, *args, *ALL, "--format", "json"))
    assert data["energy_j"] == [step(planner).energy_j for planner in ("owt", "hypar")]
    assert data["traffic_bytes"] == [step(p).traffic_bytes for p in ("owt", "hypar")]
    assert "traffic [GB]" in out(capsys, *args, *ALL)
    assert "traffic [GB]" not in out(capsys, *args)


def test_levels(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("speedup", *ON, "--networks", NETWORK, "--planners", "hypar", "--levels", "1-2")
    data = json.loads(out(capsys, *args, *ALL, "--format", "json"))
    assert [sorted(level) for level in data["levels"]] == [
        ["accelerators", "geomean", "geomean_energy", "geomean_traffic", "levels", "rows"]
    ] * 2
    assert "Traffic of a step in GB" in out(capsys, *args, *ALL)


SWEEP = ("sweep", *ON, "--networks", NETWORK, "--planners", "hypar", "--jobs", "1")


def test_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, store = str(tmp_path / "t.csv"), str(tmp_path / "s.db")
    args = (*SWEEP, "--vary", "devices.0.count=8,16", "--store", store, "--output", file)
    out(capsys, *args, *ALL)
    (_, row), timeline = table(file), step("hypar")
    assert float(row["energy_j"]) == timeline.energy_j
    assert float(row["traffic_bytes"]) == timeline.traffic_bytes
    out(capsys, *args)  # from the store
    assert not {"energy_j", "traffic_bytes"} & table(file)[0].keys()


def test_the_table_is_a_part_of_the_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, store = str(tmp_path / "t.csv"), str(tmp_path / "s.db")
    args = (*SWEEP, "--vary", "batch=256", "--store", store, "--output", file)
    seconds = []
    for communication in ("printed", "plotted"):
        out(capsys, *args, "--communication", communication)
        (row,) = table(file)
        seconds.append(row["iteration_s"])
        assert row.get("communication", "printed") == communication
    assert seconds[0] != seconds[1]


def test_energies_can_be_given_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    changes = [
        word
        for i in (0, 1)
        for key, value in (("mac", "1 pJ"), ("transfer", "100 pJ/B"))
        for word in ("--set", f"devices.{i}.energy.{key}={value}")
    ]
    args = ("simulate", "lenet", "--planner", "accpar", "--metrics", "energy")
    assert "energy" in out(capsys, *args, *changes)


def test_energy_of_hbm_that_nobody_gave_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    args = [
        "simulate",
        "lenet",
        "--planner",
        "accpar",
        "--array",
        "tpu-v3-8",
        "--metrics",
        "energy",
    ]
    given = {"mac": "4.6 pJ", "transfer": "640 pJ/B", "hbm": "30 pJ/B"}
    for keys, told in ((("mac", "transfer"), True), (("mac", "transfer", "hbm"), False)):
        sets = [w for key in keys for w in ("--set", f"devices.0.energy.{key}={given[key]}")]
        said = out(capsys, *args, *sets)
        assert ("Bytes of HBM take no energy here: energy.hbm of tpu-v3" in said) == told


def test_devices_without_energy_are_named_by_their_entries(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two alike entries are one kind; what the message says to set is enough."""
    mine = tmp_path / "mine.toml"
    kinds = ("a100-80", "a100-80", "h100-sxm")
    entries = "".join(f'[[devices]]\ndevice = "{one}"\ncount = 2\n' for one in kinds)
    mine.write_text(f'kind = "array"\nexecution = "published"\n{entries}')
    args = ["simulate", "lenet", "--planner", "accpar", "--metrics", "energy", "--array", str(mine)]
    assert main(args) == 2
    said = capsys.readouterr().err
    assert "devices.2.energy.hbm" in said
    sets = shlex.split(said[said.index("--set") :])
    out(capsys, *args, *sets)
