"""``accelarray papers reproduce``: a paper's evaluation, figure by figure, ours beside theirs."""

from __future__ import annotations

import argparse

from experiments.api.papers import TITLES, reproduce
from experiments.commands.arguments import Parser, changed
from experiments.commands.resolve import keywords_of
from experiments.output import check_writable, deliver
from experiments.papers.pictures import check_folder
from experiments.results.result import written


def configure_reproduce(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_argument("paper", metavar="PAPER", choices=tuple(TITLES), help=", ".join(TITLES))
    plot = changed("plot", values="FOLDER", about="draw each figure in FOLDER")
    parser.add("reproduce.figures", "reproduce.plot_format", plot, "store")
    parser.add_output()


def run_reproduce(args: argparse.Namespace) -> None:
    """Make every figure, then deliver."""
    if args.plot:
        check_folder(args.plot)
    check_writable(args.output)
    found = reproduce(**keywords_of(args, reproduce))
    deliver(written(found, args.format), args.output)
    if args.plot:
        found.save(args.plot, f".{args.plot_format}")
