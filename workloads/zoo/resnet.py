"""ResNet-18/34/50 (He et al. 2016, Table 1), with true strides, projections and shortcuts."""

from workloads.builder import Builder
from workloads.network import Network

_CHANNELS = (64, 128, 256, 512)
_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}


def resnet(depth: int) -> Network:
    """ResNet of 18, 34 or 50 layers on 224x224 images.

    Where a stage halves the map, the stride sits on the block's first 3x3
    convolution ("v1.5" for ResNet-50, as in torchvision and MLPerf); weight
    counts do not depend on that.
    """
    net = Builder(f"resnet{depth}", 3, 224, 224)
    _conv_bn(net, "conv1", 64, 7, 2, 3)
    net.relu("relu1")
    last = net.pool("pool1", 3, 2, 1)
    block = _bottleneck if depth == 50 else _basic
    for stage, (channels, count) in enumerate(zip(_CHANNELS, _BLOCKS[depth], strict=True), 1):
        for i in range(count):
            stride = 2 if i == 0 and stage > 1 else 1
            last = block(net, f"layer{stage}.{i}", channels, stride, last, i == 0)
    net.pool("avgpool", 7, 1, average=True)
    net.fc("fc", 1000, bias=True)
    net.softmax("softmax")
    return net.build(f"ResNet-{depth} (He et al. 2016), projection shortcuts (option B)")


def _basic(net: Builder, name: str, channels: int, stride: int, entry: str, first: bool) -> str:
    _conv_bn(net, f"{name}.conv1", channels, 3, stride, 1, entry)
    net.relu(f"{name}.relu1")
    main = _conv_bn(net, f"{name}.conv2", channels, 3, 1, 1)
    return _join(net, name, channels, stride, entry, main, first and stride > 1)


def _bottleneck(
    net: Builder, name: str, channels: int, stride: int, entry: str, first: bool
) -> str:
    _conv_bn(net, f"{name}.conv1", channels, 1, 1, 0, entry)
    net.relu(f"{name}.relu1")
    _conv_bn(net, f"{name}.conv2", channels, 3, stride, 1)
    net.relu(f"{name}.relu2")
    main = _conv_bn(net, f"{name}.conv3", 4 * channels, 1, 1, 0)
    return _join(net, name, 4 * channels, stride, entry, main, first)


def _join(
    net: Builder, name: str, channels: int, stride: int, entry: str, main: str, project: bool
) -> str:
    shortcut = entry
    if project:
        shortcut = _conv_bn(net, f"{name}.downsample", channels, 1, stride, 0, entry)
    net.add(f"{name}.add", main, shortcut)
    return net.relu(f"{name}.relu")


def _conv_bn(
    net: Builder,
    name: str,
    channels: int,
    kernel: int,
    stride: int,
    padding: int,
    after: str | None = None,
) -> str:
    net.conv(name, channels, kernel, stride, padding, after=after)
    return net.batch_norm(f"{name}.bn")
