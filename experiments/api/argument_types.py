"""The forms in which a script may name the parts of a step."""

from __future__ import annotations

import difflib
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from os import PathLike
from typing import Any, TypedDict, TypeVar, cast

from experiments.options import ALIASES, OPTIONS
from experiments.output import UsageError
from experiments.results.planned import PlanResult
from experiments.studies.running.store import Store
from hardware import Array
from planners import Plan, Planner
from simulator import Execution
from workloads import Network

NetworkLike = str | PathLike[str] | Network | tuple[Any, Any]
"""A name of the zoo, a path, a network, or a PyTorch module and an example of its input."""
PlannerLike = str | Planner | Plan | PlanResult
"""A name, a function with a planner's signature, or a plan that is made already."""
ArrayLike = str | PathLike[str] | Array
"""A name of the catalog, the path of a TOML file, or an array."""
ExecutionLike = str | Execution
""" "published", "deployed", or a model with its options."""
StoreLike = str | PathLike[str] | Store
"""The path of a file that keeps finished cases, or one that is open."""

Networks = NetworkLike | Iterable[NetworkLike]
"""One network or several; text is a list as the command line's: "A,B", or "all"."""
Planners = PlannerLike | Iterable[PlannerLike]
"""One planner or several; text is a list as the command line's: "A,B", or "all"."""

Changes = str | Iterable[str] | Mapping[str, object]
"""What ``--set`` takes: "KEY=VALUE", several of them, or values by key."""
Vary = str | Iterable[str] | Mapping[str, str | Iterable[object]]
"""What ``--vary`` takes: "KEY=VALUES", several of them, or values by key."""
Progress = Callable[[str], None]
"""Called with a few words whenever a case is finished."""


class ArrayOptions(TypedDict, total=False):
    """Keywords that are short for changes of an array's spec."""

    precision: str
    optimizer: str
    stack: str | PathLike[str]
    price: float


class NetworkOptions(TypedDict, total=False):
    """Keywords that change a network."""

    attention: str
    transform: str | Iterable[str]


class StageOptions(TypedDict, total=False):
    """Keywords of pipelines."""

    stages: int | str
    schedule: str
    micro_batches: int
    virtual: int
    recompute: str | int
    tied: str
    vertical_sync: bool
    batches: int
    cuts: str


class ModelOptions(ArrayOptions, NetworkOptions, StageOptions, total=False):
    """Keywords of every step: those, and the execution model's."""

    mode: str
    update: str
    overlap: str | bool
    shards: str
    bucket: str | float
    memory_reserve: str | float
    update_order: str
    algorithm: str
    strict_memory: bool


class DesignOptions(NetworkOptions, StageOptions, total=False):
    """Keywords of a search for the units of a core."""

    mode: str


class AxisOptions(TypedDict, total=False):
    """Keywords of parallelism by named axes."""

    parallel: str
    axis_order: str
    zero: int
    micro_batch: int
    stage_hw: str
    stage_layers: str


class RunOptions(TypedDict, total=False):
    """Where many steps run, and what is kept of them."""

    jobs: int | None
    store: StoreLike | None
    cluster: str | None
    max_memory: str | float | None
    progress: Progress | None


class Options(ModelOptions, AxisOptions, total=False):
    """Keywords of one step: what its planner minimises, and by which table of communication."""

    objective: str
    communication: str


class StepOptions(Options, total=False):
    """The same, or a plan that a file has; and what simulating it may hold."""

    plan: str | PathLike[str]
    max_memory: str | float | None


class RunsOptions(StepOptions, total=False):
    """The same, and what a run of many steps is asked for."""

    tokens: float
    mtbf: str
    storage_bandwidth: str
    checkpoint: str
    checkpoint_every: str
    copy_bandwidth: str
    restart_time: str
    spares: int
    repair_time: str
    spread: str | Iterable[str]
    repeats: int
    seed: int


class FitOptions(ModelOptions, RunOptions, total=False):
    """Keywords of a search over named axes; those that are given are held, others varied."""

    parallel: str
    micro_batch: int
    zero: int


class ReportOptions(ModelOptions, AxisOptions, RunOptions, total=False):
    """Keywords of a report."""

    metrics: str | Iterable[str]


class StudyOptions(Options, RunOptions, total=False):
    """Keywords of studies of many steps."""

    metrics: str | Iterable[str]


ABOUT = {
    "network": "a name (accelarray.networks()), a path, a Network, or (module, example)",
    "networks": 'one network or several; "all" are AccPar\'s nine',
    "planner": 'a name (accelarray.planners()), a function, a Plan; default "axes" with parallel',
    "planners": 'one planner or several; "all" are the papers\' four',
    "array": "a name (accelarray.arrays()), the path of a .toml file, or an Array",
    "batch": "samples of a step (default 512, or what the plan was made for)",
    "execution": '"published", "deployed" or an Execution; default: what the array is for',
    "set": 'changes of the array\'s spec: {"network.bandwidth": "100 Gbit/s"}',
    "folded": "False: simulate every core and link, not one of each class; same result",
    "progress": "function that is called with a text after each finished part of the work",
}
"""Of each keyword that has other values in Python than on the command line, what they are."""


def about(function: str, name: str) -> str:
    """What a keyword of a function means: its values, unit and default, for ``help()``."""
    option = OPTIONS.get(f"{function}.{name}")
    if option is None and name in ABOUT:
        return ABOUT[name]
    return (option or OPTIONS[ALIASES[name]]).keyword


F = TypeVar("F", bound=Callable[..., Any])


def explicit(**own: str) -> Callable[[F], F]:
    """Show the keywords in place of ``**options``: in the signature, and in the docstring.

    ``own`` describes those of this function alone. The function raises TypeError,
    with the nearest name, for a keyword that is not there.
    """

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        parameters = dict(signature.parameters)
        if (options := parameters.pop("options", None)) is not None:
            parameters |= _of(str(options.annotation).removeprefix("Unpack[").removesuffix("]"))

        @functools.wraps(function)
        def called(*args: Any, **keywords: Any) -> Any:
            check_keywords(keywords, parameters)
            named = checked(dict(zip(signature.parameters, args, strict=False)), parameters)
            rest = args[len(named) :]
            return function(*named.values(), *rest, **checked(keywords, parameters))

        lines = [
            f"- {name}: {own.get(name) or about(function.__name__, name)}" for name in parameters
        ]
        wrapped = [textwrap.fill(line, 96, subsequent_indent="  ") for line in lines]
        found: Any = called
        found.__signature__ = signature.replace(parameters=list(parameters.values()))
        found.__doc__ = "\n".join([f"{inspect.getdoc(function)}\n", "Parameters:\n", *wrapped])
        return cast("F", found)

    return shown


def _of(table: str) -> dict[str, inspect.Parameter]:
    """The keywords of one of the tables above; None is the default of each."""
    found = {}
    for name, kind in globals()[table].__annotations__.items():
        text = kind.__forward_arg__
        text = text if "None" in text else f"{text} | None"
        only = inspect.Parameter.KEYWORD_ONLY
        found[name] = inspect.Parameter(name, only, default=None, annotation=text)
    return found


def check_keywords(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError, with the nearest name, for a keyword that is not known."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *_OTHERS], n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"options are {', '.join(sorted(known))}"
            )
            raise TypeError(f"unexpected keyword argument {name!r}; {hint}")


def checked(
    given: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:
    """Values by keyword; raises UsageError for one that is of no kind that its keyword takes.

    Numbers may be text, as the command line has them.
    """
    found = dict(given)
    for name, value in given.items():
        said = str(parameters[name].annotation).replace("os.", "").split("|")
        kinds = {one.strip() for one in said}
        optional = "None" in kinds or parameters[name].default is None
        kinds -= {"None"}
        if (value is None and optional) or not kinds <= KINDS.keys():
            continue
        truth = isinstance(value, bool) and "bool" not in kinds  # Python has it for a number
        takes_number = "bool" not in kinds and not kinds.isdisjoint({"int", "float"})
        numeric = takes_number and isinstance(value, str) and value.isdecimal()
        if truth or not (numeric or any(isinstance(value, KINDS[one][0]) for one in kinds)):
            words = " or ".join(dict.fromkeys(KINDS[one][1] for one in sorted(kinds)))
            raise UsageError(f"{name} {repr(value)[:80]}: must be {words}")
        if numeric and "str" not in kinds:
            found[name] = int(value)
    return found


KINDS: dict[str, tuple[Any, str]] = {
    "Changes": (Iterable, 'changes as "KEY=VALUE"'),
    "Vary": (Iterable, "values by key"),
    "Iterable[str]": (Iterable, "a list"),
    "Iterable[int]": (Iterable, "a list"),
    "Progress": (Callable, "a function of a text"),
    "StoreLike": ((str, PathLike, Store), "a path or an open store"),
    "PathLike[str]": (PathLike, "a path"),
    "str": (str, "text"),
    "bool": (bool, "True or False"),
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
}
"""Plain kinds of values, by the words of annotations, and what messages call them."""
_OTHERS = ("network", "networks", "planner", "planners", "array", "batch", "execution", "set")
