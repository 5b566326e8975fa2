"""``accelarray plan``: which type each layer gets at each level; or a profile's stages."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.commands.arguments import add_network, add_output, add_planner, add_step
from experiments.commands.plan_profile import add_profile, check_no_profile, run_profile
from experiments.commands.resolve import array_of, execution_of, network_of, planner_of
from experiments.output import UsageError
from experiments.results.planned import planned
from experiments.results.result import Answer, check_outputs, show
from experiments.studies.case import Case
from hardware import Array, load_array
from workloads import Network, read_layer_file

MOST_LEVELS = 16


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("plan", help="show how a planner splits a network")
    add_network(parser, optional=True)
    parser.add_argument(
        "--layers", nargs="+", metavar="FILE", help="layer files of the AccPar authors' program"
    )
    add_planner(parser)
    add_step(parser, array=None)
    parser.add_argument(
        "--levels", metavar="H", type=int, help="2^H alike accelerators instead of an array"
    )
    add_output(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw layers by levels (.png, .svg or .pdf)")
    add_profile(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plan every network asked for, or a profile, then deliver."""
    if args.profile is not None:
        return run_profile(args)
    check_no_profile(args)
    if args.plot and len(args.layers or []) > 1:
        raise UsageError("--plot draws one plan; give --layers one file")
    check_outputs(args)
    array = _array(args)
    execution, planner = execution_of(args, array), planner_of(args)
    step = (planner, array, args.batch, args.objective, args.communication, execution)
    plans = [planned(Case(network, *step)) for network in _networks(args)]
    if len(plans) == 1:
        show(args, plans[0])
        return 0
    many = Answer(
        [plan.to_dict() for plan in plans],
        lambda: [row for plan in plans for row in plan.rows()],
        lambda: [part for plan in plans for part in ["", *plan.tables()]][1:],
    )
    show(args, many)
    return 0


def _array(args: argparse.Namespace) -> Array:
    if args.levels is None:
        return array_of(args)
    if args.array or args.set:
        raise UsageError("--levels takes the place of --array and --set; give one or the other")
    if not 0 <= args.levels <= MOST_LEVELS:
        raise UsageError(f"--levels {args.levels}: must be within 0...{MOST_LEVELS}")
    return load_array("accpar-homogeneous", [f"devices.0.count={2**args.levels}"])


def _networks(args: argparse.Namespace) -> list[Network]:
    if (args.network is None) == (args.layers is None):
        raise UsageError("name a NETWORK or give --layers FILE, one of the two")
    if args.layers:
        return [read_layer_file(path) for path in args.layers]
    return [network_of(args, array_of(args))]
