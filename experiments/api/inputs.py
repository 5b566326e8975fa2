"""The parts of a step, in any form that a script may have them: names, objects, functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from experiments.api.argument_types import Changes, ModelOptions
from experiments.notices import tell_notes
from experiments.output import UsageError
from experiments.results.planned import PlanResult
from experiments.studies import options as vary
from experiments.studies.case import Planned
from experiments.studies.options import DEPLOYED_OPTIONS, MODEL_OPTIONS, with_options
from hardware import Array, Stack
from planners import AXES, PLANNERS, Plan, PlanError, Planner, load_planner
from simulator import PUBLISHED, Execution, deployed, schedule_of, usual
from workloads import ZOO, Network, NetworkError, load_network
from workloads.attention import attention_cores
from workloads.transforms import APART, COMPILED, EAGER, transformed, with_kernels
from workloads.zoo.transformers import without_compiler

CHOSEN = ", attention "
"""In the name of a network whose attention was asked for (``workloads.transforms``)."""


def read_plan(path: str) -> Plan:
    """A plan's file, its schedule one that is known; raises PlanError, which names the file."""
    plan = Plan.read(path)
    if plan.pipeline:
        try:
            schedule_of(plan.pipeline.schedule)
        except PlanError as error:
            raise PlanError(f"{path}: pipeline.schedule: {error}") from None
    return plan


def network_of(given: Any, transforms: Sequence[str] = (), array: Array | None = None) -> Network:
    """A network as an array's software runs it; raises NetworkError.

    What was not understood of it is a warning.
    """
    (network,) = each_run_by(array, [(given, loaded(given))], transforms)
    return network


def loaded(given: Any) -> Network:
    """A network as its maker has it; raises NetworkError."""
    if isinstance(given, Network):
        return given
    if isinstance(given, str | PathLike):
        return load_network(os.fspath(given))
    if _is_module(given):
        from workloads.importers import from_torch

        return from_torch(*given)
    raise NetworkError(
        f"network of type {type(given).__name__}: expected a name, the path of an .onnx or "
        ".txt file, a Network, or a PyTorch module with an example of its input as a pair, "
        "(module, example)"
    )


def each_run_by(
    array: Array | None, networks: Iterable[tuple[Any, Network]], transforms: Sequence[str] = ()
) -> list[Network]:
    """``run_by`` of networks beside what was given for them; of notes of each warn once."""
    found = []
    for given, network in networks:
        found.append(run_by(array, network, transforms))
        if not isinstance(given, Network):  # whose maker was told
            tell_notes(found[-1])
    return found


def run_by(array: Array | None, network: Network, transforms: Sequence[str] = ()) -> Network:
    """A network, transformed, as the software of an array runs it; raises NetworkError.

    Its attention is that of the array's software where no other is asked for, here, by the
    network's sizes, or when a Network was made; where that says nothing, fused for decoders of
    2022 and later. The array's software also says what has kernels of its own
    (``with_kernels``). Asked for element-wise kernels, experts have theirs, too.
    """
    young = array and array.model == "deployed" and network.fused  # than fused kernels, on wires
    form = (array and array.attention) or ("fused" if young else None)
    chosen = getattr(network.sizes, "attention", "") or CHOSEN in network.name
    chosen = chosen or any(t.startswith("attention") for t in transforms)
    if form and not chosen and attention_cores(network):
        transforms = [f"attention={form}", *transforms]
    stack = (array and array.stack) or Stack()
    own_kernels = stack.element_kernels or {APART, EAGER} & {*transforms}
    if own_kernels and COMPILED not in transforms:
        network = without_compiler(network)
    network = transformed(network, transforms)
    return with_kernels(network, sums=stack.sum_kernels, loss=stack.loss_kernels)


def _is_module(given: Any) -> bool:
    """Whether it is a module, or a function that builds one, with an example."""
    return isinstance(given, tuple) and len(given) == 2 and callable(given[0])


def networks_of(given: Any) -> list[tuple[Any, Network]]:
    """Networks from one or several, each beside what was given for it, as their makers have them.

    Text is a list as the command line's, "all" AccPar's nine.
    """
    several = _several("networks", given, list(ZOO), _is_module)
    return [(one, loaded(one)) for one in several]


def planner_of(given: Any, options: Mapping[str, Any] | None = None) -> str | Planner:
    """A planner's name, or a function; a plan that is made already becomes one.

    None is the plan in ``options``' file, or "axes" where these have degrees of parallelism.
    Raises PlanError or UsageError.
    """
    file = (options or {}).get("plan")
    if file is not None:
        others = {"planner": given, "parallel": (options or {}).get("parallel")}
        if said := [name for name, value in others.items() if value is not None]:
            raise UsageError(f"plan is a whole plan: leave out {' and '.join(said)}")
        given = read_plan(os.fspath(file))
    if given is None:
        if not any((options or {}).get(name) is not None for name in ("parallel", "stage_hw")):
            raise UsageError(
                'name a planner, as "accpar" or "search" (see planners()), or degrees of '
                'parallelism, as parallel="dp=4,tp=2"'
            )
        given = AXES
    if isinstance(given, PlanResult):
        given = given.plan
    if isinstance(given, Plan):
        return Planned(given.planner, given)
    load_planner(given)
    chosen: str | Planner = given
    return chosen


def planners_of(given: Any, options: Mapping[str, Any]) -> list[str | Planner]:
    """Planners from one or several; text is a list as the command line's.

    With degrees of parallelism "all" is "axes" alone: the others do not read them.
    """
    if given == "all" and options.get("parallel"):
        given = AXES
    known = [*PLANNERS, *([AXES] if options.get("parallel") else [])]
    several = _several("planners", given, known, callable)
    return [planner_of(one) for one in several]


def _several(
    what: str, given: Any, known: list[str], is_one: Callable[[Any], bool]
) -> Iterable[Any]:
    if isinstance(given, str):
        return names(given, known, what)
    if is_one(given) or not isinstance(given, Iterable):
        return [given]
    if not (several := list(given)):
        raise UsageError(f"{what}: name at least one")
    return several


def named(given: Any) -> str | Array:
    """An array, or its name or path; raises UsageError."""
    if isinstance(given, Array):
        return given
    if isinstance(given, str | PathLike):
        return os.fspath(given)
    raise UsageError(
        f"array of type {type(given).__name__}: expected a name, the path of a .toml file, or an "
        "Array"
    )


def array_of(given: Any, changes: Changes = ()) -> Array:
    """An array, its spec changed where it is given by name or path; raises SpecError."""
    return vary.array_of(named(given), assignments(changes))


def assignments(changes: Changes) -> list[str]:
    """``--set``'s texts; a mapping's values as TOML has them."""
    if isinstance(changes, str):
        return [changes]
    if isinstance(changes, Mapping):
        return [f"{key}={_toml(value)}" for key, value in changes.items()]
    texts = list(changes)
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise UsageError(f'set: {wrong[0]!r}: write "KEY=VALUE", or values by key in a dict')
    return texts


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


def execution_of(given: object, options: ModelOptions, array: Array) -> Execution:
    """An execution model with options, None the one that the array is for; raises UsageError."""
    if given is None:
        model = usual(array)
    elif given == "deployed":
        model = deployed(array)
    elif given == "published":
        model = PUBLISHED
    elif isinstance(given, Execution):
        model = given
    else:
        raise UsageError(f"execution {given!r}: one of published, deployed, or an Execution")
    values: Mapping[str, Any] = options
    texts = {
        name: option_text(name, values[name])
        for name in MODEL_OPTIONS
        if values.get(name) is not None
    }
    strict = options.get("strict_memory")
    if model.model == "published":
        said = f", which {array.name} is for; add --execution deployed" if given is None else ""
        told = [
            f"{name.replace('_', '-')}={texts[name]}" for name in DEPLOYED_OPTIONS & texts.keys()
        ]
        for fault in [*told, *(["strict-memory"] if strict else [])]:
            raise UsageError(f"{fault} has no meaning under the published execution model{said}")
    model = with_options(model, texts)
    return model if strict is None else replace(model, strict_memory=bool(strict))


def option_text(name: str, value: Any) -> str:
    """An option's value as the command line has it."""
    if name == "overlap" and isinstance(value, bool):
        return "full" if value else "none"
    if name == "vertical_sync" and isinstance(value, bool):
        return "yes" if value else "no"
    if name == "bucket" and isinstance(value, int | float):
        return f"{float(value)!r} B"
    return str(value)


def names(text: str, known: list[str], what: str) -> list[str]:
    """A comma-separated list, or ``all``; order kept, repetitions dropped."""
    parts = [name.strip() for name in text.split(",") if name.strip()]
    chosen = list(dict.fromkeys(n for p in parts for n in (known if p == "all" else [p])))
    if not chosen:
        raise UsageError(f"--{what} {text!r}: name at least one of {', '.join(known)}, or all")
    return chosen
