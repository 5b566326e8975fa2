"""``accelarray list`` and ``show``: what there is, and what is in it."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import pytest

from experiments.cli import main
from hardware import catalog_names, load_array, load_device
from planners import BASELINES, JUDGED, PLANNERS
from tests.experiments.installed import install
from workloads import LARGE, NETWORKS, load_network


@pytest.fixture(autouse=True)
def _networks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of all of them take two seconds each."""
    monkeypatch.setattr("experiments.results.catalog.load_network", EACH_ONCE)


EACH_ONCE = cache(load_network)


def as_json(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    assert main([*args, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(args) == 0
    return capsys.readouterr().out


def test_lists_are_complete(capsys: pytest.CaptureFixture[str]) -> None:
    names = {
        "networks": [*NETWORKS, *LARGE],
        "planners": [*PLANNERS, *BASELINES, *JUDGED],
        "arrays": catalog_names("array"),
        "devices": catalog_names("device"),
    }
    for kind, wanted in names.items():
        rows = as_json(capsys, "list", kind)
        assert [row["name"] for row in rows] == list(wanted)
        assert all(row["about"] for row in rows)
        table = shown(capsys, "list", kind)
        assert all(name in table for name in wanted)


def test_numbers_of_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    networks = {row["name"]: row for row in as_json(capsys, "list", "networks")}
    lenet = load_network("lenet")
    assert networks["lenet"]["weights"] == lenet.weights
    assert networks["lenet"]["macs"] == lenet.macs
    arrays = {row["name"]: row for row in as_json(capsys, "list", "arrays")}
    assert arrays["accpar-mixed"]["accelerators"] == 256


def test_a_planner_from_another_package_is_listed_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = '''
from planners.built_in import owt
def plan(*args):
    """Theirs, in one line.

    And why.
    """
    return owt(*args)
'''
    install(tmp_path, monkeypatch, code)
    rows = {row["name"]: row["about"] for row in as_json(capsys, "list", "planners")}
    assert rows["outsider"] == "Theirs, in one line."
    assert "And why." in shown(capsys, "show", "outsider")


def test_a_network_layer_by_layer(capsys: pytest.CaptureFixture[str]) -> None:
    data = as_json(capsys, "show", "resnet18")
    network = load_network("resnet18")
    assert [row["layer"] for row in data["layers"]] == [layer.name for layer in network.layers]
    assert sum(row["weights"] for row in data["layers"]) == data["weights"] == network.weights
    assert sum(row["macs"] for row in data["layers"]) == data["macs"] == network.macs
    assert data["warnings"] == []
    text = shown(capsys, "show", "resnet18")
    assert text.startswith("resnet18: ")
    assert f"{network.weights:,} weights" in text


def test_a_sequence_length_is_part_of_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    short, long = (as_json(capsys, "show", f"gnmt:seq={n}") for n in (4, 8))
    assert short["macs"] < long["macs"]
    assert short["weights"] == long["weights"]


def test_a_network_as_an_onnx_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lenet.onnx"
    assert shown(capsys, "show", "lenet", "--output", str(path)) == ""
    model = onnx.load(str(path), load_external_data=False)  # shapes alone, no weights
    assert {node.op_type for node in model.graph.node} >= {"Conv", "MatMul", "Relu"}
    again, ours = load_network(str(path)), load_network("lenet")
    assert (again.weights, again.macs) == (ours.weights, ours.macs)


def test_a_spec_with_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    array = load_array("tpu-v3-8")
    data = as_json(capsys, "show", "tpu-v3-8", "--set", "network.latency=3 us")
    assert (data["kind"], data["name"]) == ("array", "tpu-v3-8, network.latency=3 us")
    keys = [row["key"] for row in data["settings"]]
    assert {setting.key for setting in array.settings} <= set(keys)
    sources = {row["source"] for row in data["settings"]}
    assert "command line" in sources
    assert len(sources) > 1
    _, settings = load_device("tpu-v3")
    device = as_json(capsys, "show", "tpu-v3")
    assert [row["key"] for row in device["settings"]] == [setting.key for setting in settings]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("show", "resnet-50"), "nothing is called 'resnet-50'; did you mean resnet50?"),
        (("show", "zzzz"), "one of lenet, alexnet"),
        (("show", "owt", "--set", "a=b"), "--set changes specs; 'owt' is not one"),
        (("show", "no/net.onnx"), "no/net.onnx"),
        (("show", "lenet", "--output", "no/x.onnx"), "cannot be written"),
        (("list", "networks", "--output", "no/x"), "cannot be written"),
    ],
)
def test_users_errors(
    args: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""
