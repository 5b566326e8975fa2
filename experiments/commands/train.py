"""``accelarray train``: many workers, a method, slow ones among them, and what they learn."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from typing import Any

from experiments.commands.arguments import add_array, add_execution, add_network, add_output
from experiments.commands.resolve import array_of, execution_of
from experiments.face.inputs import names, network_of
from experiments.notices import tell
from experiments.output import UsageError, progress_bar, whole_file
from experiments.pictures.lanes import sites
from experiments.pictures.plots import plot_training
from experiments.pictures.trace import trace_events, write_trace
from experiments.report.training import training_page
from experiments.results.formats import flat
from experiments.results.result import Answer, check_outputs, show
from experiments.studies.options import parse_axes
from experiments.studies.training.pipeline import piped, piped_tables
from experiments.studies.training.run import Trained, Training, compared, unread_changes
from experiments.studies.training.sweep import points, swept
from experiments.studies.training.tables import grid, tables
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
    if args.vary:
        return _sweep(args)
    if args.method == "pipeline" and not args.compare:
        return _pipeline(args)

    methods = names(args.compare, list(ALGORITHMS), "compare") if args.compare else [args.method]
    asked = training_of(args, methods[0])
    _check(args, methods)
    check_outputs(args, args.trace, args.report)
    with progress_bar(100 * len(methods)) as progress:
        found = compared(asked, methods, progress)
    told = dict.fromkeys(said for one in found for said in _said(one))
    for said in (*unread_changes(found[0].asked), *told):
        tell(said)
    data = comparison(found) if args.compare else found[0].to_dict()
    rows = [flat(one.to_dict()) for one in found]
    picture = partial(plot_training, found)
    show(args, Answer(data, lambda: rows, lambda: list(tables(found)), picture=picture))
    if args.trace:
        _write_trace(found[0], args.trace)
    if args.report:
        _write_report(found, args)
    return 0


def _pipeline(args: argparse.Namespace) -> int:
    """Stages as workers, which learn with the versions of the weights that they have."""
    for flag in ("plot", "report", "trace"):
        if getattr(args, flag):
            raise UsageError(f"--{flag}: not with --method pipeline (timeline draws its steps)")
    _check(args, [args.method])
    check_outputs(args)
    found = piped(training_of(args, args.method))
    data = found.to_dict()
    show(args, Answer(data, lambda: [flat(data)], lambda: piped_tables(found)))
    return 0


def _sweep(args: argparse.Namespace) -> int:
    """A run for every point of a grid, as one table."""
    for flag in ("compare", "plot", "report", "trace"):
        if getattr(args, flag):
            raise UsageError(f"--{flag}: not with --vary, which prints a row for each run")
    axes = parse_axes(args.vary)
    asked = training_of(args, args.method)
    check_outputs(args)
    with progress_bar(len(points(axes))) as progress:
        rows = list(swept(asked, axes, args.array, args.set, progress))
    show(args, Answer(rows, lambda: rows, lambda: grid(asked, axes, rows)))
    return 0


def training_of(args: argparse.Namespace, method: str) -> Training:
    """What the arguments ask for."""
    array = array_of(args)
    return Training(
        network_of(args.network, args.transform, array),
        method,
        array,
        args.workers,
        args.iterations,
        execution_of(args, array),
        args.batch,
        args.seed,
        tuple(text for text in args.slowdown if text != "none"),
        args.graph,
        args.learn,
        args.until == "everybody",
        args.loss,
        args.rate,
    )


def _check(args: argparse.Namespace, methods: list[str]) -> None:
    """Raise UsageError for what says nothing together."""
    for name in ("loss", "rate"):
        if getattr(args, name) is not None and not args.learn:
            raise UsageError(f"--{name}: only models that learn have one; add --learn logistic")
    if args.trace and len(methods) > 1:
        raise UsageError("--trace: of one method; use --method")
    if args.report and not args.report.endswith((".html", ".htm")):
        raise UsageError(f"--report {args.report!r}: the name must end in .html")
    if args.trace and not args.trace.lower().endswith((".json", ".json.gz")):
        raise UsageError(f"--trace {args.trace!r}: the name must end in .json or .json.gz")


def _said(trained: Trained) -> list[str]:
    """What a reader has to know besides the numbers."""
    hang = [f"{trained.asked.method}: {trained.hang}"] if trained.hang else []
    return [*trained.notes, *hang]


def comparison(found: list[Trained]) -> dict[str, Any]:
    """What ``--compare`` prints as JSON: each method's result, in order."""
    return {"methods": [one.to_dict() for one in found]}


def _parts(found: list[Trained]) -> list[Any]:
    return list(tables(found))


def _write_trace(trained: Trained, path: str) -> None:
    about = {
        "network": trained.asked.network.name,
        "method": trained.asked.method,
        "array": trained.asked.array.name,
        "workers": trained.asked.workers,
        "time_s": trained.time_s,
    }
    timeline = trained.timeline
    write_trace(trace_events(timeline, sites(timeline), folded=False), about, path)


def _write_report(found: list[Trained], args: argparse.Namespace) -> None:
    with whole_file(args.report) as path:
        page = training_page(found, _command(args))
        path.write_bytes(page.encode("utf-8", "replace"))


def _command(args: argparse.Namespace) -> str:
    """The command as it could be typed again."""
    words = ["accelarray", "train", args.network]
    for flag in TYPED:
        value = getattr(args, flag)
        for one in value if isinstance(value, list) else [value]:
            words += [] if one is None else [f"--{flag}", str(one)]
    return shlex.join(words)
