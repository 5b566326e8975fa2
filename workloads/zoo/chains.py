"""Networks that are chains of convolutions and fully connected layers: LeNet, AlexNet, VGG."""

from workloads.builder import Builder
from workloads.network import Network

_CHANNELS = (64, 128, 256, 512, 512)
_BLOCKS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def lenet() -> Network:
    """LeNet as Caffe ships it (20-50-500-10, after LeCun et al. 1998) on 28x28 digits.

    430,500 weights; 431,080 parameters with biases.
    """
    net = Builder("lenet", 1, 28, 28)
    net.conv("conv1", 20, 5, bias=True)
    net.pool("pool1", 2, 2)
    net.conv("conv2", 50, 5, bias=True)
    net.pool("pool2", 2, 2)
    net.flatten("flatten")
    net.fc("fc1", 500, bias=True)
    net.relu("relu1")
    net.fc("fc2", 10, bias=True)
    net.softmax("softmax")
    return net.build("LeNet on 28x28 digits, the sizes of Caffe's example")


def alexnet() -> Network:
    """AlexNet without groups, 96-256-384-384-256 (Krizhevsky et al. 2012, one tower).

    62,367,776 weights; 62,378,344 parameters with biases.

    The input is 224x224 padded by 2, which gives the paper's 55x55 maps
    (a 227x227 input without padding gives the same).
    """
    net = Builder("alexnet", 3, 224, 224)
    net.conv("conv1", 96, 11, 4, 2, bias=True)
    net.relu("relu1")
    net.pool("pool1", 3, 2)
    net.conv("conv2", 256, 5, 1, 2, bias=True)
    net.relu("relu2")
    net.pool("pool2", 3, 2)
    for name, channels in (("3", 384), ("4", 384), ("5", 256)):
        net.conv(f"conv{name}", channels, 3, 1, 1, bias=True)
        net.relu(f"relu{name}")
    net.pool("pool5", 3, 2)
    _classifier(net)
    return net.build("AlexNet in one tower (no groups, no local response normalisation)")


def vgg(depth: int) -> Network:
    """VGG of 11, 13, 16 or 19 weighted layers on 224x224 images.

    Configurations A, B, D and E of Simonyan and Zisserman 2014, Table 1.
    """
    net = Builder(f"vgg{depth}", 3, 224, 224)
    for block, (channels, convs) in enumerate(zip(_CHANNELS, _BLOCKS[depth], strict=True), 1):
        for i in range(1, convs + 1):
            net.conv(f"conv{block}_{i}", channels, 3, 1, 1, bias=True)
            net.relu(f"relu{block}_{i}")
        net.pool(f"pool{block}", 2, 2)
    _classifier(net)
    return net.build(f"VGG-{depth} (Simonyan and Zisserman 2014)")


def _classifier(net: Builder) -> None:
    """Fully connected layers 6 to 8, as AlexNet and VGG end."""
    net.flatten("flatten")
    for name in ("6", "7"):
        net.fc(f"fc{name}", 4096, bias=True)
        net.relu(f"relu{name}")
    net.fc("fc8", 1000, bias=True)
    net.softmax("softmax")
