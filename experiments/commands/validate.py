"""``accelarray papers validate`` and ``calibrate``: measured steps, and a stack of one's own."""

from __future__ import annotations

import argparse
from dataclasses import replace

from experiments.api.measured import CalibrationResult, calibrate, tables_of, validate
from experiments.commands.arguments import RUNNER, Parser, changed
from experiments.commands.resolve import keywords_of
from experiments.measured.pods import check_drawable
from experiments.options import OPTIONS
from experiments.output import UsageError, check_writable, deliver
from experiments.results.result import check_outputs, show, written


def configure_validate(parser: Parser) -> None:
    """Add its arguments."""
    about = "change a value of every device, as roofline.pad_matrix_unit=128"
    parser.add(changed("set", about=about), "plot", *RUNNER)
    parser.add(*(key for key in OPTIONS if key.startswith("validate.")))
    parser.add_output()


def run_validate(args: argparse.Namespace) -> None:
    """Fit, predict, compare, print."""
    check_outputs(args)
    if args.plot and args.rows is None:  # before the work, not after it
        check_drawable(len(tables_of(args.table)[0]))
    found = validate(**keywords_of(args, validate))
    show(args, found if args.format == "table" else replace(found, least=()))


def configure_calibrate(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_argument(
        "measured",
        metavar="MEASURED",
        help="measured steps of one software stack (.csv), or what nccl-tests printed (.txt, .log)",
    )
    parser.add(changed("array", default="by the device", about="of collectives: the array"))
    about = "write the stack (.toml) for --stack FILE, or the array for --array FILE"
    parser.add(changed("output", about=about, default=""), *RUNNER, "config")
    parser.add(changed("format", values="table|json", value="table", default=""))


def run_calibrate(args: argparse.Namespace) -> None:
    """Fit, print, write."""
    if args.output and not args.output.endswith(".toml"):
        raise UsageError(f"--output {args.output}: a stack's or an array's file ends in .toml")
    check_writable(args.output, None)
    found = calibrate(**keywords_of(args, calibrate))
    if args.output:
        found.save(args.output)
    deliver(written(found, args.format), None)
    if not args.output and args.format == "table":
        what = "stack" if isinstance(found, CalibrationResult) else "array"
        deliver(f"--output my-{what}.toml writes it for --{what}.\n", None)
