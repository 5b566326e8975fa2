"""The zoo's counts are those of torch, transformers and torchvision (``torch_counts.py``).

These are the published ones where there are any: Caffe's LeNet, torchvision's ``num_params`` and
``_ops`` (Inception-v3 without its auxiliary classifier), transformers' BertForPreTraining,
OpenAI's GPT-2, Llama's model cards; GNMT is MLPerf's reference, AlexNet has no groups.
"""

import csv
from pathlib import Path

import pytest

from tests.workloads import torch_counts
from workloads import FURTHER, SEQUENCES, SIZES, ZOO, Tensor, load_network, partition_graph

COUNTED = {
    row["network"]: row
    for row in csv.DictReader(
        (Path(__file__).parents[2] / "data" / "torch_counts.csv").read_text().splitlines()
    )
}


def test_the_zoo_is_whole() -> None:
    assert [*ZOO, *FURTHER] == list(COUNTED)


@pytest.mark.parametrize("name", COUNTED)
def test_torch_counts_the_same(name: str) -> None:
    """The counts of torch, transformers and torchvision, as torch_counts.py wrote them."""
    network, row = load_network(name), COUNTED[name]
    assert network.parameters == int(row["parameters"])
    assert network.weights == int(row["weights"])
    assert network.macs == int(row["macs"])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] if n in SIZES and n != "gpt2" else [])
        for n in COUNTED
    ],
)
@pytest.mark.filterwarnings("ignore")  # other packages'
def test_torch_still_counts_the_same(name: str) -> None:
    pytest.importorskip("torch")
    try:
        counted = torch_counts.count(name)
    except ImportError as error:
        pytest.skip(str(error))
    assert counted == tuple(int(COUNTED[name][key]) for key in ("parameters", "weights", "macs"))


@pytest.mark.parametrize("name", COUNTED)
def test_every_layer_reads_what_its_input_writes(name: str) -> None:
    network = load_network(name)
    shapes = {"input": network.input} | {layer.name: layer.output for layer in network.layers}
    for layer in network.layers:
        assert tuple(shapes[source] for source in layer.inputs) == layer.operands


def test_maps_and_strides() -> None:
    def shapes(name: str) -> dict[str, Tensor]:
        return {layer.name: layer.output for layer in load_network(name).layers}

    assert shapes("lenet")["pool2"] == Tensor(50, 4, 4)
    assert shapes("alexnet")["conv1"] == Tensor(96, 55, 55)
    assert shapes("alexnet")["flatten"] == Tensor(9216)
    assert shapes("vgg16")["pool5"] == Tensor(512, 7, 7)
    resnet = shapes("resnet50")
    assert resnet["pool1"] == Tensor(64, 56, 56)
    assert resnet["layer2.0.conv1"] == Tensor(128, 56, 56)
    assert resnet["layer2.0.conv2"] == Tensor(128, 28, 28)
    assert resnet["layer4.2.add"] == Tensor(2048, 7, 7)
    assert resnet["avgpool"] == Tensor(2048)


def test_unweighted_operators_are_there() -> None:
    kinds = {layer.kind for layer in load_network("resnet18").layers}
    assert kinds == {"conv", "fc", "max_pool", "avg_pool", "batch_norm", "relu", "add", "softmax"}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_of_any_length(name: str) -> None:
    """Weights stay; attention grows with the square of the length."""
    one, two, four = (load_network(f"{name}:seq={n}") for n in (32, 64, 128))
    assert one.name == f"{name}:seq=32"
    assert one.parameters == two.parameters == load_network(name).parameters
    attention = [sum(la.macs for la in n.layers if la.kind == "matmul") for n in (one, two, four)]
    assert attention == [attention[0], 4 * attention[0], 16 * attention[0]]


def test_attention_is_two_products_without_weights() -> None:
    layers = {layer.name: layer for layer in load_network("llama3-8b:seq=16").layers}
    scores, context = (layers[f"layer0.attention.{part}"] for part in ("scores", "context"))
    assert scores.operands == (Tensor(4096, 16), Tensor(1024, 16))  # 8 heads of keys serve 32
    assert scores.output == Tensor(32 * 16, 16)
    assert context.operands == (Tensor(32 * 16, 16), Tensor(1024, 16))
    assert scores.macs == context.macs == 16 * 16 * 4096
    assert (scores.weights, scores.parameters, scores.groups) == (0, 0, 32)


@pytest.mark.parametrize("name", COUNTED)
def test_graphs_are_narrow(name: str) -> None:
    """No node but a concatenation reads more than two others."""
    for node in partition_graph(load_network(name)):
        assert len(node.producers) <= (6 if node.kind == "concat" else 2)
