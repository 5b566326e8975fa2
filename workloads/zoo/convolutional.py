"""Networks of convolutions: LeNet, AlexNet, VGG, ResNet, DenseNet, MobileNet and Inception."""

from __future__ import annotations

from workloads.builder import Builder
from workloads.network import Network
from workloads.tensors import Sides

_VGG_CHANNELS = (64, 128, 256, 512, 512)
_VGG = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_RESNETS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
_DENSE = (6, 12, 24, 16)
_GROWTH = 32
_MOBILE = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks, and the first block's stride."""
Step = tuple[int, Sides]
"""Channels and kernel of one convolution of a branch, padded to keep the map."""
Ways = dict[str, list[Step]]
"""Branches by name."""


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
    for block, (channels, convs) in enumerate(zip(_VGG_CHANNELS, _VGG[depth], strict=True), 1):
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


def resnet(depth: int) -> Network:
    """ResNet of 18, 34 or 50 layers on 224x224 images.

    Where a stage halves the map, the stride sits on the block's first 3x3
    convolution ("v1.5" for ResNet-50, as in torchvision and MLPerf); weight
    counts do not depend on that.
    """
    net = Builder(f"resnet{depth}", 3, 224, 224)
    _conv(net, "conv1", 64, 7, 2)
    net.relu("relu1")
    last = net.pool("pool1", 3, 2, 1)
    for stage, count in enumerate(_RESNETS[depth], 1):
        channels = 32 << stage
        for i in range(count):
            stride = 2 if i == 0 and stage > 1 else 1
            convs = [(channels, 3, stride), (channels, 3, 1)]
            if depth == 50:
                convs = [(channels, 1, 1), (channels, 3, stride), (4 * channels, 1, 1)]
            project = i == 0 and (depth == 50 or stage > 1)
            last = _residual(net, f"layer{stage}.{i}", convs, last, project=project)
    _averaged(net, 7)
    return net.build(f"ResNet-{depth} (He et al. 2016), projection shortcuts (option B)")


def _residual(
    net: Builder, name: str, convs: list[tuple[int, int, int]], entry: str, *, project: bool
) -> str:
    """Convolutions (channels, kernel, stride), and beside them their entry, or its projection."""
    main = entry
    for i, (channels, kernel, stride) in enumerate(convs, 1):
        main = _conv(net, f"{name}.conv{i}", channels, kernel, stride, after=main)
        main = net.relu(f"{name}.relu{i}") if i < len(convs) else main
    shortcut = entry
    if project:
        strides = max(stride for _, _, stride in convs)
        shortcut = _conv(net, f"{name}.downsample", convs[-1][0], 1, strides, after=entry)
    net.add(f"{name}.add", main, shortcut)
    return net.relu(f"{name}.relu")


def densenet() -> Network:
    """DenseNet-121 (Table 1): layers of a block read what all before them wrote, concatenated."""
    net = Builder("densenet121", 3, 224, 224)
    _conv(net, "stem", 2 * _GROWTH, 7, 2, operator="relu")
    last = net.pool("stem.pool", 3, 2, 1)
    for block, layers in enumerate(_DENSE, 1):
        for i in range(layers):
            last = _dense_layer(net, f"block{block}.{i}", last)
        if block < len(_DENSE):
            last = _transition(net, f"transition{block}", last)
    net.batch_norm("norm")
    net.relu("relu")
    _averaged(net, 7)
    return net.build("DenseNet-121 (Huang et al. 2017)")


def _dense_layer(net: Builder, name: str, source: str) -> str:
    """A bottleneck of growth rate 32, appended to what it read.

    One concatenation for each layer, on the one before: the same channels in
    the same order as concatenating all of them at once, and a narrow graph.
    """
    _norm_conv(net, f"{name}.conv1", 4 * _GROWTH, 1, source)
    new = _norm_conv(net, f"{name}.conv2", _GROWTH, 3)
    return net.concat(f"{name}.concat", source, new)


def _transition(net: Builder, name: str, source: str) -> str:
    _norm_conv(net, f"{name}.conv", net.shape(source).channels // 2, 1, source)
    return net.pool(f"{name}.pool", 2, 2, average=True)


def _norm_conv(
    net: Builder, name: str, channels: int, kernel: int, after: str | None = None
) -> str:
    net.batch_norm(f"{name}.bn", after)
    net.relu(f"{name}.relu")
    return net.conv(name, channels, kernel, 1, kernel // 2)


def mobilenet() -> Network:
    """MobileNet-v2 of width 1 (Table 2): inverted residuals around depthwise convolutions."""
    net = Builder("mobilenet-v2", 3, 224, 224)
    last = _conv(net, "stem", 32, 3, 2, operator="relu6")
    for stage, (expansion, channels, blocks, stride) in enumerate(_MOBILE):
        for i in range(blocks):
            name = f"block{stage}.{i}"
            last = _inverted(net, name, last, expansion, channels, stride if i == 0 else 1)
    _conv(net, "top", 1280, 1, operator="relu6")
    _averaged(net, 7)
    return net.build("MobileNet-v2 (Sandler et al. 2018)")


def _inverted(
    net: Builder, name: str, source: str, expansion: int, channels: int, stride: int
) -> str:
    into = net.shape(source).channels
    wide = source
    if expansion > 1:
        wide = _conv(net, f"{name}.expand", into * expansion, 1, after=source, operator="relu6")
    inner = into * expansion
    _conv(net, f"{name}.depthwise", inner, 3, stride, after=wide, groups=inner, operator="relu6")
    last = _conv(net, f"{name}.project", channels, 1)
    if stride == 1 and channels == into:
        return net.add(f"{name}.add", source, last)
    return last


def inception() -> Network:
    """Eleven blocks of parallel branches, as torchvision has them; no auxiliary classifier.

    Kernels are rectangular, and branches are joined by their channels.
    """
    net = Builder("inception-v3", 3, 299, 299)
    _conv(net, "stem1", 32, 3, 2, 0, operator="relu")
    _conv(net, "stem2", 32, 3, 1, 0, operator="relu")
    _conv(net, "stem3", 64, 3, operator="relu")
    net.pool("pool1", 3, 2)
    _conv(net, "stem4", 80, 1, operator="relu")
    _conv(net, "stem5", 192, 3, 1, 0, operator="relu")
    last = net.pool("pool2", 3, 2)
    for name, pooled in (("5b", 32), ("5c", 64), ("5d", 64)):
        a: Ways = {"1x1": [(64, 1)], "5x5": [(48, 1), (64, 5)], "3x3": [(64, 1), (96, 3), (96, 3)]}
        last = _parallel(net, name, last, a, pooled)
    last = _reduce(net, "6a", last, [[(384, 3)], [(64, 1), (96, 3), (96, 3)]])
    for name, c in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        single: list[Step] = [(c, 1), (c, (1, 7)), (192, (7, 1))]
        double: list[Step] = [(c, 1), (c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7))]
        ways: Ways = {"1x1": [(192, 1)], "7x7": single, "7x7x2": double}
        last = _parallel(net, name, last, ways, 192)
    wide: list[Step] = [(192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3)]
    last = _reduce(net, "7a", last, [[(192, 1), (320, 3)], wide])
    for name in ("7b", "7c"):
        last = _inception_e(net, name, last)
    _averaged(net, 8)
    return net.build("Inception-v3 (Szegedy et al. 2016), no auxiliary classifier")


def _parallel(net: Builder, name: str, source: str, ways: Ways, pooled: int) -> str:
    """Branches, and behind them one that pools, joined by their channels."""
    ends = [_branch(net, f"{name}.{way}", source, steps) for way, steps in ways.items()]
    return net.concat(f"{name}.concat", *ends, _pooled(net, name, source, pooled))


def _inception_e(net: Builder, name: str, source: str) -> str:
    single = _branch(net, f"{name}.1x1", source, [(320, 1)])
    split = _branch(net, f"{name}.3x3", source, [(384, 1)])
    double = _branch(net, f"{name}.3x3x2", source, [(448, 1), (384, 3)])
    halves = [
        _branch(net, f"{name}.{part}{way}", entry, [(384, kernel)])
        for part, entry in (("3x3", split), ("3x3x2", double))
        for way, kernel in ((".a", (1, 3)), (".b", (3, 1)))
    ]
    return net.concat(f"{name}.concat", single, *halves, _pooled(net, name, source, 192))


def _reduce(net: Builder, name: str, source: str, branches: list[list[Step]]) -> str:
    """Branches whose last convolution halves the map, beside a pool that does."""
    ends = [
        _branch(net, f"{name}.{i}", source, steps, halve=True) for i, steps in enumerate(branches)
    ]
    return net.concat(f"{name}.concat", *ends, net.pool(f"{name}.pool", 3, 2, after=source))


def _pooled(net: Builder, name: str, source: str, channels: int) -> str:
    pool = net.pool(f"{name}.pool", 3, 1, 1, average=True, after=source)
    return _branch(net, f"{name}.pool_conv", pool, [(channels, 1)])


def _branch(net: Builder, name: str, source: str, steps: list[Step], *, halve: bool = False) -> str:
    last = source
    for i, (channels, kernel) in enumerate(steps, 1):
        how: dict[str, int] = {"stride": 2, "padding": 0} if halve and i == len(steps) else {}
        last = _conv(net, f"{name}.{i}", channels, kernel, **how, after=last, operator="relu")
    return last


def _conv(
    net: Builder,
    name: str,
    channels: int,
    kernel: Sides,
    stride: int = 1,
    padding: Sides | None = None,
    *,
    after: str | None = None,
    groups: int = 1,
    operator: str = "",
) -> str:
    """A convolution, its norm and the ``operator`` behind it; padded by default to keep the map."""
    if padding is None:
        high, wide = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        padding = high // 2, wide // 2
    net.conv(name, channels, kernel, stride, padding, groups=groups, after=after)
    net.batch_norm(f"{name}.bn")
    if operator == "relu":
        net.relu(f"{name}.relu")
    elif operator:
        net.other(f"{name}.{operator}", operator)
    return net.last


def _averaged(net: Builder, side: int) -> None:
    """The mean of a map and a classifier of ImageNet's classes, as all but chains end."""
    net.pool("avgpool", side, 1, average=True)
    net.fc("fc", 1000, bias=True)
    net.softmax("softmax")
