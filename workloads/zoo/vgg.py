"""VGG-11/13/16/19: configurations A, B, D and E of Simonyan and Zisserman 2014, Table 1."""

from workloads.builder import Builder
from workloads.network import Network

_CHANNELS = (64, 128, 256, 512, 512)
_BLOCKS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def vgg(depth: int) -> Network:
    """VGG of 11, 13, 16 or 19 weighted layers on 224x224 images."""
    net = Builder(f"vgg{depth}", 3, 224, 224)
    for block, (channels, convs) in enumerate(zip(_CHANNELS, _BLOCKS[depth], strict=True), 1):
        for i in range(1, convs + 1):
            net.conv(f"conv{block}_{i}", channels, 3, 1, 1, bias=True)
            net.relu(f"relu{block}_{i}")
        net.pool(f"pool{block}", 2, 2)
    net.flatten("flatten")
    for name in ("6", "7"):
        net.fc(f"fc{name}", 4096, bias=True)
        net.relu(f"relu{name}")
    net.fc("fc8", 1000, bias=True)
    net.softmax("softmax")
    return net.build(f"VGG-{depth} (Simonyan and Zisserman 2014)")
