"""Software stacks: what a framework of some year does, besides how near it comes to peaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Attention = Literal["fused", "unfused"]


@dataclass(frozen=True, slots=True)
class Stack:
    """What a stack does that is no device's.

    Gradients are exchanged in buckets of ``bucket_bytes``, beside the backward pass
    where ``overlap``; of what layers exchange on their way (tensor parallelism)
    ``hidden_tensor`` goes on while cores compute. Links give ``collectives`` of what
    they else do. Weights are updated in ``update_order``: that of the layers, once all gradients
    are there, or as gradients arrive ("arrival"). With ``early_stop`` what is computed again
    ends with what backward needs.
    None: what is usual.
    """

    name: str = ""
    description: str = field(default="", compare=False)
    attention: Attention | None = None
    overlap: bool | None = None
    bucket_bytes: float | None = None
    hidden_tensor: float = 0.0
    collectives: float = 1.0
    early_stop: bool = False
    update_order: str = "layers"
