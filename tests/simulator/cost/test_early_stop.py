"""Computing again that stops early, beside PyTorch's own checkpoints."""

from typing import Any

import pytest

from simulator.cost.operators import Operator, Operators
from simulator.cost.training_operators import operators
from workloads import Network, Transformer, transformer

pytest.importorskip("torch")

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

BLOCKS = 2


class Block(torch.nn.Module):  # type: ignore[misc]
    """A block of GPT, with attention as two products."""

    def __init__(self, h: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, torch.nn.Dropout(dropout)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(h) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(h, 3 * h), torch.nn.Linear(h, h)
        self.fc1, self.fc2 = torch.nn.Linear(h, 4 * h), torch.nn.Linear(4 * h, h)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, h = x.shape
        parts = self.qkv(self.norms[0](x)).view(b, s, 3, self.heads, h // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        context = torch.softmax(q @ k.transpose(-1, -2), -1) @ v
        x = x + self.dropout(self.out(context.transpose(1, 2).reshape(b, s, h)))
        wide = torch.nn.functional.gelu(self.fc1(self.norms[1](x)))
        y: torch.Tensor = x + self.dropout(self.fc2(wide))
        return y


class Products(TorchDispatchMode):  # type: ignore[misc]
    """How many matrix products are computed."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket.__name__ in ("mm", "addmm", "bmm", "baddbmm")
        return func(*args, **(kwargs or {}))


def products_of_backward(reentrant: bool | None, dropout: float = 0.0) -> int:
    """Of some blocks, each checkpointed (None: not at all)."""
    y = torch.zeros(2, 8, 16, requires_grad=True)
    for one in [Block(16, 2, dropout) for _ in range(BLOCKS)]:
        y = one(y) if reentrant is None else checkpoint(one, y, use_reentrant=reentrant)
    products = Products()
    with products:
        y.sum().backward()
    return products.count


def block(attention: str = "unfused", *, dropout: bool = False) -> Network:
    return transformer(
        Transformer("g", BLOCKS, 16, 2, 50, 8, dropout=dropout, compiled=False, attention=attention)
    )


def again(network: Network, mode: str = "full", *, early_stop: bool) -> list[Operator]:
    found = operators(network, recompute=mode, early_stop=early_stop)
    return [op for op in found.schedule() if op.phase == "recompute"]


@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("early_stop", [False, True])
def test_as_many_products_run_again_as_in_pytorch(early_stop: bool, dropout: bool) -> None:
    """Six of each block, or all but its last, unless backward reads a mask behind it."""
    rate = 0.1 if dropout else 0.0
    theirs = products_of_backward(not early_stop, rate) - products_of_backward(None, rate)
    ours = again(block(dropout=dropout), early_stop=early_stop)
    expected = 5 if early_stop and not dropout else 6
    assert sum(op.macs > 0 for op in ours) == theirs == BLOCKS * expected


@pytest.mark.parametrize("attention", ["fused", "unfused"])
@pytest.mark.parametrize("mode", ["full", "1"])
def test_what_is_left_away_nobody_reads(attention: str, mode: str) -> None:
    """What stays is the rest, in order, and has all that backward reads again."""
    network = block(attention)
    whole, early = (again(network, mode, early_stop=stop) for stop in (False, True))
    names = [op.name for op in early]
    assert [op.name for op in whole if op.name in names] == names
    read = tensors_read(operators(network, recompute=mode, early_stop=True))
    left = [op for op in whole if op.name not in names]
    assert left
    for operator in left:
        assert not {tensor.tensor for tensor in operator.writes} & read
    made = {tensor.tensor for op in early for tensor in op.writes}
    assert {name for name in read if name.endswith(" again")} <= made


def tensors_read(found: Operators) -> set[str]:
    return {tensor.tensor for op in found.schedule() for tensor in op.reads}
