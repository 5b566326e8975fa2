"""``accelarray train``: many workers, a method, slow ones among them, and what they learn."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from experiments.commands.arguments import add_array, add_execution, add_network, add_output
from experiments.commands.resolve import keywords_of
from experiments.face.training import train
from experiments.output import UsageError, whole_file
from experiments.results.result import check_outputs, show
from simulator.asynchronous.registry import ALGORITHMS

TYPED = (
    *("method", "compare", "array", "set", "workers", "iterations", "until", "batch", "seed"),
    *("slowdown", "graph", "learn", "loss", "rate", "execution", "report"),
)
"""Flags that the page's command has."""


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("train")
    add_network(parser)
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--method",
        default="all-reduce",
        metavar="M",
        help=f"{', '.join(ALGORITHMS)}; or module:class; pipeline; with options as "
        "prague:group=4 (all-reduce)",
    )
    either.add_argument("--compare", metavar="M1,M2", help="several methods on the same draws")
    add_array(parser)
    _add_run(parser)
    _add_learning(parser)
    parser.add_argument(
        "--vary",
        metavar="KEY=VALUES",
        action="append",
        help="a grid of runs: method=…, slowdown=…, workers=4,8,16, or a value of the array, as "
        "in sweep",
    )
    add_execution(parser)
    add_output(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw progress (and loss) against time")
    parser.add_argument("--report", metavar="FILE", help="one self-contained page (.html)")
    parser.add_argument("--trace", metavar="FILE", help="a trace for ui.perfetto.dev (.json[.gz])")
    parser.set_defaults(run=run)


def _add_run(parser: argparse.ArgumentParser) -> None:
    """Who does how much, how slowly, and who talks to whom."""
    parser.add_argument("--workers", metavar="N", type=int, required=True, help="how many")
    parser.add_argument(
        "--iterations", metavar="K", type=int, default=100, help="of each, on average (100)"
    )
    parser.add_argument(
        "--until",
        choices=("average", "everybody"),
        default="average",
        help="the run ends after N x K iterations together, or when everybody has done K",
    )
    parser.add_argument(
        "--batch", metavar="B", type=int, default=32, help="samples of one worker's iteration (32)"
    )
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="of all draws (0)")
    parser.add_argument(
        "--slowdown",
        metavar="WHAT",
        action="append",
        default=[],
        help="none, worker:0:5, random:0.1:6, lognormal:0.3, exponential:0.5, link:NAME:10, "
        "die:3:0.5, join:3:0.5, or a file of factors; several multiply",
    )
    parser.add_argument(
        "--graph",
        metavar="G",
        help="ring, ring-based, double-ring, torus, exponential, complete, or a file of edges",
    )


def _add_learning(parser: argparse.ArgumentParser) -> None:
    """Real models that are carried along."""
    parser.add_argument(
        "--learn", metavar="PROBLEM", help="carry real models along: logistic, two-layer, quadratic"
    )
    parser.add_argument(
        "--loss", metavar="L", type=float, help="with --learn: say when the loss was that low"
    )
    parser.add_argument(
        "--rate", metavar="R", type=float, help="with --learn: the step of SGD (the problem's own)"
    )


def run(args: argparse.Namespace) -> int:
    """Run every method, then deliver table, picture, trace and page."""
    _check(args)
    check_outputs(args, args.trace, args.report)
    found = train(**keywords_of(args, train))
    show(args, found)
    if args.trace:
        found.trace(args.trace)
    if args.report:
        page = found.page(_command(args))
        with whole_file(args.report) as path:
            path.write_bytes(page.encode("utf-8", "replace"))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for outputs that a run does not have."""
    for flag in ("plot", "report", "trace"):
        if getattr(args, flag) and args.vary:
            raise UsageError(f"--{flag}: not with --vary, which prints a row for each run")
        if getattr(args, flag) and args.method == "pipeline" and not args.compare:
            raise UsageError(f"--{flag}: not with --method pipeline (timeline draws its steps)")
    if args.compare and args.vary:
        raise UsageError("--compare: not with --vary, which prints a row for each run")
    if args.trace and args.compare and "," in args.compare:
        raise UsageError("--trace: of one method; use --method")
    if args.report and not args.report.endswith((".html", ".htm")):
        raise UsageError(f"--report {args.report!r}: the name must end in .html")
    if args.trace and not args.trace.lower().endswith((".json", ".json.gz")):
        raise UsageError(f"--trace {args.trace!r}: the name must end in .json or .json.gz")


def _command(args: argparse.Namespace) -> str:
    """The command as it could be typed again."""
    words = ["accelarray", "train", args.network]
    for flag in TYPED:
        value = getattr(args, flag)
        for one in value if isinstance(value, list) else [value]:
            words += [] if one is None else [f"--{flag}", str(one)]
    return shlex.join(words)
