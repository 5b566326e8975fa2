"""The forms in which a script may name the parts of a step."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict

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


class Options(TypedDict, total=False):
    """Options that few steps need; those from ``overlap`` on are the deployed model's.

    ``objective`` "time" or "traffic", ``communication`` "printed" or "plotted", ``mode`` "training"
    or "inference", ``update`` "replicated", "sharded", "gradients", "weights" or "auto";
    ``overlap`` "full" or "none", ``shards`` "whole" or "exact", ``bucket`` bytes or
    "25 MiB" (0: each gradient by itself), ``update_order`` "layers" or "arrival", ``algorithm``
    that of every collective; with ``strict_memory`` what does not fit is an error. Pipelines are
    asked for as on the command line: ``stages``, ``schedule``, ``micro_batches``, ``virtual``
    stages a place,
    ``recompute`` ("selective", "full", 4 blocks, "stages:0,2"), ``tied`` ("copies"),
    ``vertical_sync``, ``batches`` to run and ``cuts`` ("conv3_1,fc6"). Planner "axes" reads
    ``parallel`` ("dp=4,pp=2,tp=8"), ``axis_order`` ("tp,dp,pp"), ``zero`` (0 or 1: ``update``
    "replicated" or "sharded") and ``micro_batch``, the
    samples of one for each of dp ways, and for stages on devices of their own ``stage_hw``
    ("v100:1x4;t4:2x2": kind, tp and replicas) and ``stage_layers`` ("14;10").
    """

    objective: str
    communication: str
    mode: str
    update: str
    stages: int
    schedule: str
    micro_batches: int
    virtual: int
    recompute: str | int
    tied: str
    vertical_sync: bool
    batches: int
    cuts: str
    parallel: str
    axis_order: str
    zero: int
    micro_batch: int
    stage_hw: str
    stage_layers: str
    overlap: str | bool
    shards: str
    bucket: str | float
    update_order: str
    algorithm: str
    strict_memory: bool


class StudyOptions(Options, total=False):
    """Those, and what studies of many steps take.

    ``metrics`` are "time", "energy" and "traffic", in one text or several; ``jobs``
    processes run cases (None: as many as are worth it); the file ``store`` keeps
    finished ones; ``cluster`` is a dask scheduler; ``progress`` hears of each.
    """

    metrics: str | Iterable[str]
    jobs: int | None
    store: StoreLike | None
    cluster: str | None
    progress: Progress | None


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
