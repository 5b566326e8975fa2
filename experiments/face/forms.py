"""The forms in which a script may name the parts of a step."""

from __future__ import annotations

import difflib
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

if TYPE_CHECKING:
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


class PlannerOptions(TypedDict, total=False):
    """What a planner minimises, and by which table of communication."""

    objective: str
    communication: str


class RunOptions(TypedDict, total=False):
    """Where many steps run, and what is kept of them."""

    jobs: int | None
    store: StoreLike | None
    cluster: str | None
    progress: Progress | None


class Options(ModelOptions, AxisOptions, PlannerOptions, total=False):
    """Keywords of one step."""


class FitOptions(ModelOptions, RunOptions, total=False):
    """Keywords of a search over named axes, which sets those itself."""


class ReportOptions(ModelOptions, AxisOptions, RunOptions, total=False):
    """Keywords of a report."""

    metrics: str | Iterable[str]


class StudyOptions(Options, RunOptions, total=False):
    """Keywords of studies of many steps."""

    metrics: str | Iterable[str]


ABOUT = {
    "attention": '"fused" (one kernel, no scores), "unfused" or "eager"; default: the stack\'s',
    "transform": 'changes of the network: "circulant=8", "zeros", "apart"; one or several',
    "precision": 'number formats: "bf16", "fp8", ...; default: the array\'s',
    "optimizer": '"adam", "sgd" or "adafactor"; default: the array\'s',
    "stack": "software profile, a name (accelarray list stacks) or a .toml file",
    "mode": '"training" (default) or "inference" (forward only)',
    "update": '"replicated", "sharded", "gradients", "weights" or "auto"; default: the plan\'s',
    "stages": 'pipeline stages, a number, or "auto" (planner "search"); default: no pipeline',
    "schedule": 'pipeline schedule: "gpipe", "1f1b", "interleaved", ...',
    "micro_batches": "micro-batches of a step, a number (default 1)",
    "virtual": "stages on each place, a number (default 1)",
    "recompute": '"none" (default), "selective", "full", a number of blocks, or "stages:0,2"',
    "tied": '"copies": stages that share weights both keep them',
    "vertical_sync": "without a flush: one weight version for a micro-batch in all stages",
    "batches": "steps to run where the pipeline is not flushed, a number",
    "cuts": 'first layer of each further stage, "conv3_1,fc6"; default: balanced',
    "overlap": '"full" (default: communication overlaps with computing) or "none"',
    "shards": '"whole" (default: whole samples and channels) or "exact"',
    "bucket": 'size of a gradient bucket, in bytes or as "25 MiB"; 0: each gradient alone',
    "memory_reserve": 'share of memory that steps may not use, "6 %"; default: the stack\'s',
    "update_order": '"layers" or "arrival"; default: the plan\'s',
    "algorithm": 'of every collective: "ring", "tree", ... (default "auto": the fastest)',
    "strict_memory": "True: a step that does not fit in memory raises OutOfMemoryError",
    "parallel": 'degrees of parallelism, "dp=4,pp=2,tp=8"; planner "axes" reads them',
    "axis_order": 'axes on the machine, innermost first (default "tp,cp,dp,pp")',
    "zero": "stage of ZeRO, 0 to 3: what data-parallel devices keep in parts",
    "micro_batch": "samples of a micro-batch on each data-parallel device",
    "stage_hw": 'devices of each stage: kind, tp, replicas, "v100:1x4;t4:2x2"',
    "stage_layers": 'blocks of each stage, "14;10"; default: equal numbers',
    "objective": '"time" (seconds, default) or "traffic" (elements)',
    "communication": '"printed" (the papers\' table, default) or "plotted" (HyPar\'s figures)',
    "jobs": "processes; default: as many as save time",
    "store": "file that keeps finished cases; they are not run again",
    "cluster": 'address of a dask scheduler, "tcp://host:8786"',
    "progress": "function that is called with a text after each finished case",
    "metrics": '"time" (default), "energy", "traffic"; one text or several',
    "network": "a name (accelarray.networks()), a path, a Network, or (module, example)",
    "networks": 'one network or several; "all" are AccPar\'s nine',
    "planner": 'a name (accelarray.planners()), a function, a Plan; default "axes" with parallel',
    "planners": 'one planner or several; "all" are the papers\' four',
    "array": "a name (accelarray.arrays()), the path of a .toml file, or an Array",
    "batch": "samples of a step (default 512, or what the plan was made for)",
    "execution": '"published", "deployed" or an Execution; default: what the array is for',
    "set": 'changes of the array\'s spec: {"network.bandwidth": "100 Gbit/s"}',
}
"""Of each keyword: its values, unit and default, for ``help()``."""

F = TypeVar("F", bound=Callable[..., Any])


def explicit(**about: str) -> Callable[[F], F]:
    """Show the keywords in place of ``**options``: in the signature, and in the docstring.

    ``about`` describes those of this function alone. The function raises TypeError,
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
            return function(*args, **keywords)

        lines = [f"- {name}: {(ABOUT | about)[name]}" for name in parameters]
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


_OTHERS = ("network", "networks", "planner", "planners", "array", "batch", "execution", "set")
