"""``accelarray validate``: beside measured machines, closed forms and another simulator."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import add_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.validate.measured import Validation
    from experiments.validate.section import Section

NETWORK = "resnet50"
LEAST = ("of it all-reduce", "round", "peak only", "specs alone", "use")
"""Columns of measured steps that a narrow terminal goes without, the first ones first."""


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "validate", help="beside measured machines, formulas, another simulator: errors as they are"
    )
    parser.add_argument(
        "--table",
        metavar="FILE",
        help="measured steps to predict, in the columns of the shipped MLPerf table",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change a value of every device, as roofline.pad_matrix_unit=128",
    )
    add_output(parser, "table", "json")
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fit, predict, compare, print."""
    from experiments.output import UsageError, check_writable, deliver, progress_bar, to_json
    from experiments.pictures.figures import check_plot, save
    from experiments.validate.closed import (
        closed_forms,
        exact_section,
        independent,
        independent_section,
    )
    from experiments.validate.measured import section
    from experiments.validate.picture import check_drawable, plot_validation

    if args.plot:
        check_plot(args.plot)
    for change in args.set:
        if change.partition("=")[0].strip() == "roofline.memory_efficiency":
            raise UsageError(f"--set {change}: this is the constant that validate fits")
    check_writable(args.output, args.plot)
    with progress_bar(None) as progress:
        result = _measured(args, progress)
        sections = [
            section(result, NETWORK),
            exact_section(list(closed_forms(progress))),
            independent_section(list(independent())),
        ]
    if args.plot:
        check_drawable(len(result.rows))
        save(plot_validation(result), args.plot)
    if args.format == "json":
        text = to_json({key: value for part in sections for key, value in part.data.items()})
    else:
        text = "\n".join(map(_text, sections))
    deliver(text, args.output)
    return 0


def _measured(args: argparse.Namespace, progress: Callable[[str], None]) -> Validation:
    from dataclasses import replace

    from experiments.validate.measured import validate
    from experiments.validate.steps import Pod
    from experiments.validate.table import SYSTEMS, read, shipped
    from hardware import load_device
    from workloads import load_network

    rows = shipped() if args.table is None else read(args.table)
    devices = {name: replace(load_device(name, args.set)[0], name=name) for name in SYSTEMS}
    return validate(rows, shipped(), devices, Pod(load_network(NETWORK), progress))


def _text(part: Section) -> str:
    from experiments.output import table_of

    return table_of(part.title, part.rows, LEAST) + "".join(f"{line}\n" for line in part.messages)
