"""What PyTorch moves when a mask was filled in place into a view, counted as it runs."""

from typing import Any

import pytest

from workloads.layer_types.other import KERNELS, MASKED_FILL

pytest.importorskip("torch")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MOVES = {"copy_": (1, 1), "clone": (1, 1), "new_zeros": (0, 1), "masked_fill_": (1, 1)}
"""How often these read and write all scores. Out of place a mask is filled into a clone."""
MOVES["masked_fill"] = (2, 2)


class Counted(TorchDispatchMode):  # type: ignore[misc]
    """Counts reads and writes of tensors with so many elements."""

    def __init__(self, elements: int) -> None:
        super().__init__()
        self.elements, self.reads, self.writes = elements, 0, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        name = func.name().split("::")[1].split(".")[0]
        if isinstance(made, torch.Tensor) and made.numel() == self.elements:
            reads, writes = MOVES.get(name, (0, 0))
            self.reads, self.writes = self.reads + reads, self.writes + writes
        return made


def test_a_mask_in_a_view_is_copied_as_often_as_is_counted() -> None:
    """As NVIDIA/Megatron-LM has it: scores of a product, seen by heads, masked in place."""
    query, key = (torch.randn(4, 8, 3, requires_grad=True) for _ in range(2))
    mask = torch.ones(1, 1, 8, 8).triu(1).bool()
    with Counted(4 * 8 * 8) as forward:
        product = torch.baddbmm(torch.empty(4, 8, 8), query, key.transpose(1, 2), beta=0.0)
        scores = product.view(2, 2, 8, 8).masked_fill_(mask, -10000.0)
    with Counted(4 * 8 * 8) as backward:
        scores.backward(torch.ones_like(scores))
    found = (forward.reads, forward.writes), (backward.reads, backward.writes)
    assert found == KERNELS[MASKED_FILL]
