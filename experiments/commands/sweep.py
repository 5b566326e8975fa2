"""``accelarray sweep``: vary anything, keep every result."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.commands.arguments import (
    add_metrics,
    add_networks,
    add_output,
    add_planners,
    add_runner,
    add_step,
)
from experiments.commands.resolve import study_of
from experiments.commands.study_file import add_study
from experiments.output import UsageError, deliver, text_of
from experiments.pictures.sweep_plots import check_drawable
from experiments.results.result import Answer, check_outputs, show
from experiments.results.sweeps import grid_of, records, swept

ENDINGS = (".csv", ".json", ".parquet")
KNOWN = (*ENDINGS, ".md", ".txt")


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("sweep", help="vary values of the array, the batch, …, in a grid")
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
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
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
