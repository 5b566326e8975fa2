"""Files of graphs, profiles and placements with a mistake each: the message says what and where."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planners.pipeline.cost_models import parse_hierarchy
from planners.pipeline.load_graph import read_load_graph
from planners.pipeline.phaze import read_phaze
from planners.pipeline.profile import read_profile
from tests.mistakes import refused

GRAPH = {
    "maxSizePerFPGA": 100.0,
    "maxFPGAs": 2,
    "maxCPUs": 0,
    "nodes": [
        {"id": 7, "cpuLatency": 10.0, "fpgaLatency": 1.0, "size": 5.0, "supportedOnFpga": 1}
        | {"isBackwardNode": 0, "colorClass": 7},
        {"id": 8, "cpuLatency": 10.5, "fpgaLatency": 1.5, "supportedOnFpga": 1}
        | {"isBackwardNode": False},
    ],
    "edges": [{"sourceId": 7, "destId": 8, "cost": 0.5}],
}
LAYERS = [
    {"id": i, "optimalLatencyFw": 0.01, "optimalLatencyBw": 0.02}
    | {"parameterSize": 2e8, "activationSize": 1e9}
    for i in range(4)
]
EDGES = [{"sourceId": a, "destId": a + 1, "communicationCost": 16e6} for a in range(3)]
PHAZE = {"nodes": {"1": LAYERS}, "edges": {"1": EDGES}}
NODE = (
    "a -- ReLU -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=8.0, "
    "parameter_size=4.0"
)
PROFILE = f"{NODE}\nb{NODE[1:]}\n\ta -- b\n"
RIGHT: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "graph.json": (json.dumps(GRAPH), read_load_graph),
    "phaze.json": (json.dumps(PHAZE), read_phaze),
    "profile.txt": (PROFILE, read_profile),
}
EDGE = '{"sourceId": 7, "destId": 8, "cost": 0.5}'

MISTAKES = [
    ("graph.json", '"nodes"', '"knots"', "nodes: is missing"),
    ("graph.json", f"[{EDGE}]", "{}", "edges: {}: must be a list"),
    ("graph.json", '"nodes": [', '"nodes": [5, ', "nodes.0: 5: must be a table"),
    ("graph.json", '"fpgaLatency": 1.5, ', "", "nodes.1.fpgaLatency: is missing"),
    ("graph.json", '"cpuLatency": 10.0', '"cpuLatency": -1', "-1: must be a number from 0"),
    ("graph.json", '"fpgaLatency": 1.0', '"fpgaLatency": true', "fpgaLatency: True: must be"),
    ("graph.json", '"size": 5.0', '"size": "x"', "size: 'x': must be a number"),
    ("graph.json", '"isBackwardNode": 0', '"isBackwardNode": 2', "2: must be true or false"),
    ("graph.json", '"colorClass": 7', '"colorClass": 1.5', "1.5: must be a whole number"),
    ("graph.json", '"id": 8', '"id": 7', "nodes.1.id: 7 is there twice"),
    ("graph.json", '"destId": 8', '"destId": 9', "edges.0.destId: 9: no node has this id"),
    ("graph.json", ', "cost": 0.5', "", "cost: is missing"),
    ("graph.json", EDGE, f"{EDGE}, {EDGE[:-4]}9}}", "cost: 9 ms, but another edge"),
    ("graph.json", EDGE, f'{EDGE}, {{"sourceId": 8, "destId": 7, "cost": 1}}', "form a cycle"),
    ("graph.json", '"isBackwardNode": 0', '"isBackwardNode": 1', "backward node '7' to forward"),
    ("graph.json", '"maxCPUs": 0', '"maxCPUs": 2.5', "maxCPUs: 2.5: must be"),
    ("graph.json", '"maxFPGAs": 2', '"maxFPGAs": 5000', "maxFPGAs: 5000: must be"),
    ("graph.json", '"maxSizePerFPGA": 100.0, ', "", "maxSizePerFPGA: is missing"),
    ("graph.json", "}]}", "", "not valid JSON: "),
    ("phaze.json", '{"1": [{"id"', '{"2": [{"id"', "nodes.1: is missing"),
    ("phaze.json", '"id": 3', '"id": 2', "nodes.1.3.id: 2 is there twice"),
    ("phaze.json", '"id": 3', '"id": "x"', "nodes.1.3.id: 'x': must be a whole number"),
    ("phaze.json", '"destId": 2', '"destId": 50', "1 to 50: no node has such an id"),
    ("phaze.json", '"destId": 2', '"destId": 0', "form a cycle"),
    ("phaze.json", '"communicationCost"', '"cost"', "communicationCost: is missing"),
    ("phaze.json", '"optimalLatencyFw": 0.01', '"optimalLatencyFw": -1', "optimalLatencyFw: -1:"),
    ("profile.txt", PROFILE, "", "no node; a line is like"),
    ("profile.txt", PROFILE, "\ta -- b", "no node"),
    ("profile.txt", PROFILE, "nonsense", ":1: a node is like"),
    ("profile.txt", "\ta -- b", "\ta -- c", ":3: no node is called 'c'"),
    ("profile.txt", "\ta -- b", "\ta - a", ":3: an edge is a tab and"),
    ("profile.txt", "\ta -- b", "\ta -- b\n\tb -- a", "form a cycle through or before 'a'"),
    ("profile.txt", "\ta -- b", "\ta -- a", "cycle"),
    ("profile.txt", PROFILE, f"{NODE}\n{NODE}", "node 'a' is there twice"),
    ("profile.txt", "parameter_size", "size", "a: parameter_size is missing"),
    ("profile.txt", ", activation_size=8.0", "", "a: activation_size is missing"),
    ("profile.txt", "forward_compute_time=1.0", "forward_compute_time=-1", "'-1' is not a number"),
    ("profile.txt", "forward_compute_time=1.0", "forward_compute_time=nan", "time='nan'"),
    ("profile.txt", "parameter_size=4.0", "parameter_size=1e999", "bytes inf must be within"),
    ("profile.txt", "_size=8.0", "_size=8.0, activation_size=9", "a: a value is given twice"),
    ("profile.txt", "_size=8.0", "_size=[1.0, 2.0]", "activation_size='[1.0' is not a number"),
    ("profile.txt", "_size=8.0", "_size=[]", "activation_size='[]'"),
    ("profile.txt", "_size=8.0", "_size=[1.0; 2.0", "is not a number"),
]


@pytest.mark.parametrize(("name", "old", "new", "says"), MISTAKES)
def test_one_mistake_is_told(name: str, old: str, new: str, says: str, tmp_path: Path) -> None:
    text, read = RIGHT[name]
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new))
    said = refused(says, read, tmp_path / name)
    assert said.startswith(str(tmp_path / name))
    assert read is not read_profile or "\n" not in said


@pytest.mark.parametrize("name", RIGHT)
def test_without_it_they_are_read(name: str, tmp_path: Path) -> None:
    text, read = RIGHT[name]
    (tmp_path / name).write_text(text)
    assert read(tmp_path / name)


@pytest.mark.parametrize(
    ("says", "text"),
    [
        ("level '' must be 1...1024, an @", ""),
        ("level '4' must be", "4"),
        ("level '0@1 GB/s' must be", "0@1 GB/s"),
        ("must be", "-2@1 GB/s"),
        ("must be", "1025@1 GB/s"),
        ("level '' must be", "4@1 GB/s,"),
        ("not a positive number with a unit", "4@10"),
        ("is not a unit of B/s", "4@10 GB"),
        ("outside", "4@0 GB/s"),
        ("7 levels; at most 6", ",".join(["2@1 GB/s"] * 7)),
        ("1073741824 devices; at most 1048576", ",".join(["1024@1 GB/s"] * 3)),
    ],
)
def test_wrong_hierarchies(says: str, text: str) -> None:
    assert refused(says, parse_hierarchy, text).startswith("--hierarchy: ")
