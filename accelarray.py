"""Training steps on arrays of accelerators: how long one takes, and why.

    import accelarray

    step = accelarray.simulate("resnet50", planner="accpar", array="tpu-v3-8", batch=1024)
    step.plot()

Everywhere,

- a network is a name (see ``networks()``; or "gpt2:seq=128"), the path of an ONNX or layer file,
  a ``Network``, or a PyTorch module with an example of its input as a pair: (module, example);
- a planner is a name (see ``planners()``), a function with the signature of ``Planner``, or a
  plan that is made already: a ``Plan``, or what ``plan()`` returns;
- an array is a name (see ``arrays()``), the path of a TOML file, or an ``Array``; ``set`` changes
  values of its spec: {"network.bandwidth": "100 Gbit/s"}, or "devices.0.count=64";
- an execution is "published" (the papers' model), "deployed" (real wires, memory and schedules)
  or an ``Execution``; None is the one that the array is for;
- further keywords are ``objective`` ("time", "traffic"), ``communication`` ("printed", "plotted")
  and the deployed model's ``overlap`` ("full", "none"), ``shards`` ("whole", "exact"), ``bucket``
  (bytes, or "25 MB"), ``algorithm`` and ``strict_memory`` (what does not fit is an error);
- studies of many steps take ``metrics`` ("time,energy,traffic"), ``jobs`` (processes), ``store``
  (a file that keeps finished cases), ``cluster`` (a dask scheduler) and ``progress`` (a function
  that hears of each finished case).

A batch is samples a step (512 unless a plan was made for another); what a name ends in is its
unit: ``_s`` seconds, ``_j`` joules. What makes no sense raises ``NetworkError``, ``PlanError``,
``SpecError``, ``SimulationError`` or ``UsageError``, all of them ValueErrors that say what would
be right, and an unknown keyword TypeError. What else there is to know is an ``AccelarrayWarning``.
Every result has a short ``repr``, shows itself in notebooks, and has ``summary()``,
``to_frame()``, ``plot()``, ``save(path)``, ``to_dict()`` and ``to_json()``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from experiments.face.forms import (
        ArrayLike,
        Changes,
        ExecutionLike,
        NetworkLike,
        Networks,
        Options,
        PlannerLike,
        Planners,
        Progress,
        StudyOptions,
        Vary,
    )
    from experiments.notices import AccelarrayWarning
    from experiments.output import UsageError
    from experiments.results.catalog import Names
    from experiments.results.difference import DifferenceResult
    from experiments.results.explanation import ExplanationResult
    from experiments.results.planned import PlanResult
    from experiments.results.speedups import ComparisonResult, ScalingResult
    from experiments.results.step import StepResult
    from experiments.results.sweeps import SweepResult
    from hardware import Array, SpecError
    from planners import Plan, PlanError, Planner
    from simulator import (
        CollectiveError,
        Execution,
        OutOfMemoryError,
        SimulationError,
        Timeline,
    )
    from workloads import Builder, Network, NetworkError

    __version__: str

__all__ = [
    "AccelarrayWarning",
    "Array",
    "Builder",
    "CollectiveError",
    "ComparisonResult",
    "DifferenceResult",
    "Execution",
    "ExplanationResult",
    "Names",
    "Network",
    "NetworkError",
    "OutOfMemoryError",
    "Plan",
    "PlanError",
    "PlanResult",
    "Planner",
    "ScalingResult",
    "SimulationError",
    "SpecError",
    "StepResult",
    "SweepResult",
    "Timeline",
    "UsageError",
    "__version__",
    "array",
    "arrays",
    "compare",
    "devices",
    "difference",
    "explain",
    "network",
    "networks",
    "plan",
    "planners",
    "scale",
    "simulate",
    "sweep",
]


def simulate(
    network: NetworkLike,
    planner: PlannerLike,
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    set: Changes = (),  # noqa: A002  (the command's --set)
    folded: bool = True,
    **options: Unpack[Options],
) -> StepResult:
    """Plan one training step and simulate it; its plan and timeline come with it.

    ``folded=False`` simulates every core and link, not one of each class that
    does the same: the same step, found later.
    """
    from experiments.face.asked import cases_of
    from experiments.results.step import stepped

    asked = (network, [planner], array, batch, execution, set, options)
    (case,) = cases_of(*asked, folded=folded)
    return stepped(case)


def plan(
    network: NetworkLike,
    planner: PlannerLike,
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    set: Changes = (),  # noqa: A002
    **options: Unpack[Options],
) -> PlanResult:
    """How a planner splits a network: a type and a share for each layer at each level."""
    from experiments.face.asked import cases_of
    from experiments.results.planned import planned

    return planned(*cases_of(network, [planner], array, batch, execution, set, options))


def explain(
    network: NetworkLike,
    planner: PlannerLike,
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    set: Changes = (),  # noqa: A002
    progress: Progress | None = None,
    **options: Unpack[Options],
) -> ExplanationResult:
    """Why a step takes as long as it does, what would help, and what each ``set`` brought."""
    from experiments.face.asked import cases_of
    from experiments.face.inputs import spec_of
    from experiments.results.explanation import explained

    name, changes = spec_of(array, set)
    (case,) = cases_of(network, [planner], array, batch, execution, changes, options)
    return explained(case, name, changes, progress)


def difference(first: StepResult, second: StepResult) -> DifferenceResult:
    """Where the difference between two steps of one network, array and batch comes from.

    Raises UsageError for steps that cannot be compared.
    """
    from experiments.results.difference import differing

    return differing(first, second)


def compare(
    networks: Networks = "all",
    planners: Planners = "all",
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    set: Changes = (),  # noqa: A002
    **options: Unpack[StudyOptions],
) -> ComparisonResult:
    """Speedups of planners over data parallelism, network by network.

    "all" are AccPar's nine networks, and all planners but ``model_parallel``.
    """
    from experiments.face.asked import study_of
    from experiments.results.speedups import compared, whole

    return whole(compared(study_of(networks, planners, array, batch, execution, set, options)))


def scale(
    networks: Networks = "all",
    planners: Planners = "all",
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    levels: str | Iterable[int] = "2-8",
    set: Changes = (),  # noqa: A002
    **options: Unpack[StudyOptions],
) -> ScalingResult:
    """``compare`` on arrays of 2^levels accelerators in the proportions of ``array``."""
    from experiments.face.asked import study_of
    from experiments.results.speedups import scaled, whole

    study = study_of(networks, planners, array, batch, execution, set, options)
    return whole(scaled(study, levels))


def sweep(
    vary: Vary,
    networks: Networks = "all",
    planners: Planners = "all",
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    set: Changes = (),  # noqa: A002
    **options: Unpack[StudyOptions],
) -> SweepResult:
    """Every combination of varied values, under every planner, for every network.

    ``vary`` has lists and ranges of anything in the array's spec, of ``array``, ``batch``,
    ``execution``, ``objective`` and of options: {"network.bandwidth": "1 Gbit/s:1 Tbit/s:log:16",
    "batch": [64, 128]}, or texts as "batch=64,128".
    """
    from experiments.face.asked import study_of
    from experiments.results.sweeps import grid_of, swept

    study = study_of(networks, planners, array, batch, execution, set, options)
    return swept(study, grid_of(study, vary))


def network(given: NetworkLike) -> Network:
    """A network with its layers; raises NetworkError."""
    from experiments.face.inputs import network_of

    return network_of(given)


def array(given: ArrayLike, *, set: Changes = ()) -> Array:  # noqa: A002
    """An array with its devices and wires, values of its spec changed; raises SpecError."""
    from experiments.face.inputs import array_of

    return array_of(given, set)


def networks() -> Names:
    """The networks that ship with accelarray, by name."""
    return _names("networks")


def planners() -> Names:
    """The planners there are, those of installed packages among them, by name."""
    return _names("planners")


def arrays() -> Names:
    """The arrays that ship with accelarray, by name."""
    return _names("arrays")


def devices() -> Names:
    """The devices that ship with accelarray, of which arrays are made, by name."""
    return _names("devices")


def _names(kind: str) -> Names:
    from experiments.results.catalog import names_of

    return names_of(kind)


if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake

    def __getattr__(name: str) -> Any:
        """Names that come from elsewhere, when they are first asked for."""
        from experiments.face.exports import found

        globals()[name] = value = found(name)
        return value

    def __dir__() -> list[str]:
        return __all__
