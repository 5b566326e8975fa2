"""What a step is made of, in any form that a script may have it: names, objects, functions."""

from __future__ import annotations

import difflib
import operator
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from experiments.face.notices import tell_notes
from experiments.output import UsageError
from experiments.studies.model_options import MODEL_OPTIONS, with_options
from hardware import Array, load_array
from simulator import DEPLOYED, PUBLISHED, Execution
from workloads import ZOO, Network, NetworkError, load_network

if TYPE_CHECKING:
    from torch.nn import Module

    NetworkLike = str | os.PathLike[str] | Network | tuple[Module, Any]
    """A name of the zoo, a path, a network, or a PyTorch module and an example of its input."""
    ArrayLike = str | os.PathLike[str] | Array
    """A name of the catalog, the path of a TOML file, or an array."""
    ExecutionLike = str | Execution
    """ "published", "deployed", or a model with its options."""
    Changes = str | Iterable[str] | Mapping[str, object]
    """What ``--set`` takes: "KEY=VALUE", several of them, or values by key."""

EXECUTIONS = {"published": PUBLISHED, "deployed": DEPLOYED}


class Options(TypedDict, total=False):
    """Options that few steps need; all but ``communication`` are the deployed model's.

    ``communication`` "printed" or "plotted", ``overlap`` "full" or "none",
    ``shards`` "whole" or "exact", ``bucket`` bytes or "25 MB", ``algorithm``
    that of all collectives, ``strict_memory`` True: what does not fit is an error.
    """

    communication: str
    overlap: str | bool
    shards: str
    bucket: str | float
    algorithm: str
    strict_memory: bool


def check_keywords(given: Iterable[str]) -> None:
    """Raise TypeError, with the nearest name, for a keyword that is no option."""
    known = Options.__annotations__
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *_OTHERS], n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"options are {', '.join(known)}"
            raise TypeError(f"unexpected keyword argument {name!r}; {hint}")


_OTHERS = ("network", "networks", "planner", "planners", "array", "batch", "execution", "objective")


def network_of(given: object) -> Network:
    """A network; raises NetworkError. What was not understood of it is a warning."""
    if isinstance(given, Network):
        return given
    if isinstance(given, str | os.PathLike):
        network = load_network(os.fspath(given))
    elif _is_pair(given):
        from workloads.importers import from_torch

        network = from_torch(*given)
    else:
        raise NetworkError(
            f"network of type {type(given).__name__}: expected a name, the path of an .onnx or "
            ".txt file, a Network, or a PyTorch module with an example of its input as a pair, "
            "(module, example)"
        )
    tell_notes(network)
    return network


def _is_pair(given: Any) -> bool:
    """Whether it is a module, or a function that builds one, with an example."""
    return isinstance(given, tuple) and len(given) == 2 and callable(given[0])


def networks_of(given: object) -> list[Network]:
    """Networks from one or several; text is a list as the command line's, "all" AccPar's nine."""
    if isinstance(given, str):
        return [network_of(name) for name in listed(given, list(ZOO), "networks")]
    if isinstance(given, Iterable) and not _is_pair(given):
        return _some([network_of(one) for one in given], "networks")
    return [network_of(given)]


def listed(text: str, known: list[str], what: str) -> list[str]:
    """Names from "A,B" or "all"; raises UsageError."""
    from experiments.commands.arguments import names

    return names(text, known, what)


def _some(found: list[Any], what: str) -> list[Any]:
    if not found:
        raise UsageError(f"{what}: name at least one")
    return found


def array_of(given: object, changes: Changes = ()) -> Array:
    """An array, its spec changed where it is given by name or path; raises SpecError."""
    texts = assignments(changes)
    if isinstance(given, Array):
        if texts:
            raise UsageError(
                f"set={texts}: the array {given.name!r} is an object without its spec file; give "
                "its name or path instead, or change it with dataclasses.replace"
            )
        return given
    if isinstance(given, str | os.PathLike):
        return load_array(os.fspath(given), texts)
    raise UsageError(
        f"array of type {type(given).__name__}: expected a name, the path of a .toml file, or an "
        "Array"
    )


def assignments(changes: Changes) -> list[str]:
    """``--set``'s texts; a mapping's values as TOML has them."""
    if isinstance(changes, str):
        return [changes]
    if isinstance(changes, Mapping):
        return [f"{key}={_toml(value)}" for key, value in changes.items()]
    return list(changes)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


def execution_of(given: object, options: Options) -> Execution:
    """An execution model with options; raises UsageError for what makes no sense."""
    execution = EXECUTIONS.get(given) if isinstance(given, str) else given
    if not isinstance(execution, Execution):
        raise UsageError(f"execution {given!r}: one of {', '.join(EXECUTIONS)}, or an Execution")
    texts = {name: _option(name, options[name]) for name in MODEL_OPTIONS if name in options}
    execution = with_options(execution, texts)
    if "strict_memory" not in options:
        return execution
    if options["strict_memory"] and execution.model == "published":
        raise UsageError("strict_memory=True has no meaning under the published execution model")
    return replace(execution, strict_memory=bool(options["strict_memory"]))


def _option(name: str, value: object) -> str:
    """An option's value as the command line has it."""
    if name == "overlap" and isinstance(value, bool):
        return "full" if value else "none"
    return f"{value!r} B" if name == "bucket" and not isinstance(value, str) else str(value)


def batch_of(given: object) -> int:
    """Samples a step; raises UsageError."""
    try:
        return operator.index(given)  # type: ignore[arg-type]  (that is the question)
    except TypeError:
        raise UsageError(f"batch {given!r}: must be a whole number") from None
