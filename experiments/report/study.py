"""A report: one page that holds everything, needs no network, and can be sent to somebody."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Any

from experiments.report.page.about import made_by, specs
from experiments.report.page.markup import Markup, escape, join, tag
from experiments.report.page.plans import plan_maps
from experiments.report.page.results import results
from experiments.report.page.speedups import speedups
from experiments.report.page.step import step
from experiments.studies.comparison import PUBLISHED_BATCH, Comparison, compare
from experiments.studies.step import plan_step, run_step
from hardware import Array
from simulator import PUBLISHED, Execution
from workloads import Network

TITLE = "accelarray report"
SECTIONS = {
    "speedups": "speedups",
    "results": "store",
    "plans": "plans",
    "timeline": "timeline",
    "specs": "specs",
    "made": "versions",
}


@dataclass(frozen=True, slots=True)
class Study:
    """What a report is about.

    ``mapped`` is the network whose plans are shown on every array, ``drawn``
    the one whose step under ``drawn_planner`` is, on the first array.
    ``rows`` are a store's results (None: no store), ``command`` what was typed.
    """

    arrays: tuple[Array, ...]
    networks: tuple[Network, ...]
    planners: tuple[str, ...]
    mapped: Network
    drawn: Network
    drawn_planner: str = "accpar"
    batch: int = PUBLISHED_BATCH
    execution: Execution = PUBLISHED
    metrics: tuple[str, ...] = ("time",)
    rows: Sequence[Mapping[str, Any]] | None = None
    command: str = ""


def report(study: Study, progress: Callable[[str], None] = lambda done: None) -> str:
    """The page, the same for the same study; ``progress`` hears of each case done.

    Raises KeyboardInterrupt where ``compare`` was interrupted.
    """
    parts = {
        "speedups": speedups([_compared(study, array, progress) for array in study.arrays]),
        "results": None if study.rows is None else results(study.rows),
        "plans": _plans(study),
        "timeline": _step(study),
        "specs": specs(list(study.arrays)),
        "made": made_by(study.command),
    }
    return page({name: part for name, part in parts.items() if part is not None})


def page(parts: Mapping[str, Markup]) -> str:
    """The skeleton around sections; only its own style and script may run."""
    style, script = _asset("style.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    links = [tag("a", SECTIONS[name], href=f"#{name}") for name in parts]
    return Template(_asset("page.html")).substitute(
        policy=escape(policy),
        title=escape(TITLE),
        style=style,
        contents=join(links),
        sections=join(parts.values()),
        script=script,
    )


def _compared(study: Study, array: Array, progress: Callable[[str], None]) -> Comparison:
    result = compare(
        array,
        study.networks,
        study.planners,
        study.batch,
        progress,
        execution=study.execution,
        metrics=study.metrics,
    )
    if not result.complete:
        raise KeyboardInterrupt
    return result


def _plans(study: Study) -> Markup:
    plans = [
        (
            study.execution.planned(array),
            [
                plan_step(study.mapped, p, array, study.batch, execution=study.execution)
                for p in study.planners
            ],
        )
        for array in study.arrays
    ]
    return plan_maps(study.mapped.name, plans)


def _step(study: Study) -> Markup:
    array = study.arrays[0]
    _, timeline = run_step(
        study.drawn, study.drawn_planner, array, study.batch, execution=study.execution
    )
    title = f"{study.drawn.name}, {study.drawn_planner}, on {array.name}, batch {study.batch}"
    return step(title, timeline)


def _asset(name: str) -> str:
    folder = resources.files("experiments") / "report" / "page"
    return (folder / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What the policy calls an inline style or script that may be used."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
