"""AlexNet without groups, 96-256-384-384-256 (Krizhevsky et al. 2012, one tower)."""

from workloads.builder import Builder
from workloads.network import Network


def alexnet() -> Network:
    """62,367,776 weights; 62,378,344 parameters with biases.

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
    net.flatten("flatten")
    for name in ("6", "7"):
        net.fc(f"fc{name}", 4096, bias=True)
        net.relu(f"relu{name}")
    net.fc("fc8", 1000, bias=True)
    net.softmax("softmax")
    return net.build("AlexNet in one tower (no groups, no local response normalisation)")
