"""``accelarray validate``: beside measured machines, closed forms and another simulator."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from experiments.commands import validate_rows
from experiments.commands.arguments import add_output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table

    from experiments.validate.measured import Validation
    from experiments.validate.other_steps import Given
    from experiments.validate.section import Section
    from experiments.validate.table import Measured

NETWORK = "resnet50"
LEAST = ("of it all-reduce", "round", "peak only", "specs alone", "use", "by", "stack")
"""Columns of measured steps that a narrow terminal goes without, the first ones first."""


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "validate", help="beside measured machines, formulas, another simulator: errors as they are"
    )
    parser.add_argument(
        "--table",
        metavar="FILE",
        help="steps to predict, in the columns of the shipped table of measured ones (MLPerf) or "
        "of that of another simulator (ASTRA-sim)",
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
    validate_rows.configure(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fit, predict, compare, print."""
    from experiments.output import UsageError, progress_bar
    from experiments.results.result import Answer, check_outputs, show
    from experiments.validate import gpu_steps, measured_collectives
    from experiments.validate.closed import (
        closed_forms,
        exact_section,
        independent,
        independent_section,
    )
    from experiments.validate.measured import section
    from experiments.validate.other_steps import other_steps
    from experiments.validate.other_steps import section as other_section
    from experiments.validate.picture import check_drawable, plot_validation

    validate_rows.check(args)
    if args.rows is not None:
        return validate_rows.run(args)
    for change in args.set:
        if change.partition("=")[0].strip() == "roofline.memory_efficiency":
            raise UsageError(f"--set {change}: this is the constant that validate fits")
    check_outputs(args)
    measured, others = _tables(args.table)
    with progress_bar(None) as progress:
        result = _measured(measured, args.set, progress)
        sections = [
            section(result, NETWORK),
            exact_section(list(closed_forms(progress))),
            independent_section(list(independent())),
            other_section(list(other_steps(others, progress))),
            gpu_steps.section(list(gpu_steps.compared(gpu_steps.shipped(), progress))),
            measured_collectives.section(
                list(measured_collectives.compared(measured_collectives.shipped(), progress))
            ),
        ]
    if args.plot:
        check_drawable(len(result.rows))
    data = {key: value for part in sections for key, value in part.data.items()}
    parts = partial(_parts, sections, args.format)
    show(args, Answer(data, lambda: data["rows"], parts, picture=lambda: plot_validation(result)))
    return 0


def _tables(path: str | None) -> tuple[tuple[Measured, ...], tuple[Given, ...]]:
    """Measured steps and another simulator's, the shipped ones where ``path`` has none such."""
    from experiments.output import UsageError
    from experiments.validate import other_steps, table
    from hardware.reader import parse_csv, read_text

    measured, others = table.shipped(), other_steps.shipped()
    if path is None:
        return measured, others
    rows = parse_csv(read_text(path, UsageError, "such a table"), path, UsageError)
    if rows[0][1].keys() == other_steps.GivenCells.model_fields.keys():
        return measured, other_steps.parse(rows)
    return table.parse(rows), others


def _measured(
    rows: Sequence[Measured], changes: Sequence[str], progress: Callable[[str], None]
) -> Validation:
    from dataclasses import replace

    from experiments.validate.measured import validate
    from experiments.validate.steps import Pod
    from experiments.validate.table import SYSTEMS, shipped
    from hardware import load_device
    from workloads import load_network

    devices = {name: replace(load_device(name, changes)[0], name=name) for name in SYSTEMS}
    return validate(rows, shipped(), devices, Pod(load_network(NETWORK), progress))


def _parts(sections: Sequence[Section], form: str) -> list[Table | str]:
    """Every section's table and messages, an empty line between two."""
    from experiments.output import fitted

    parts: list[Table | str] = []
    for part in sections:
        parts += [*fitted(part.title, part.rows, LEAST, form), *part.messages, ""]
    return parts[:-1]
