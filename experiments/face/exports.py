"""Where the names come from that ``accelarray`` has beside its functions.

``import accelarray`` itself loads nothing: a name is looked up when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

HOMES = {
    "experiments.collective": "CollectiveResult collective",
    "experiments.face.designing": "DesignResult design",
    "experiments.explain.traced": "TraceDifferenceResult",
    "experiments.files.read": "LogResult ReadResult read",
    "experiments.face.fitting": "FitResult fit",
    "experiments.face.measured": "CalibrationResult ValidationResult calibrate validate",
    "experiments.face.papers": "PaperResult reproduce",
    "experiments.face.steps": "difference explain plan simulate",
    "experiments.face.studies": "ReportResult compare report scale speedup sweep",
    "experiments.face.training": "TrainResult train",
    "experiments.results.catalog": "Names",
    "experiments.results.speedups": "ComparisonResult ScalingResult",
    "experiments.results.difference": "DifferenceResult",
    "experiments.results.explanation": "ExplanationResult",
    "experiments.notices": "AccelarrayWarning",
    "experiments.results.planned": "PlanResult",
    "experiments.results.step": "StepResult",
    "experiments.results.sweeps": "SweepResult",
    "experiments.output": "UsageError",
    "experiments.wires": "WiresResult",
    "hardware": "Array SpecError",
    "planners": "Plan PlanError Planner",
    "simulator": "CollectiveError Execution OutOfMemoryError SimulationError Timeline",
    "workloads": "Builder Network NetworkError",
}
"""Module to the names that are taken from it."""


def found(name: str) -> Any:
    """What ``accelarray.name`` is; raises AttributeError."""
    if name == "__version__":
        return importlib.import_module("experiments.version").version()
    for home, names in HOMES.items():
        if name in names.split():
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'accelarray' has no attribute {name!r}")
