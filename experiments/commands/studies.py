"""``accelarray papers speedup``, ``sweep``, ``fit`` and ``report``: many steps."""

from __future__ import annotations

import argparse
import sys

from experiments.api.fitting import fit
from experiments.api.studies import report
from experiments.commands.arguments import (
    ARRAY,
    AXES,
    EXECUTION,
    MODEL,
    RUNNER,
    STEP,
    Parser,
    changed,
)
from experiments.commands.resolve import array_name, keywords_of, study_of
from experiments.output import check_page, check_writable, deliver, text_of
from experiments.pictures.plots import check_drawable
from experiments.results.result import Answer, check_outputs, show
from experiments.results.speedups import (
    ComparisonResult,
    ScalingResult,
    compared,
    parse_levels,
    scaled,
)
from experiments.results.sweeps import axes_of, grid_of, planners_for, records, swept
from simulator.search.shares import FAIRER

HIDDEN = ("optimizer", "memory_reserve", "micro_batch", "recompute", "pipeline.schedule")
"""Flags that studies of planners do not show."""
HELD = (
    changed("parallel", about="axes that all combinations have, as tp=8,sp (--axes varies others)"),
    *(changed(key, default="varied") for key in ("zero", "micro_batch")),
)
"""What fit varies, unless it is given."""
FITTED = ("recompute", "pipeline.schedule")
"""Flags that fit does not show, and takes."""
NO_PLAN = changed("batch", default="512")
"""The batch of commands that take no ``--plan``."""


def configure_speedup(parser: Parser) -> None:
    """Add its arguments."""
    parser.add(*MODEL, NO_PLAN, "networks", *ARRAY, "planners", *AXES, hide=HIDDEN)
    further = ("planner.communication", *EXECUTION, "metrics", "execution.unfolded", *RUNNER)
    parser.add(*further, hide=HIDDEN)
    parser.add_output()
    parser.add("speedup.levels", "speedup.baselines", "plot")


def run_speedup(args: argparse.Namespace) -> int:
    """Compare, then show; 130 when interrupted on the way."""
    study = study_of(args, FAIRER if args.baselines else ())
    check_outputs(args)
    if args.levels is None:
        found = compared(study)
        done, of = len(found.comparison.networks), f"{len(study.networks)} networks"
        return _shown(args, found, f"{done} of {of}")
    scaling = scaled(study, args.levels)
    words = f"{len(scaling.levels)} of {len(parse_levels(args.levels))} sizes"
    return _shown(args, scaling, words)


def _shown(args: argparse.Namespace, result: ComparisonResult | ScalingResult, after: str) -> int:
    """What is finished goes to the terminal; files are not replaced by half a study."""
    show(args, result, complete=result.complete)
    if result.complete:
        return 0
    kept = "".join(f"; {name} is as it was" for name in (args.output, args.plot) if name)
    kept += f"; finished cases are in {args.store}" if args.store else ""
    print(f"accelarray: interrupted after {after}{kept}", file=sys.stderr)
    return 130


ENDINGS = (".csv", ".json", ".parquet")


def configure_sweep(parser: Parser) -> None:
    """Add its arguments."""
    parser.add(
        "vary", "networks", "planners", NO_PLAN, *STEP, "metrics", *RUNNER, "plot", hide=HIDDEN
    )
    parser.add("sweep.estimate")
    parser.add_output("parquet")


def run_sweep(args: argparse.Namespace) -> None:
    """Run what is missing, then show table and picture."""
    axes = axes_of(args.vary)
    args.planners = planners_for(args.planners, axes)
    study = study_of(args)
    grid = grid_of(study, axes)
    check_outputs(args)
    if args.plot:
        check_drawable(grid)
    found = swept(study, grid, estimate=args.estimate)
    table = found.to_frame()
    show(args, Answer(records(table), found.rows, found.tables, table, found.plot))
    if args.output and (sentences := found.sentences()):
        deliver(text_of(*sentences), None)


def configure_fit(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_network()
    batch = changed("batch", value=None, default="512")
    parser.add(*MODEL, batch, *ARRAY, "fit.axes", *HELD, *EXECUTION, *RUNNER, "plot", hide=FITTED)
    parser.add(
        "fit.best", "fit.at_most", "fit.tokens_per_step", "fit.objective", "fit.vary", "export"
    )
    parser.add_output()


def run_fit(args: argparse.Namespace) -> None:
    """Run every combination that may fit, then deliver table and picture."""
    check_outputs(args)
    show(args, fit(array=array_name(args), **keywords_of(args, fit, "array")), args.export)


def configure_report(parser: Parser) -> None:
    """Add its arguments."""
    both = changed("array", default="the paper's two, or the changed accpar-mixed")
    parser.add(both, *MODEL, NO_PLAN, "networks", *ARRAY[1:], "planners", *AXES, hide=HIDDEN)
    parser.add(*EXECUTION, "metrics", *RUNNER, "report.timeline", "report.title", hide=HIDDEN)
    parser.add("config", changed("output", about="the page (.html)", default="", required=True))


def run_report(args: argparse.Namespace) -> None:
    """Collect what the page is about, then make and write it whole."""
    check_page(args.output)
    check_writable(args.output)
    found = report(command=args.typed, **keywords_of(args, report, "command"))
    found.save(args.output)
