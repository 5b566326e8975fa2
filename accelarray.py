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
- further keywords have the names of the command line's flags: ``help(accelarray.simulate)`` lists
  them with units and defaults.

A batch is samples a step (512 unless a plan was made for another); what a name ends in is its
unit: ``_s`` seconds, ``_j`` joules. What makes no sense raises ``NetworkError``, ``PlanError``,
``SpecError``, ``SimulationError``, ``CollectiveError`` or ``UsageError``, all of them ValueErrors
that say what would be right, and an unknown keyword TypeError. What else there is to know is an
``AccelarrayWarning``, or stands in the ``warnings`` of a result.
Every result has a short ``repr``, shows itself in notebooks, and has ``summary()``,
``to_frame()``, ``plot()``, ``save(path)``, ``to_dict()`` and ``to_json()``.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.api.argument_types import ArrayLike, Changes, NetworkLike
    from experiments.api.designing import DesignResult as DesignResult
    from experiments.api.designing import design as design
    from experiments.api.fitting import FitResult as FitResult
    from experiments.api.fitting import fit as fit
    from experiments.api.measured import CalibrationResult as CalibrationResult
    from experiments.api.measured import ValidationResult as ValidationResult
    from experiments.api.measured import calibrate as calibrate
    from experiments.api.measured import validate as validate
    from experiments.api.papers import PaperResult as PaperResult
    from experiments.api.papers import reproduce as reproduce
    from experiments.api.steps import difference as difference
    from experiments.api.steps import explain as explain
    from experiments.api.steps import plan as plan
    from experiments.api.steps import simulate as simulate
    from experiments.api.studies import ReportResult as ReportResult
    from experiments.api.studies import compare as compare
    from experiments.api.studies import report as report
    from experiments.api.studies import scale as scale
    from experiments.api.studies import speedup as speedup
    from experiments.api.studies import sweep as sweep
    from experiments.api.training import TrainResult as TrainResult
    from experiments.api.training import train as train
    from experiments.collective import CollectiveResult as CollectiveResult
    from experiments.collective import collective as collective
    from experiments.explain.traced import TraceDifferenceResult as TraceDifferenceResult
    from experiments.files.read import LogResult as LogResult
    from experiments.files.read import ReadResult as ReadResult
    from experiments.files.read import read as read
    from experiments.link_calibration import WiresResult as WiresResult
    from experiments.notices import AccelarrayWarning as AccelarrayWarning
    from experiments.output import UsageError as UsageError
    from experiments.results.catalog import Names as Names
    from experiments.results.difference import DifferenceResult as DifferenceResult
    from experiments.results.explanation import ExplanationResult as ExplanationResult
    from experiments.results.planned import PlanResult as PlanResult
    from experiments.results.speedups import ComparisonResult as ComparisonResult
    from experiments.results.speedups import ScalingResult as ScalingResult
    from experiments.results.step import StepResult as StepResult
    from experiments.results.sweeps import SweepResult as SweepResult
    from experiments.studies.running.store import StoreError as StoreError
    from hardware import Array as Array
    from hardware import SpecError as SpecError
    from planners import Plan as Plan
    from planners import PlanError as PlanError
    from planners import Planner as Planner
    from simulator import CollectiveError as CollectiveError
    from simulator import Execution as Execution
    from simulator import OutOfMemoryError as OutOfMemoryError
    from simulator import SimulationError as SimulationError
    from simulator import Timeline as Timeline
    from simulator.asynchronous.errors import TrainingError as TrainingError
    from workloads import Builder as Builder
    from workloads import Network as Network
    from workloads import NetworkError as NetworkError

    __version__: str

HOMES = {
    "accelarray": "array arrays devices methods network networks planners stacks",
    "experiments.collective": "CollectiveResult collective",
    "experiments.api.designing": "DesignResult design",
    "experiments.explain.traced": "TraceDifferenceResult",
    "experiments.files.read": "LogResult ReadResult read",
    "experiments.api.fitting": "FitResult fit",
    "experiments.api.measured": "CalibrationResult ValidationResult calibrate validate",
    "experiments.api.papers": "PaperResult reproduce",
    "experiments.api.steps": "difference explain plan simulate",
    "experiments.api.studies": "ReportResult compare report scale speedup sweep",
    "experiments.api.training": "TrainResult train",
    "experiments.results.catalog": "Names",
    "experiments.results.speedups": "ComparisonResult ScalingResult",
    "experiments.results.difference": "DifferenceResult",
    "experiments.results.explanation": "ExplanationResult",
    "experiments.notices": "AccelarrayWarning",
    "experiments.results.planned": "PlanResult",
    "experiments.results.step": "StepResult",
    "experiments.results.sweeps": "SweepResult",
    "experiments.output": "UsageError",
    "experiments.studies.running.store": "StoreError",
    "experiments.version": "__version__",
    "experiments.link_calibration": "WiresResult",
    "hardware": "Array SpecError",
    "planners": "Plan PlanError Planner",
    "simulator": "CollectiveError Execution OutOfMemoryError SimulationError Timeline",
    "simulator.asynchronous.errors": "TrainingError",
    "workloads": "Builder Network NetworkError",
}
"""Modules, and the names that are taken from them: all there are, each when it is asked for."""
PACKAGES = ("experiments", "hardware", "planners", "simulator", "workloads")
HERE = os.path.dirname(os.path.abspath(__file__))


class _Own:
    """Finds accelarray's packages beside this file, whatever else has their names."""

    folder = HERE

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As any finder of ``sys.meta_path``."""
        top, _, rest = name.partition(".")
        if top not in PACKAGES:
            return None
        spec = PathFinder.find_spec(name, path if rest else [self.folder], target)
        if spec is None and (theirs := _hidden(name)):
            raise ImportError(_said(top, theirs))
        if spec is not None and not rest and (theirs := _hidden(name)):
            _explain(spec, theirs)
        return spec


def _hidden(name: str) -> str | None:
    """A user's file of that name, which one of accelarray's packages hides."""
    for folder in sys.path:
        if os.path.abspath(folder) == HERE:
            continue
        path = os.path.join(os.path.abspath(folder), *name.split("."))
        for file in (f"{path}.py", os.path.join(path, "__init__.py")):
            if os.path.isfile(file):
                return file
    return None


def _said(package: str, theirs: str) -> str:
    return (
        f"{package!r} is a package of accelarray ({os.path.join(HERE, package)}), which hides "
        f"{theirs}: rename that, as my_{package}, and import it by its new name"
    )


def _explain(spec: ModuleSpec, theirs: str) -> None:
    """What a package of accelarray lacks, and a user's file may have, is said with its name."""
    loader: Any = spec.loader
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)

        def missing(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            raise ImportError(
                f"no {name!r}: {_said(module.__name__, theirs)}", name=module.__name__
            )

        module.__dict__.setdefault("__getattr__", missing)

    loader.exec_module = exec_module


def _settle() -> None:
    """Find accelarray's packages by their location from now on; ImportError for loaded others."""
    for name in PACKAGES:
        loaded = sys.modules.get(name)
        if loaded is None:
            continue
        folder = os.path.abspath([*getattr(loaded, "__path__", ()), ""][0])
        if getattr(loaded, "__file__", None) and folder != os.path.join(HERE, name):
            raise ImportError(
                f"{loaded.__file__} is loaded as {name!r}, which is the name of a package of "
                f"accelarray: rename that file, as my_{name}, and import it by its new name",
                name=name,
            )
        if folder != os.path.join(HERE, name):
            del sys.modules[name]  # a folder without __init__.py has no code
    if not any(getattr(one, "folder", None) == HERE for one in sys.meta_path):
        sys.meta_path.insert(0, _Own())


_settle()


def network(given: NetworkLike) -> Network:
    """A network with its layers; raises NetworkError."""
    from experiments.api.inputs import network_of

    return network_of(given)


def array(given: ArrayLike, *, set: Changes = ()) -> Array:  # noqa: A002
    """An array with its devices and wires, values of its spec changed; raises SpecError."""
    from experiments.api.inputs import array_of

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


def stacks() -> Names:
    """The software profiles that ship with accelarray, by name."""
    return _names("stacks")


def methods() -> Names:
    """The methods of training with many workers, by name."""
    return _names("methods")


def _names(kind: str) -> Names:
    from experiments.results.catalog import names_of

    return names_of(kind)


if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    _HOME = {name: home for home, names in HOMES.items() for name in names.split()}
    __all__ = sorted(_HOME)

    def __getattr__(name: str) -> Any:
        """Names that come from elsewhere, when they are first asked for."""
        if name not in _HOME:
            raise AttributeError(f"module 'accelarray' has no attribute {name!r}")
        value = getattr(import_module(_HOME[name]), name.strip("_"))
        globals()[name] = value = value() if name == "__version__" else value
        return value

    def __dir__() -> list[str]:
        return __all__


def _main() -> int:
    """The command ``accelarray``."""
    try:
        from experiments.cli import main

        code = main()
    except KeyboardInterrupt:  # before the command begins, or behind its end
        print("accelarray: interrupted", file=sys.stderr)
        code = 130
    if code in (130, 143):
        # Python ends by SIGINT, whatever the code, where an interruption met the exec of a text.
        with suppress(OSError):
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        os._exit(code)
    return code


def _probe() -> str:
    """On a cluster: import what a case needs, and say which model it is."""
    from experiments.version import model

    return model()


def _begin(parent: int) -> None:
    """In a worker process, which finds accelarray's packages by this module too."""
    from experiments.studies.running.cores import begin

    begin(parent)


if __name__ == "__main__":
    sys.exit(_main())
