"""``accelarray design``: which units a core should have for these networks, area and power."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.commands.arguments import add_output, add_stages, add_transform
from experiments.commands.resolve import keywords_of
from experiments.design.study import SEARCHES
from experiments.face.designing import AIMS, design
from experiments.output import UsageError
from experiments.results.result import check_outputs, show


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("design")
    parser.add_argument("networks", metavar="NETWORK", nargs="+", help="one design for all of them")
    parser.add_argument(
        "--array", metavar="A", default="wham-1", help="whose cores are designed (wham-1)"
    )
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[])
    parser.add_argument("--batch", metavar="N", type=int, default=64, help="samples a step (64)")
    parser.add_argument("--planner", metavar="P", default="data_parallel", help="on several cores")
    parser.add_argument("--mode", choices=("training", "inference"), help="(training)")
    add_transform(parser)
    parser.add_argument("--area", metavar="MM2", help="of a chip at most (as the base design)")
    parser.add_argument("--power", metavar="W", help="of a chip at most (as the base design)")
    parser.add_argument("--objective", choices=AIMS, default="throughput")
    parser.add_argument("--space", metavar="FILE", default="wham", help="or wham, small (wham)")
    parser.add_argument("--top", metavar="K", default="3", help="kept of each search (3)")
    parser.add_argument("--each", action="store_true", help="a design for each network by itself")
    parser.add_argument("--search", choices=SEARCHES, default="wham")
    parser.add_argument("--budget", metavar="N", help="designs evaluated at most by each search")
    parser.add_argument("--seed", metavar="N", default="0", help="of the random search (0)")
    parser.add_argument(
        "--baselines", action="store_true", help="random and exhaustive search, same budget"
    )
    parser.add_argument("--store", metavar="FILE", help="keep evaluations, make only missing ones")
    parser.add_argument("--plot", metavar="FILE", help="throughput against area (png, svg, pdf)")
    parser.add_argument("--device", metavar="FILE", help="write the winner's spec (.toml)")
    add_stages(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Search, run the best on the engine, deliver."""
    if args.device and not args.device.endswith(".toml"):
        raise UsageError(f"--device {args.device!r}: the name must end in .toml")
    if args.each and (args.plot or args.device) and len(args.networks) > 1:
        raise UsageError("--each makes several designs; --plot and --device are for one")
    check_outputs(args, args.device)
    networks = list(dict.fromkeys(args.networks))
    found = design(networks, **keywords_of(args, design, "networks"))
    show(args, found)
    if args.device:
        found.save(args.device)
    return 0
