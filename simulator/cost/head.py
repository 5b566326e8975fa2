"""The head of a model, which makes its logits: not in the narrow formats of other products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simulator.cost.operators import Operator, Operators


def with_wide_head(of: Operators) -> Operators:
    """The same, where no logits are made in fp8 or fp4, as nobody makes them.

    Recipes of Transformer Engine and torchtitan leave a model's output head as it is, and
    DeepSeek-V3 does (DeepSeek-AI 2024, section 3.3.1): 7 % of the FLOPs of Llama-3-8B.
    """
    if of.logits is None:
        return of

    def wide(some: Sequence[Operator]) -> tuple[Operator, ...]:
        return tuple(replace(one, wide=bool(one.macs)) for one in some)

    head = of.nodes[of.logits]
    head = replace(
        head,
        forward=wide(head.forward),
        backward=wide(head.backward),
        gradient=wide(head.gradient),
    )
    return replace(of, nodes=(*of.nodes[: of.logits], head, *of.nodes[of.logits + 1 :]))
