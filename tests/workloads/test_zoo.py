"""Weight counts against well-known ones.

LeNet: Caffe's examples/mnist (431,080). AlexNet without groups: Krizhevsky's
layer sizes, 62.4 M (the grouped original has 61.0 M). VGG: torchvision's
model table. ResNet: torchvision's model table.
"""

import pytest

from workloads import ZOO, Builder, NetworkError, Tensor, load_network

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
}
BIASES = {"lenet": 580, "alexnet": 10_568, "vgg11": 11_944, "vgg16": 13_416}
WEIGHTED = {"lenet": 4, "alexnet": 8, "vgg11": 11, "vgg13": 13, "vgg16": 16, "vgg19": 19}
PROJECTIONS = {"resnet18": 3, "resnet34": 3, "resnet50": 4}


def test_the_zoo_is_whole() -> None:
    assert list(ZOO) == list(PARAMETERS)


@pytest.mark.parametrize("name", ZOO)
def test_parameters_with_biases_and_batch_norm(name: str) -> None:
    assert load_network(name).parameters == PARAMETERS[name]


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


@pytest.mark.parametrize("name", ZOO)
def test_every_layer_reads_what_its_input_writes(name: str) -> None:
    network = load_network(name)
    shapes = {"input": network.input} | {layer.name: layer.output for layer in network.layers}
    for layer in network.layers:
        assert {shapes[source] for source in layer.inputs} == {layer.input}


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


def test_multiply_accumulates_are_the_published_ones() -> None:
    """VGG-16 15.47 G and AlexNet (one tower) 1.135 G; ResNet-50 4.09 G (v1.5, torchvision)."""

    def macs(name: str) -> float:
        layers = load_network(name).layers
        return sum(layer.weights * layer.output.area for layer in layers) / 1e9

    assert macs("vgg16") == pytest.approx(15.47, abs=0.01)
    assert macs("resnet50") == pytest.approx(4.09, abs=0.01)
    assert macs("resnet18") == pytest.approx(1.814, abs=0.001)
    assert macs("alexnet") == pytest.approx(1.135, abs=0.001)


def test_an_unknown_network_names_the_nearest() -> None:
    with pytest.raises(NetworkError, match="did you mean resnet50"):
        load_network("ResNet-50")
    with pytest.raises(NetworkError, match="one of lenet"):
        load_network("zzz")


def test_the_builder_refuses_what_does_not_fit() -> None:
    net = Builder("net", 3, 8, 8)
    net.conv("conv", 4, 3)
    with pytest.raises(NetworkError, match="cannot add shapes"):
        net.add("add", "conv", "input")
    with pytest.raises(NetworkError, match="fc reads a vector"):
        net.fc("fc", 10)
