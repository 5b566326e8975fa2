"""Counts against published ones and against torch's.

LeNet: Caffe's examples/mnist (431,080 parameters). AlexNet without groups:
Krizhevsky's layer sizes, 62.4 M (the grouped original has 61.0 M). VGG,
ResNet (v1.5: the stride on the 3x3), DenseNet-121, MobileNet-v2, ViT-B/16:
``num_params`` and ``_ops`` of torchvision 0.28's weight tables; Inception-v3
the same less its auxiliary classifier's 3,326,696. BERT: transformers'
BertForPreTraining (the paper says 110 M and 340 M). GPT-2: OpenAI's release
(124 M, 355 M, 774 M, 1558 M). Llama: 6.7 B in the paper, 8.03 B and 405 B on
Llama 3's model cards. GNMT: MLPerf's reference prints 160,671,297 at its vocabulary.
"""

import csv
from pathlib import Path

import pytest

from tests.workloads import torch_counts
from workloads import (
    FURTHER,
    SEQUENCES,
    ZOO,
    Builder,
    NetworkError,
    Tensor,
    load_network,
    partition_graph,
)

PARAMETERS = {
    "lenet": 431_080,
    "alexnet": 62_378_344,
    "vgg11": 132_863_336,
    "vgg13": 133_047_848,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "inception-v3": 27_161_264 - 3_326_696,
    "densenet121": 7_978_856,
    "mobilenet-v2": 3_504_872,
    "vit-b16": 86_567_656,
    "bert-base": 110_106_428,
    "bert-large": 336_226_108,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "llama-7b": 6_738_415_616,
    "llama3-8b": 8_030_261_248,
    "llama3-405b": 405_853_388_800,
    "gnmt": 160_671_297,
}
GIGA_MACS = {
    "vgg11": 7.609,
    "vgg13": 11.308,
    "vgg16": 15.47,
    "vgg19": 19.632,
    "resnet18": 1.814,
    "resnet34": 3.664,
    "resnet50": 4.089,
    "inception-v3": 5.713,
    "densenet121": 2.834,
    "mobilenet-v2": 0.301,
    "vit-b16": 17.564,
}
"""torchvision's ``_ops``."""
COUNTED = {
    row["network"]: row
    for row in csv.DictReader(
        (Path(__file__).parents[2] / "data" / "torch_counts.csv").read_text().splitlines()
    )
}
BIASES = {"lenet": 580, "alexnet": 10_568, "vgg11": 11_944, "vgg16": 13_416}
WEIGHTED = {"lenet": 4, "alexnet": 8, "vgg11": 11, "vgg13": 13, "vgg16": 16, "vgg19": 19}
PROJECTIONS = {"resnet18": 3, "resnet34": 3, "resnet50": 4}


def test_the_zoo_is_whole() -> None:
    assert [*ZOO, *FURTHER] == list(PARAMETERS) == list(COUNTED)


@pytest.mark.parametrize("name", COUNTED)
def test_parameters_with_biases_norms_and_tables(name: str) -> None:
    assert load_network(name).parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", COUNTED)
def test_torch_counts_the_same(name: str) -> None:
    """The counts of torch, transformers and torchvision, as torch_counts.py wrote them."""
    network, row = load_network(name), COUNTED[name]
    assert network.parameters == int(row["parameters"])
    assert network.weights == int(row["weights"])
    assert network.macs == int(row["macs"])


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.filterwarnings("ignore")  # other packages'
def test_torch_still_counts_the_same(name: str) -> None:
    pytest.importorskip("torch")
    try:
        counted = torch_counts.count(name)
    except ImportError as error:
        pytest.skip(str(error))
    assert counted == tuple(int(COUNTED[name][key]) for key in ("parameters", "weights", "macs"))


@pytest.mark.parametrize(("name", "macs"), GIGA_MACS.items())
def test_multiply_accumulates_are_the_published_ones(name: str, macs: float) -> None:
    assert round(load_network(name).macs / 1e9, 3) == pytest.approx(macs)


@pytest.mark.parametrize(("name", "biases"), BIASES.items())
def test_weights_without_biases(name: str, biases: int) -> None:
    assert load_network(name).weights == PARAMETERS[name] - biases


@pytest.mark.parametrize(
    ("name", "norms_and_bias"), {"resnet18": 10_600, "resnet50": 54_120}.items()
)
def test_weights_without_batch_norm(name: str, norms_and_bias: int) -> None:
    # 2 per channel of every batch norm, and the classifier's 1000 biases; ours has none
    network = load_network(name)
    assert network.weights == PARAMETERS[name] - norms_and_bias


@pytest.mark.parametrize("name", ZOO)
def test_weighted_layers(name: str) -> None:
    weighted = [layer for layer in load_network(name).layers if layer.weighted]
    depth = int(name.removeprefix("resnet")) if name.startswith("resnet") else 0
    assert len(weighted) == WEIGHTED.get(name, depth + PROJECTIONS.get(name, 0))


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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bert-base:seq=513", "beyond its 512 positions"),
        ("gpt2:seq=1025", "beyond its 1024 positions"),
        ("gpt2:seq=0", "expected seq=N with N within 1"),
        ("gpt2:seq=", "expected seq=N"),
        ("gpt2:seq=1e3", "expected seq=N"),
        ("gpt2:sequence=8", "expected seq=N"),
        ("gpt2:", "expected seq=N"),
        ("llama-7b:seq=99999999", "expected seq=N with N within"),
        ("resnet50:seq=8", "'resnet50' takes no option, found 'seq=8'"),
        ("gpt-2:seq=8", "did you mean gpt2"),
    ],
)
def test_sequences_that_cannot_be(name: str, words: str) -> None:
    with pytest.raises(NetworkError, match=words):
        load_network(name)


def test_attention_is_two_products_without_weights() -> None:
    layers = {layer.name: layer for layer in load_network("llama3-8b:seq=16").layers}
    scores, context = (layers[f"layer0.attention.{part}"] for part in ("scores", "context"))
    assert scores.operands == (Tensor(4096, 16), Tensor(1024, 16))  # 8 heads of keys serve 32
    assert scores.output == Tensor(32 * 16, 16)
    assert context.operands == (Tensor(32 * 16, 16), Tensor(1024, 16))
    assert scores.macs == context.macs == 16 * 16 * 4096
    assert (scores.weights, scores.parameters, scores.groups) == (0, 0, 32)


def test_tied_weights_count_once() -> None:
    network = load_network("gpt2")
    head, embedding = network.layers[-2], network.layers[0]
    assert head.shared == embedding.name
    assert head.weights == embedding.weights == 50_257 * 768
    assert head.parameters == 0
    assert head.macs == 1024 * head.weights
    assert embedding.macs == 0


@pytest.mark.parametrize("name", COUNTED)
def test_graphs_are_narrow(name: str) -> None:
    """No node but a concatenation reads more than two others."""
    for node in partition_graph(load_network(name)):
        assert len(node.producers) <= (6 if node.kind == "concat" else 2)


def test_an_unknown_network_names_the_nearest() -> None:
    with pytest.raises(NetworkError, match="did you mean resnet50"):
        load_network("ResNet-50")
    with pytest.raises(NetworkError, match="did you mean inception-v3"):
        load_network("InceptionV3")
    with pytest.raises(NetworkError, match="one of lenet"):
        load_network("zzz")


def test_the_builder_refuses_what_does_not_fit() -> None:
    net = Builder("net", 3, 8, 8)
    net.conv("conv", 4, 3)
    with pytest.raises(NetworkError, match="cannot add shapes"):
        net.add("add", "conv", "input")
    with pytest.raises(NetworkError, match="cannot mul shapes"):
        net.mul("mul", "conv", "input")
    with pytest.raises(NetworkError, match="cannot concatenate shapes"):
        net.concat("concat", "conv", "input")
    with pytest.raises(NetworkError, match="fc reads a vector"):
        net.fc("fc", 10)
    with pytest.raises(NetworkError, match="linear reads a sequence"):
        net.linear("linear", 10)


def test_the_builder_s_windows() -> None:
    net = Builder("net", 4, 9, 17)
    net.conv("conv", 8, (1, 7), (2, 1), (0, 3), groups=2, bias=True)
    assert net.shape("conv") == Tensor(8, 5, 17)
    (conv,) = net.build().layers
    assert (conv.weights, conv.parameters) == (4 * 8 * 7 // 2, 4 * 8 * 7 // 2 + 8)
    assert conv.macs == conv.weights * 5 * 17
