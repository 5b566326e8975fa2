"""``accelarray calibrate``: a software stack's constants from measured steps of one's own."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.commands.arguments import add_runner


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "calibrate", help="a software stack's constants from measured steps of one's own"
    )
    parser.add_argument(
        "measured",
        metavar="MEASURED.csv",
        help="measured steps, a few of one stack (columns: docs/large-models.md)",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write the stack there (.toml), for --stack FILE"
    )
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.set_defaults(run=run)
    add_runner(parser)


def run(args: argparse.Namespace) -> int:
    """Fit, print, write."""
    import json

    from experiments.commands.resolve import running
    from experiments.measured.calibrated import COLUMNS, calibrated, said, toml_of
    from experiments.measured.rows import load
    from experiments.measured.section import lines
    from experiments.output import (
        UsageError,
        check_writable,
        deliver,
        fitted,
        text_of,
    )

    if args.output and not args.output.endswith(".toml"):
        raise UsageError(f"--output {args.output}: a stack's file ends in .toml")
    check_writable(args.output, None)
    rows = load(args.measured)
    with running(args, 2 * len(rows)) as (runner, progress, _):
        found = calibrated(rows, runner, progress)
    if args.output:
        deliver(toml_of(found, args.measured), args.output)
    data = found.to_json()
    if args.format == "json":
        deliver(json.dumps(data, indent=2) + "\n", None)
        return 0
    shares = ", ".join(f"{name} {share:.3f}" for name, share in data["constants"].items())
    remarks = [f"Shares of peak that products reach: {shares}.", *said(found)]
    if not args.output:
        remarks.append("--output my-stack.toml writes it for --stack.")
    title = f"Stack {found.extends}, calibrated"
    table = fitted(title, lines(found.rows, COLUMNS), ("held out",))
    deliver(text_of(*table, *remarks), None)
    return 0
