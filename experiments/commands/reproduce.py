"""``accelarray reproduce``: a paper's evaluation, figure by figure, ours beside theirs."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.commands.arguments import add_output
from experiments.face.papers import TITLES
from experiments.output import deliver


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("reproduce")
    parser.add_argument("paper", choices=tuple(TITLES))
    parser.add_argument("--figures", metavar="F1,F2|all", default="all", help="default: all")
    add_output(parser)
    parser.add_argument("--plot", metavar="FOLDER", help="draw each figure there")
    parser.add_argument(
        "--plot-format", choices=("png", "svg", "pdf"), default="png", help="default: png"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make every figure, then deliver."""
    from experiments.commands.resolve import keywords_of
    from experiments.face.papers import reproduce
    from experiments.output import check_writable
    from experiments.papers.pictures import check_folder
    from experiments.results.result import written

    if args.plot:
        check_folder(args.plot)
    check_writable(args.output)
    found = reproduce(**keywords_of(args, reproduce))
    deliver(written(found, args.format), args.output)
    if args.plot:
        found.save(args.plot, f".{args.plot_format}")
    return 0
