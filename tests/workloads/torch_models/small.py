"""Small models, one for each family of operators."""

from typing import Any

import torch
from torch import nn


class ConvNet(nn.Module):
    """Groups, dilation, depthwise, transposed and one-dimensional convolutions, and a concat."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.depthwise = nn.Conv2d(16, 16, 3, 1, 1, groups=16, bias=False)
        self.grouped = nn.Conv2d(16, 32, 1, groups=4)
        self.dilated = nn.Conv2d(16, 32, 3, 1, 2, dilation=2)
        self.up = nn.ConvTranspose2d(64, 24, 2, 2)
        self.line = nn.Conv1d(24, 8, 5, padding=2)
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        x = torch.cat([self.grouped(self.depthwise(x)), self.dilated(x)], 1)
        x = nn.functional.max_pool2d(self.up(x), 2)
        return self.head(self.line(x.flatten(2)).mean(-1))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64, bias=False), nn.GELU(), nn.Linear(64, 5)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Block(nn.Module):
    """A pre-norm transformer block with an embedding, a tied head and grouped-query attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 32)
        self.norm1 = nn.LayerNorm(32)
        self.query = nn.Linear(32, 32)
        self.key = nn.Linear(32, 16)
        self.value = nn.Linear(32, 16)
        self.output = nn.Linear(32, 32)
        self.norm2 = nn.LayerNorm(32)
        self.up = nn.Linear(32, 96)
        self.gate = nn.Linear(32, 96)
        self.down = nn.Linear(96, 32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        y = self.norm1(x)
        batch, steps, _ = y.shape
        q = self.query(y).view(batch, steps, 4, 8).transpose(1, 2)
        k = self.key(y).view(batch, steps, 2, 8).transpose(1, 2)
        v = self.value(y).view(batch, steps, 2, 8).transpose(1, 2)
        k = k[:, :, None].expand(batch, 2, 2, steps, 8).reshape(batch, 4, steps, 8)
        v = v[:, :, None].expand(batch, 2, 2, steps, 8).reshape(batch, 4, steps, 8)
        scores = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
        x = x + self.output((scores @ v).transpose(1, 2).reshape(batch, steps, 32))
        y = self.norm2(x)
        x = x + self.down(torch.sigmoid(self.gate(y)) * self.up(y))
        return x @ self.embedding.weight.T


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.lstm = nn.LSTM(12, 20, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(40, 16, batch_first=True)
        self.head = nn.Linear(16, 50)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x, _ = self.lstm(self.embedding(ids))
        x, _ = self.gru(x)
        return self.head(x[:, -1])


class Einsums(nn.Module):
    """Products written as einsum: with weights, between tensors, for each of several experts."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(16, 4, 8))
        self.experts = nn.Parameter(torch.zeros(4, 8, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = torch.einsum("bsd,dhk->bhsk", x, self.first)
        scores = torch.einsum("bhsk,bhtk->bhst", q, q).softmax(-1)
        y = torch.einsum("bhst,bhtk->bhsk", scores, q)
        return torch.einsum("bhsk,hkn->bshn", y, self.experts)


def floats(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape)


def ids(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.long)


MODELS: dict[str, tuple[Any, Any]] = {
    "conv": (ConvNet, floats(2, 3, 32, 32)),
    "mlp": (MLP, floats(2, 20)),
    "block": (Block, ids(2, 10)),
    "recurrent": (Recurrent, ids(2, 7)),
    "einsum": (Einsums, floats(2, 9, 16)),
}
