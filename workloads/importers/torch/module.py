"""Networks from PyTorch modules, through torch.export: no GPU, no weights needed."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hardware.reader import extra
from workloads.network import Network
from workloads.tensors import NetworkError

if TYPE_CHECKING:
    import torch


def from_torch(
    module: torch.nn.Module | Callable[[], torch.nn.Module], inputs: Any, name: str | None = None
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
        raise NetworkError(f"from_torch needs {extra('torch')}") from None
    from workloads.importers.network import assemble
    from workloads.importers.torch.graph import Reader

    title = name or str(getattr(module, "__name__", type(module).__name__))
    mode = (
        None if isinstance(module, torch.nn.Module) else FakeTensorMode(allow_non_fake_inputs=True)
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, about modules that set attributes
            built, program = _exported(module, _arguments(inputs), mode)
    except Exception as error:  # whatever a stranger's module raises while it is traced
        text = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
        if mode is not None and "DataDependent" in text:
            text += "; it looks at values, which a function's weights lack: pass the module itself"
        raise NetworkError(f"{title}: torch.export cannot trace it: {text}") from None
    trained = [one.requires_grad for one in built.parameters()]
    frozen = trained.count(False)
    notes = (f"{frozen} of {len(trained)} parameters need no gradient: all are trained here",)
    reader = Reader(name or type(built).__name__, program, notes if frozen else ())
    return assemble(reader.model())


def _exported(module: Any, inputs: tuple[tuple[Any, ...], dict[str, Any]], mode: Any) -> Any:
    """The module, built under ``mode`` where there is one, and its program."""
    import torch

    if mode is None:
        return module, torch.export.export(module, *inputs, strict=False)
    with mode:
        with _nothing_drawn():
            built = module()
        fakes = torch.utils._pytree.tree_map_only(torch.Tensor, mode.from_tensor, inputs)
        return built, torch.export.export(built, *fakes, strict=False)


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
