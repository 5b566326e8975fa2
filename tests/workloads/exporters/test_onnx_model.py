"""Networks written as ONNX models, and read back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.cli import main
from tests.workloads.onnx_models import save
from workloads import NETWORKS, Layer, Network, NetworkError, Tensor, load_network
from workloads.attention import with_attention
from workloads.exporters.onnx_model import to_onnx


def there_and_back(network: Network, folder: Path) -> Network:
    return load_network(save(folder, to_onnx(network), f"{network.name}.onnx"))


@pytest.mark.parametrize("name", [n for n in NETWORKS if not n.startswith("hypar-")])
def test_every_network_of_the_zoo_comes_back_layer_by_layer(name: str, tmp_path: Path) -> None:
    network = load_network(name)
    back = there_and_back(network, tmp_path)
    assert back.layers == tuple(replace(layer, causal=False) for layer in network.layers)
    assert back.input == network.input
    assert back.notes == ()
    assert (tmp_path / f"{name}.onnx").stat().st_size < 400 * len(network.layers)  # dims alone


def test_a_large_table_is_read_turned_for_the_head(tmp_path: Path) -> None:
    """BLOOM's has 385 million elements: to turn it makes none."""
    network = load_network("bloom-1b1:layers=1:seq=16")
    again = there_and_back(network, tmp_path)
    assert again.parameters == network.parameters
    assert sum(one.macs for one in again.layers) == sum(one.macs for one in network.layers)


def test_fused_attention_comes_back_as_its_parts(tmp_path: Path) -> None:
    network = load_network("gpt2:seq=16:layers=1")
    back = there_and_back(with_attention(network, "fused"), tmp_path)
    assert back.macs == network.macs
    assert [layer.kind for layer in back.layers].count("matmul") == 2


def test_shapes_that_do_not_fit_cannot_be_written() -> None:
    layers = (
        Layer("a", "fc", ("input",), Tensor(4), Tensor(6)),
        Layer("b", "fc", ("a",), Tensor(5), Tensor(6)),
    )
    with pytest.raises(NetworkError, match="'b': it reads 5x1x1, but 'a' writes 6x1x1"):
        to_onnx(Network("unfit", Tensor(4), layers))
    with pytest.raises(NetworkError, match="ONNX has no way to say that"):
        to_onnx(load_network("hypar-sconv"))


def test_show_writes_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", "gpt2:seq=32", "--output", "gpt2.onnx"]) == 0
    assert main(["show", "gpt2.onnx", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["weights"] == load_network("gpt2").weights
    assert shown["input"] == "1x32x1"
    assert main(["show", "lenet", "--output", "no/where.onnx"]) == 2
