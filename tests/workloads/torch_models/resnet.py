"""ResNet-50 (v1.5: the stride on the 3x3 convolution), with torchvision's module names."""

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, into: int, channels: int, stride: int) -> None:
        super().__init__()
        out = 4 * channels
        self.conv1 = nn.Conv2d(into, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU()
        self.downsample = None
        if into != out:
            projection = nn.Conv2d(into, out, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        into = 64
        for stage, (channels, blocks) in enumerate(
            [(64, 3), (128, 4), (256, 6), (512, 3)], start=1
        ):
            layers = []
            for i in range(blocks):
                layers.append(Bottleneck(into, channels, 2 if i == 0 and stage > 1 else 1))
                into = 4 * channels
            setattr(self, f"layer{stage}", nn.Sequential(*layers))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1)).softmax(-1)
