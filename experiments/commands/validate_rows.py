"""``accelarray validate --rows``: predicted beside measured steps of large models."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from experiments.commands.arguments import add_runner

LEAST = ("share, recompute counted", "bias", "90 %")
"""Columns that a narrow terminal goes without, the first ones first."""


def configure(parser: Any) -> None:
    """Its options."""
    group = parser.add_argument_group("with measured steps of large models")
    group.add_argument(
        "--rows",
        metavar="FILE",
        help="steps of transformers to predict (.csv; columns: docs/large-models.md), in place of "
        "all else",
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
    add_runner(group)


def check(args: argparse.Namespace) -> None:
    """Raise UsageError for options that belong to rows where none are given."""
    from experiments.output import UsageError

    if args.rows is None:
        for name in ("calibration", "per_source", "store", "jobs", "cluster"):
            if getattr(args, name):
                flag = name.replace("_", "-")
                raise UsageError(f"--{flag} is for measured rows: say --rows FILE, too")
    elif args.table or args.set:
        flag = "--table" if args.table else "--set"
        raise UsageError(f"{flag} is not for measured rows; leave it out, or --rows")
    if args.per_source < 0:
        raise UsageError(f"--per-source {args.per_source}: must be 0 or more")


def run(args: argparse.Namespace) -> int:
    """Fit, predict, compare, print."""
    from experiments.commands.resolve import running
    from experiments.measured import picture
    from experiments.measured.rows import load, shipped
    from experiments.measured.section import sections
    from experiments.measured.study import predicted
    from experiments.output import fitted
    from experiments.results.result import Answer, check_outputs, show

    check_outputs(args)
    rows = load(args.rows)
    calibration = shipped() if args.calibration is None else load(args.calibration)
    with running(args, len(rows) + 2 * len(calibration)) as (runner, progress, _):
        study = predicted(rows, calibration, runner, args.per_source, progress)
    parts = sections(study)
    data = {key: value for part in parts for key, value in part.data.items()}

    def shown() -> list[Any]:
        found: list[Any] = []
        for part in parts:
            found += [*fitted(part.title, part.rows, LEAST, args.format), *part.messages, ""]
        return found[:-1]

    drawn = partial(picture.plot, study.outcomes)
    show(args, Answer(data, lambda: data["rows"], shown, picture=drawn))
    return 0
