"""LeNet as Caffe ships it (20-50-500-10, after LeCun et al. 1998) on 28x28 digits."""

from workloads.builder import Builder
from workloads.network import Network


def lenet() -> Network:
    """430,500 weights; 431,080 parameters with biases."""
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
