"""What PyTorch's loss keeps and moves without a compiler, counted as it runs."""

import weakref
from typing import Any

import pytest

import accelarray
from hardware import Arithmetic, Device, Roofline
from planners.partition import Shard
from simulator.cost.roofline import core_of, costs
from simulator.cost.training_operators import operators
from workloads import Transformer, transformer
from workloads.transforms import with_kernels

pytest.importorskip("torch")

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

TOKENS, VOCAB = 64, 4096


class Alive(TorchDispatchMode):  # type: ignore[misc]
    """The most bytes of tensors that were made here and were alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_of: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in tree_leaves(made):
            if isinstance(one, torch.Tensor) and one.untyped_storage().data_ptr():
                storage = one.untyped_storage()
                key = storage.data_ptr()
                if key not in self.bytes_of:
                    self.bytes_of[key] = storage.nbytes()
                    weakref.finalize(storage, self.bytes_of.pop, key, None)
        self.most = max(self.most, sum(self.bytes_of.values()))
        return made


def test_three_wide_tensors_are_alive_at_once() -> None:
    """As pytorch/torchtitan ran it in 2024: the head, ``float``, cross entropy, backward."""
    hidden = torch.randn(TOKENS, 8, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(VOCAB, 8, dtype=torch.bfloat16, requires_grad=True)
    labels = torch.randint(0, VOCAB, (TOKENS,))
    with Alive() as alive:
        logits = torch.nn.functional.linear(hidden, weight).float()
        loss = torch.nn.functional.cross_entropy(logits, labels)
        del logits
        forward, alive.most = alive.most, 0
        loss.backward()
    wide = 4 * TOKENS * VOCAB
    assert forward == pytest.approx(2 * wide, rel=0.1)
    assert alive.most == pytest.approx(3 * wide, rel=0.1)

    sizes = Transformer("t", 1, 8, 1, VOCAB, seq=TOKENS, eager_loss=True, tied=False)
    step = accelarray.simulate(
        transformer(sizes), "data_parallel", "h100-cluster", batch=8, set=["nodes=1"]
    )
    (memory,) = step.to_dict()["memory"]
    assert memory["operator"] == "loss backward"
    held = memory["by_class"]
    assert held["logits"] + held["buffers"] == pytest.approx(alive.most, rel=0.1)


class Moved(TorchDispatchMode):  # type: ignore[misc]
    """Bytes that operators read and wrote in tensors larger than a number for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if not func.is_view:
            for one in (*tree_leaves(args), *tree_leaves(made)):
                if isinstance(one, torch.Tensor) and one.numel() > TOKENS:
                    self.bytes += one.numel() * one.element_size()
        return made


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_what_the_loss_of_megatron_moves(dtype: torch.dtype) -> None:
    """Vocabulary-parallel cross entropy in place, as its Python computes it on one rank."""
    logits = torch.randn(TOKENS, VOCAB, dtype=dtype)
    with Moved() as forward:
        wide = logits.float()
        wide.sub_(wide.amax(dim=-1, keepdim=True))
        wide.exp_()
        wide.div_(wide.sum(dim=-1, keepdim=True))
    with Moved() as backward:
        wide.mul_(torch.ones(TOKENS, 1))
        wide.to(dtype)

    size = logits.element_size()
    arithmetic = Arithmetic(activation_bytes=size, weight_bytes=size)
    plain = Roofline(1.0, 1.0, 0.0)
    device = Device("gpu", 1, 1, 1e30, 8e10, 1.0, 1.0, roofline=plain, arithmetic=arithmetic)
    of = Transformer("t", 1, 8, 1, VOCAB, seq=TOKENS, compiled=False, tied=False)
    found = operators(with_kernels(transformer(of), sums=False, loss=True))
    node, work = found.graph[-1], found.nodes[-1]
    shard = Shard(1, node.in_channels, node.out_channels, 1)
    for phase, counted in ((work.forward, forward), (work.backward, backward)):
        done = costs(phase, shard, core_of(device))
        moved = sum(one.seconds for one in done if one.name.startswith("softmax"))
        assert moved == pytest.approx(counted.bytes, rel=1e-6)
    if dtype is torch.bfloat16:
        assert (forward.bytes, backward.bytes) == (38 * TOKENS * VOCAB, 14 * TOKENS * VOCAB)
