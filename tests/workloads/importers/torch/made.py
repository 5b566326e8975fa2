"""Small torch modules, made of parts and of what is done with them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's own
    torch = pytest.importorskip("torch")


class Made(torch.nn.Module):  # type: ignore[misc,name-defined]
    """``does`` gets the module, which has the ``parts`` by name, and its inputs."""

    def __init__(self, does: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.does = does
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self.does(self, *inputs, **named)
