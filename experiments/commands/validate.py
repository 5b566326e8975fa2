"""``accelarray validate``: predictions beside measurements; ``calibrate``: a stack of one's own."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from experiments.commands.arguments import add_output, add_runner


def configure_validate(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("validate")
    parser.add_argument(
        "--table",
        metavar="FILE",
        help="steps to predict, in the columns of the shipped table of measured ones (MLPerf) or "
        "of that of another simulator (ASTRA-sim); or latencies of collectives (docs/results.md)",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change a value of every device, as roofline.pad_matrix_unit=128",
    )
    add_output(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    group = parser.add_argument_group("with measured steps of large models")
    group.add_argument(
        "--rows",
        metavar="FILE",
        help="steps of transformers to predict (.csv; columns: docs/reference/specs.md), in "
        "place of all else",
    )
    group.add_argument(
        "--calibration",
        metavar="FILE",
        help="rows that constants are fitted on (default: those that come with accelarray)",
    )
    group.add_argument(
        "--per-source",
        metavar="N",
        type=int,
        default=0,
        help="N rows of each source, from its first to its last, set a factor for it, and are left "
        "out of the errors",
    )
    group.add_argument(
        "--rank",
        action="store_true",
        help="how well plans for one job are ordered: rows that share a group",
    )
    add_runner(group)
    parser.set_defaults(run=run_validate)


def run_validate(args: argparse.Namespace) -> int:
    """Fit, predict, compare, print."""
    from experiments.commands.resolve import keywords_of
    from experiments.face.measured import tables_of, validate
    from experiments.measured.pods import check_drawable
    from experiments.results.result import check_outputs, show

    check_outputs(args)
    if args.plot and args.rows is None:  # before the work, not after it
        check_drawable(len(tables_of(args.table)[0]))
    found = validate(**keywords_of(args, validate))
    show(args, replace(found, form=args.format))
    return 0


def configure_calibrate(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("calibrate")
    parser.add_argument(
        "measured",
        metavar="MEASURED.csv",
        help="measured steps, a few of one stack (columns: docs/reference/specs.md)",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write the stack there (.toml), for --stack FILE"
    )
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.set_defaults(run=run_calibrate)
    add_runner(parser)


def run_calibrate(args: argparse.Namespace) -> int:
    """Fit, print, write."""
    from experiments.commands.resolve import keywords_of
    from experiments.face.measured import calibrate
    from experiments.output import UsageError, check_writable, deliver
    from experiments.results.result import written

    if args.output and not args.output.endswith(".toml"):
        raise UsageError(f"--output {args.output}: a stack's file ends in .toml")
    check_writable(args.output, None)
    found = calibrate(**keywords_of(args, calibrate))
    if args.output:
        found.save(args.output)
    deliver(written(found, args.format), None)
    if not args.output and args.format == "table":
        deliver("--output my-stack.toml writes it for --stack.\n", None)
    return 0
