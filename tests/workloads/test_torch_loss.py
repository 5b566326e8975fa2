"""Tensors that are alive at once in PyTorch's loss without a compiler, counted as it runs."""

import weakref
from typing import Any

import pytest

import accelarray
from workloads import Transformer, transformer

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
