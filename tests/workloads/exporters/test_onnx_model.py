"""Networks written as ONNX models, and read back."""

import json
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from experiments.cli import main
from hardware import load_array
from planners import load_planner
from simulator import simulate
from tests.workloads.onnx_models import save
from workloads import NETWORKS, Builder, Layer, Network, NetworkError, Tensor, load_network
from workloads.attention import with_attention
from workloads.exporters.onnx_model import to_onnx
from workloads.exporters.onnx_writer import WEIGHTS


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


def test_fused_attention_comes_back_as_its_parts(tmp_path: Path) -> None:
    network = load_network("gpt2:seq=16:layers=1")
    back = there_and_back(with_attention(network, "fused"), tmp_path)
    assert back.macs == network.macs
    assert [layer.kind for layer in back.layers].count("matmul") == 2


@pytest.mark.parametrize("name", ["lenet", "mobilenet-v2", "gnmt", "llama3-8b:seq=16"])
def test_what_comes_back_takes_the_same_time(name: str, tmp_path: Path) -> None:
    network = load_network(name)
    back = load_network(save(tmp_path, to_onnx(network)))
    array = load_array("accpar-mixed", ["devices.0.count=4", "devices.1.count=4"])
    plans = [load_planner("accpar")(n, array, 64) for n in (network, back)]
    assert plans[0].root == plans[1].root
    times = [
        simulate(n, p, array).iteration_ps for n, p in zip((network, back), plans, strict=True)
    ]
    assert times[0] == times[1]


def test_the_standards_own_checker_agrees(tmp_path: Path) -> None:
    """All but the missing data: shapes as inferred by onnx itself are those of the layers."""
    network = load_network("resnet18")
    inferred = onnx.shape_inference.infer_shapes(to_onnx(network), strict_mode=True)
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim][1:]
        for value in inferred.graph.value_info
    }
    for layer in network.layers[:-3]:
        out = layer.output
        assert shapes[layer.name] == [out.channels, out.height, out.width]
    assert not (tmp_path / WEIGHTS).exists()


def test_odd_layers_come_back(tmp_path: Path) -> None:
    net = Builder("odd", 6, 9, 5)
    net.conv("grouped", 12, (3, 1), (2, 1), (1, 0), groups=3, bias=True)
    net.batch_norm("norm")
    up = Layer(
        "up", "conv", ("norm",), Tensor(12, 5, 5), Tensor(8, 11, 11), 3, 2, 0, transposed=True
    )
    dilated = Layer("d", "conv", ("up",), up.output, Tensor(4, 7, 7), 3, dilation=2)
    pool = Layer("pool", "avg_pool", ("d",), dilated.output, Tensor(4, 3, 3), 3, 2)
    network = Network("odd", net.input, (*net.build().layers, up, dilated, pool))
    assert there_and_back(network, tmp_path).layers == network.layers


def test_recurrent_and_gated_layers_come_back(tmp_path: Path) -> None:
    net = Builder("cells", 5, 7)
    both = net.cell("gru", "both", 6, directions=2, bias=True)
    one = net.cell("lstm", "one", 12, after=both)
    net.mul("gate", both, one)
    net.linear("tied", 12, after="gate")
    net.linear("tied2", 12, shared="tied", after="tied")
    network = net.build()
    assert there_and_back(network, tmp_path).layers == network.layers


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
