"""``accelarray report``: one page with everything, to keep or to send."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from experiments.commands.arguments import (
    add_array,
    add_batch,
    add_execution,
    add_metrics,
    add_networks,
    add_planners,
    add_runner,
)
from experiments.commands.resolve import array_of, planners_of, running, study_of
from experiments.commands.study_file import add_study
from experiments.face.inputs import network_of
from experiments.output import UsageError, check_writable, whole_file
from experiments.report.study import Study, report, steps
from experiments.studies.metrics import check_metrics
from experiments.studies.model_options import MODEL_OPTIONS
from hardware import Array, load_array
from workloads import Network

ARRAYS = ("accpar-mixed", "accpar-homogeneous")
MAPPED, DRAWN, PLANNER = "resnet18", "vgg11", "accpar"


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "report", help="one self-contained HTML page: speedups, plans, a timeline, sources"
    )
    add_array(parser, default=None)
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
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Collect what the page is about, then make and write it whole."""
    if not args.output.endswith((".html", ".htm")):
        raise UsageError(f"--output {args.output!r}: the name must end in .html")
    study = _study(args)
    check_writable(args.output)
    with running(args, steps(study)) as (runner, progress, _):
        page = report(study, progress, runner)
    with whole_file(args.output) as path:
        path.write_bytes(page.encode("utf-8", "replace"))
    return 0


def _study(args: argparse.Namespace) -> Study:
    asked, arrays = study_of(args), tuple(_arrays(args))
    networks, planners = list(asked.networks), planners_of(args)
    for array in arrays:
        check_metrics(asked.metrics, array)
    wanted = network_of(args.timeline, args.transform) if args.timeline else None
    return Study(
        arrays=arrays,
        networks=asked.networks,
        planners=tuple(planners),
        mapped=wanted or _among(networks, MAPPED),
        drawn=wanted or _among(networks, DRAWN),
        drawn_planner=PLANNER if PLANNER in planners else planners[-1],
        batch=args.batch,
        execution=asked.conditions.execution,
        metrics=asked.metrics,
        command=_command(args),
        title=args.title or "",
    )


def _arrays(args: argparse.Namespace) -> list[Array]:
    """The paper's two arrays, or the one that was asked for."""
    if args.array or args.set:
        return [array_of(args)]
    return [load_array(name) for name in ARRAYS]


def _among(networks: list[Network], name: str) -> Network:
    """The network of that name, or the first."""
    return next((network for network in networks if network.name == name), networks[0])


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
