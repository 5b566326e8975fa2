"""``accelarray speedup``, ``sweep``, ``fit`` and ``report``: many steps."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from experiments.commands.arguments import (
    add_array,
    add_batch,
    add_communication,
    add_execution,
    add_metrics,
    add_network,
    add_networks,
    add_output,
    add_planners,
    add_runner,
    add_step,
    add_study,
    add_unfolded,
)
from experiments.commands.resolve import (
    array_name,
    keywords_of,
    study_of,
)
from experiments.face.fitting import fit
from experiments.face.studies import DRAWN, MAPPED, report
from experiments.output import UsageError, check_writable, deliver, text_of
from experiments.pictures.plots import check_drawable
from experiments.results.result import Answer, check_outputs, show
from experiments.results.speedups import (
    ComparisonResult,
    ScalingResult,
    compared,
    parse_levels,
    scaled,
)
from experiments.results.sweeps import grid_of, records, swept
from experiments.studies.options import MODEL_OPTIONS
from simulator.search.shares import FAIRER


def configure_speedup(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("speedup")
    add_array(parser)
    add_networks(parser)
    add_planners(parser)
    add_batch(parser)
    add_communication(parser)
    add_execution(parser)
    add_metrics(parser)
    add_unfolded(parser)
    add_runner(parser)
    add_output(parser)
    parser.add_argument(
        "--levels",
        metavar="H1,H2",
        help="the hierarchy sweep: arrays of 2^H accelerators in the array's proportions, as 2-16",
    )
    parser.add_argument(
        "--baselines",
        action="store_true",
        help="with data parallelism as it is run: best_share of each kind of device, best_subset "
        "of one kind (simulates many steps: takes about twice as long)",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    add_study(parser)
    parser.set_defaults(run=run_speedup)


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
KNOWN = (*ENDINGS, ".md", ".txt")


def configure_sweep(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("sweep")
    parser.add_argument(
        "--vary",
        metavar="KEY=VALUES",
        action="append",
        required=True,
        help='KEY=V1,V2 or KEY=FIRST:LAST:log|lin:COUNT, as network.bandwidth="1 Gbit/s:1 Tbit/s'
        ':log:16" or batch=64,128; several make a grid',
    )
    add_networks(parser)
    add_planners(parser)
    add_step(parser)
    add_metrics(parser)
    add_runner(parser)
    add_output(parser, "parquet")
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    add_study(parser)
    parser.set_defaults(run=run_sweep)


def run_sweep(args: argparse.Namespace) -> int:
    """Run what is missing, then show table and picture."""
    study = study_of(args)
    grid = grid_of(study, args.vary)
    if args.output and not args.output.lower().endswith(KNOWN):
        raise UsageError(f"--output {args.output!r}: the name must end in {', '.join(KNOWN)}")
    check_outputs(args)
    if args.plot:
        check_drawable(grid)
    found = swept(study, grid)
    table = found.to_frame()
    show(args, Answer(records(table), found.rows, found.tables, table, found.plot))
    if args.output and (sentences := found.sentences()):
        deliver(text_of(*sentences), None)
    return 0


def configure_fit(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("fit")
    add_network(parser)
    add_array(parser)
    add_batch(parser)
    parser.add_argument(
        "--axes",
        metavar="A1,A2",
        help="what to vary: tp, sp, pp, ep, micro-batch, recompute (these by default), cp, vp, "
        "update (zero 0 to 3, the last without stages); dp takes the devices that are left",
    )
    add_execution(parser)
    add_runner(parser)
    add_output(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    parser.set_defaults(run=run_fit)


def run_fit(args: argparse.Namespace) -> int:
    """Run every combination that may fit, then deliver table and picture."""
    check_outputs(args)
    show(args, fit(array=array_name(args), **keywords_of(args, fit, "array")))
    return 0


def configure_report(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("report")
    add_array(parser)
    add_networks(parser)
    add_planners(parser)
    add_batch(parser)
    add_execution(parser)
    add_metrics(parser)
    add_runner(parser)
    parser.add_argument(
        "--timeline",
        metavar="NETWORK",
        help=f"whose plans and step to draw (default: {MAPPED}'s plans, {DRAWN}'s step)",
    )
    parser.add_argument("--title", metavar="TEXT", help="the page's (default: what is compared)")
    parser.add_argument("--output", metavar="FILE", required=True, help="the page (.html)")
    add_study(parser)
    parser.set_defaults(run=run_report)


def run_report(args: argparse.Namespace) -> int:
    """Collect what the page is about, then make and write it whole."""
    if not args.output.endswith((".html", ".htm")):
        raise UsageError(f"--output {args.output!r}: the name must end in .html")
    check_writable(args.output)
    found = report(command=_command(args), **keywords_of(args, report, "command"))
    found.save(args.output)
    return 0


def _command(args: argparse.Namespace) -> str:
    """The command as it could be typed again."""
    words = ["accelarray", "report"]
    words += ["--array", args.array] if args.array else []
    words += [word for change in args.set for word in ("--set", change)]
    words += ["--networks", args.networks, "--planners", args.planners, "--batch", str(args.batch)]
    words += [word for change in args.transform for word in ("--transform", change)]
    words += [
        word
        for name in ("execution", "metrics", *MODEL_OPTIONS)
        if getattr(args, name) not in (None, "time")
        for word in (f"--{name.replace('_', '-')}", str(getattr(args, name)))
    ]
    words += ["--strict-memory"] if args.strict_memory else []
    words += ["--store", args.store] if args.store else []
    words += ["--timeline", args.timeline] if args.timeline else []
    words += ["--title", args.title] if args.title else []
    return shlex.join([*words, "--output", args.output])
