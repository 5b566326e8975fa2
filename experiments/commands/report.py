"""``accelarray report``: one page with everything, to keep or to send."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import (
    add_array,
    add_batch,
    add_execution,
    add_metrics,
    add_networks,
    add_planners,
    add_runner,
)
from experiments.commands.resolve import (
    array_of,
    check_runner,
    execution_of,
    network_of,
    networks_of,
    planners_of,
    runner_of,
)
from experiments.commands.study_file import add_study

if TYPE_CHECKING:
    from experiments.report.study import Study
    from hardware import Array
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
    from experiments.output import UsageError, check_writable, progress_bar, whole_file
    from experiments.report.study import report, steps

    if not args.output.endswith((".html", ".htm")):
        raise UsageError(f"--output {args.output!r}: the name must end in .html")
    study = _study(args)
    check_writable(args.output)
    check_runner(args)
    with runner_of(args) as runner, progress_bar(steps(study)) as progress:
        page = report(study, progress, runner)
    with whole_file(args.output) as path:
        path.write_bytes(page.encode("utf-8", "replace"))
    return 0


def _study(args: argparse.Namespace) -> Study:
    from experiments.report.study import Study
    from experiments.studies.step_numbers import check_metrics, parse_metrics

    networks, planners = networks_of(args), planners_of(args)
    arrays, metrics = tuple(_arrays(args)), parse_metrics(args.metrics)
    for array in arrays:
        check_metrics(metrics, array)
    wanted = network_of(args.timeline, args.transform) if args.timeline else None
    return Study(
        arrays=arrays,
        networks=tuple(networks),
        planners=tuple(planners),
        mapped=wanted or _among(networks, MAPPED),
        drawn=wanted or _among(networks, DRAWN),
        drawn_planner=PLANNER if PLANNER in planners else planners[-1],
        batch=args.batch,
        execution=execution_of(args, arrays[0]),
        metrics=metrics,
        command=_command(args),
        title=args.title or "",
    )


def _arrays(args: argparse.Namespace) -> list[Array]:
    """The paper's two arrays, or the one that was asked for."""
    from hardware import load_array

    if args.array or args.set:
        return [array_of(args)]
    return [load_array(name) for name in ARRAYS]


def _among(networks: list[Network], name: str) -> Network:
    """The network of that name, or the first."""
    return next((network for network in networks if network.name == name), networks[0])


def _command(args: argparse.Namespace) -> str:
    """The command as it could be typed again."""
    import shlex

    from experiments.studies.options import MODEL_OPTIONS

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
