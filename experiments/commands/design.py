"""``accelarray design``: which units a core should have for these networks, area and power."""

from __future__ import annotations

import argparse

from experiments.api.designing import design
from experiments.commands.arguments import MODEL, PIPELINE, Parser, changed
from experiments.commands.resolve import keywords_of
from experiments.options import OPTIONS
from experiments.output import UsageError
from experiments.results.result import check_outputs, show


def configure_design(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_argument("networks", metavar="NETWORK", nargs="+", help="one design for all of them")
    parser.add(changed("batch", value=64, default=""), *MODEL, "model.mode")
    parser.add(changed("array", value="wham-1", default="wham-1"), "set", "design.planner")
    parser.add(*(key for key in OPTIONS if key.startswith("design.")))
    parser.add("store", "max_memory", "plot")
    parser.add("recompute", "pipeline.schedule", *PIPELINE, hide=("recompute", *PIPELINE))
    parser.add_output()


def run_design(args: argparse.Namespace) -> None:
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
