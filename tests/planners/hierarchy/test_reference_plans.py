"""Plans and costs of the AccPar authors' released program, ties included."""

import json
from pathlib import Path
from typing import Any

import pytest

from hardware import load_array
from planners import TRAFFIC, load_planner
from workloads import Network, read_layer_file

DATA = Path(__file__).parents[2] / "data" / "accpar_reference"
CASES = {case["name"]: case for case in json.loads((DATA / "plans.json").read_text())}


def layer_file(case: dict[str, Any]) -> str:
    """The case's layers in the program's own format (the map before pooling does not matter)."""
    lines = [f"num_layers {len(case['layers'])}"]
    for layer in case["layers"]:
        lines.append(f"{layer['name']} {layer['kind'].upper()}")
        values = {"in_ch": layer["in_channels"]}
        if layer["kind"] == "conv":
            values |= dict(zip(("in_fmap_h", "in_fmap_w"), layer["in_map"], strict=True))
            values["kernel"] = layer["kernel"]
        values["out_ch"] = layer["out_channels"]
        if layer["kind"] == "conv":
            values |= dict(zip(("out_fmap_h", "out_fmap_w"), layer["out_map"], strict=True))
            values["pool"] = 1
        lines += [f"{key} {value}" for key, value in values.items()]
    return "\n".join(lines)


def network_of(case: dict[str, Any], folder: Path) -> Network:
    path = DATA / f"{case['name']}.txt"
    if not path.exists():
        path = folder / f"{case['name']}.txt"
        path.write_text(layer_file(case))
    return read_layer_file(path)


@pytest.mark.parametrize("planner", ["data_parallel", "owt", "hypar", "accpar"])
@pytest.mark.parametrize("name", CASES)
def test_plans_and_costs_equal_the_programs(name: str, planner: str, tmp_path: Path) -> None:
    case = CASES[name]
    array = load_array("accpar-homogeneous", [f"devices.0.count={2 ** case['levels']}"])
    plan = load_planner(planner)(network_of(case, tmp_path), array, case["batch"], TRAFFIC)
    levels = plan.levels()
    assert levels is not None
    assert [[int(kind) for kind in split.types] for split in levels] == case["plans"][planner]
    if planner in case["level_cost_elements"]:
        assert [split.cost for split in levels] == case["level_cost_elements"][planner]


@pytest.mark.parametrize("name", [name for name in CASES if (DATA / f"{name}.txt").exists()])
def test_the_layer_files_hold_the_cases_layers(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.txt"
    path.write_text(layer_file(CASES[name]))
    ours, theirs = read_layer_file(DATA / f"{name}.txt"), read_layer_file(path)
    weighted = [layer for layer in ours.layers if layer.weighted]
    assert [(w.name, w.input, w.weights) for w in weighted] == [
        (w.name, w.input, w.weights) for w in theirs.layers
    ]
