"""Networks from PyTorch modules, through torch.export: no GPU, no weights needed."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workloads.importers.network import assemble
from workloads.layers import Network, NetworkError

if TYPE_CHECKING:
    import torch


def from_torch(
    module: torch.nn.Module | Callable[[], torch.nn.Module],
    inputs: Any,
    name: str | None = None,
) -> Network:
    """The network of a module, as it computes ``inputs``: a tensor, a tuple, or keywords.

    The first dimension of the first input is the batch, which is divided out.
    A function that builds the module is called under torch's FakeTensorMode:
    its weights, however large, are never allocated. Raises NetworkError, also
    where torch is missing.
    """
    try:
        import torch
        from torch._subclasses import FakeTensorMode
    except ImportError:
        raise NetworkError("from_torch needs pip install 'accelarray[torch]'") from None
    from workloads.importers.torch_graph import Reader

    title = name or str(getattr(module, "__name__", type(module).__name__))
    args, kwargs = _arguments(inputs)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, about modules that set attributes
            if isinstance(module, torch.nn.Module):
                program = torch.export.export(module, args, kwargs, strict=False)
            else:
                with FakeTensorMode(allow_non_fake_inputs=True) as mode:
                    with _nothing_drawn():
                        module = module()
                    title = name or type(module).__name__
                    args, kwargs = _mapped((args, kwargs), mode.from_tensor)
                    program = torch.export.export(module, args, kwargs, strict=False)
    except Exception as error:  # whatever a stranger's module raises while it is traced
        text = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
        raise NetworkError(f"{title}: torch.export cannot trace it: {text}") from None
    return assemble(Reader(title, program).model())


@contextlib.contextmanager
def _nothing_drawn() -> Iterator[None]:
    """Leave out ``trunc_normal_``: it looks at the values it draws, which fake tensors lack."""
    from torch.nn import init

    theirs = getattr(sys.modules.get("transformers.initialization"), "TORCH_INIT_FUNCTIONS", {})
    holders: list[dict[str, Any]] = [vars(init), theirs]
    kept = [holder.get("trunc_normal_") for holder in holders]
    for holder in holders:
        holder["trunc_normal_"] = lambda tensor, *args, **kwargs: tensor
    try:
        yield
    finally:
        for holder, function in zip(holders, kept, strict=True):
            holder["trunc_normal_"] = function


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, Sequence):
        return tuple(inputs), {}
    return (inputs,), {}


def _mapped(values: Any, fake: Callable[[Any], Any]) -> Any:
    """Tensors of a tuple or mapping as fake ones."""
    import torch

    return torch.utils._pytree.tree_map_only(torch.Tensor, fake, values)
