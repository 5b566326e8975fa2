"""``accelarray validate``: predictions beside measurements; ``calibrate``: a stack of one's own."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import add_output, add_runner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from experiments.measured.collectives import LatencyRow
    from experiments.measured.pods import PodRow
    from experiments.measured.section import Section
    from experiments.measured.steps import RingRow


NETWORK = "resnet50"
MOST_ROWS = 4000
"""That a table of one's own may have."""
LEAST = ("of it all-reduce", "round", "peak only", "specs alone", "use", "by", "stack")
"""Columns of measured steps that a narrow terminal goes without, the first ones first."""
LEAST_OF_ROWS = ("share, recompute counted", "bias", "90 %")
"""The same of steps of large models."""


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
    from experiments.measured.section import answer
    from experiments.results.result import check_outputs, show

    check(args)
    check_outputs(args)
    sections, draw = _everything(args) if args.rows is None else _large_models(args)
    least = LEAST if args.rows is None else LEAST_OF_ROWS
    show(args, answer(sections, draw, least, args.format))
    return 0


def check(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together."""
    from experiments.output import UsageError

    if args.rows is None:
        for name in ("calibration", "per_source", "rank", "store", "jobs", "cluster"):
            if getattr(args, name):
                flag = name.replace("_", "-")
                raise UsageError(f"--{flag} is for measured rows: say --rows FILE, too")
    elif args.table or args.set:
        flag = "--table" if args.table else "--set"
        raise UsageError(f"{flag} is not for measured rows; leave it out, or --rows")
    for change in args.set:
        if change.partition("=")[0].strip() == "roofline.memory_efficiency":
            raise UsageError(f"--set {change}: this is the constant that validate fits")
    if args.per_source < 0:
        raise UsageError(f"--per-source {args.per_source}: must be 0 or more")


def _large_models(args: argparse.Namespace) -> tuple[list[Section], Callable[[], Figure]]:
    """Steps of large models beside measured ones, and how they are drawn."""
    from experiments.commands.resolve import running
    from experiments.measured.large_models import plot, ranking, sections
    from experiments.measured.rows import load, shipped
    from experiments.measured.study import predicted

    rows = load(args.rows)
    calibration = shipped() if args.calibration is None else load(args.calibration)
    with running(args, len(rows) + 2 * len(calibration)) as (runner, progress, _):
        study = predicted(rows, calibration, runner, args.per_source, progress)
    ranked = ranking(study.outcomes) if args.rank else []
    return [*sections(study), *ranked], lambda: plot(study.outcomes)


def _everything(args: argparse.Namespace) -> tuple[list[Section], Callable[[], Figure]]:
    """All other comparisons, and how measured steps on pods are drawn."""
    from experiments.measured import collectives, pods, steps
    from experiments.output import progress_bar
    from hardware import load_device
    from workloads import load_network

    measured, rings, latencies = _tables(args.table)
    if args.plot:
        pods.check_drawable(len(measured))
    devices = {name: replace(load_device(name, args.set)[0], name=name) for name in pods.SYSTEMS}
    with progress_bar(None) as progress:
        model = pods.Model(load_network(NETWORK), devices, progress)
        found = pods.validate(measured, pods.shipped(), model)
        nccl = collectives.measured(collectives.shipped(), progress)
        sections = [
            pods.section(found, NETWORK),
            collectives.exact_section(list(collectives.closed_forms(progress))),
            collectives.independent_section(list(collectives.independent())),
            steps.ring_section(list(steps.ring_steps(rings, progress))),
            steps.gpu_section(list(steps.gpu_steps(steps.shipped_gpus(), progress))),
            collectives.measured_section(list(nccl)),
        ]
        if latencies:
            found_too = collectives.measured(collectives.latencies(latencies), progress)
            sections.append(collectives.latencies_section(list(found_too)))
    return sections, lambda: pods.plot(found)


def _tables(
    path: str | None,
) -> tuple[Sequence[PodRow], Sequence[RingRow], Sequence[LatencyRow]]:
    """Measured steps and another simulator's, the shipped ones where ``path`` has none such.

    Latencies of collectives are those of ``path`` alone.
    """
    from experiments.measured import collectives, pods, steps
    from experiments.output import UsageError
    from hardware.reader import checked_rows, parse_csv, read_text

    if path is None:
        return pods.shipped(), steps.shipped_rings(), ()
    rows = parse_csv(read_text(path, UsageError, "such a table"), path, UsageError, MOST_ROWS)
    if rows[0][1].keys() == steps.RingRow.model_fields.keys():
        return pods.shipped(), checked_rows(steps.RingRow, rows, UsageError), ()
    if rows[0][1].keys() == collectives.LatencyRow.model_fields.keys():
        found = checked_rows(collectives.LatencyRow, rows, UsageError)
        return pods.shipped(), steps.shipped_rings(), found
    return pods.parse(rows), steps.shipped_rings(), ()


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
