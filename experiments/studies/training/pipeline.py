"""A pipeline as a training run: stages as workers, and a model learned with their versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.table import Table

from experiments.output import UsageError, pairs_table
from experiments.studies.case import Case, step_of
from experiments.studies.training.run import MOST_ITERATIONS, Training
from experiments.studies.training.tables import SMALL, learned_rows, spread
from experiments.terms import duration
from hardware import Wires
from planners import Staging
from simulator.analysis.stages import stage_uses
from simulator.asynchronous.learning.pipelines import Stages, learn_pipeline
from simulator.asynchronous.learning.problems import load_problem

METHOD, USUAL = "pipeline", "pipedream"


def piped(asked: Training) -> dict[str, Any]:
    """What ``--format json`` prints: the keys of any training run that stages have.

    Run ``iterations`` batches through as many stages as there are workers; then learn.
    """
    if not 1 <= asked.iterations <= MOST_ITERATIONS // max(asked.workers, 1):
        raise UsageError(f"--iterations {asked.iterations}: at least one batch")
    if asked.slowdowns or asked.graph:
        raise UsageError("--method pipeline: has no --slowdown and no --graph")
    given = asked.execution.staging or Staging()
    if given.stages not in (1, asked.workers) or given.batches not in (0, asked.iterations):
        raise UsageError(
            "--method pipeline: --workers says how many stages, --iterations how many batches"
        )
    schedule = given.schedule or USUAL
    staging = replace(given, stages=asked.workers, batches=asked.iterations, schedule=schedule)
    execution = replace(asked.execution, staging=staging)
    case = Case(asked.network, "data_parallel", asked.array, asked.batch, execution=execution)
    _, timeline = step_of(case)
    stages, learned = Stages(timeline), None
    if len(stages.updates) < asked.workers * asked.iterations:
        raise UsageError(f"--schedule {schedule}: runs one batch; take pipedream or 2bw")
    if asked.learn is not None:
        problem = load_problem(asked.learn, asked.seed, asked.rate)
        learned = learn_pipeline(problem, timeline, asked.loss)
    time_s = timeline.makespan_s
    ends = {(update.stage, update.at_ps) for update in stages.updates}
    each = [sum(of == s for of, _ in ends) / time_s for s in range(asked.workers)]
    uses = stage_uses(timeline)
    wires = timeline.program.wires
    names = wires.names if isinstance(wires, Wires) else ()
    moved = timeline.link_bytes.tolist()
    return {
        "network": asked.network.name,
        "method": METHOD,
        "array": asked.array.name,
        "execution": str(execution),
        "batch": asked.batch,
        "iterations": asked.iterations,
        "seed": asked.seed,
        "iterations_per_s": sum(each),
        "samples_per_s": asked.iterations * asked.batch / time_s,
        "workers": each,
        "time_s": time_s,
        "staleness": {str(k): n for k, n in sorted(stages.staleness.items())},
        "bytes": {name: b for name, b in zip(names, moved, strict=False) if b},
        "waiting": {"other stages": sum(use.waiting for use in uses) / 1e12},
        "versions": [use.versions for use in uses],
        "learning": asked.learning(learned),
        "notes": _notes(asked),
    }


def _notes(asked: Training) -> list[str]:
    """What of the array is used otherwise than a reader may think."""
    boards = asked.array.group.units
    if boards <= asked.workers:
        return []
    return [
        f"all {boards} boards of {asked.array.name} are in {asked.workers} stages; "
        f"{asked.batch} samples are the batch of the whole pipeline"
    ]


def piped_tables(data: dict[str, Any]) -> Sequence[Table | str]:
    """What people read."""
    rows = {
        "array": data["array"],
        "execution": data["execution"],
        "time": duration(data["time_s"]),
        "samples": f"{data['samples_per_s']:.6g} a second",
        "updates": f"{data['iterations_per_s']:.6g} a second, all stages together",
        "versions of the weights": ", ".join(map(str, data["versions"])),
        "staleness": spread(data["staleness"]),
    }
    rows |= learned_rows(data)
    table = pairs_table(f"{data['network']}, pipeline", rows.items())
    return [table, SMALL] if data["learning"] else [table]
