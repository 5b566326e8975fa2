"""``accelarray results``: what a store holds."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import add_metrics, add_output
from experiments.commands.sweep import ENDINGS
from experiments.output import UsageError, deliver, fitted
from experiments.report.page.results import varied_keys
from experiments.results.formats import rows_of
from experiments.results.result import Answer, check_outputs, show
from experiments.results.sweeps import records
from experiments.studies.metrics import parse_metrics
from experiments.studies.store import Store

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("network", "planner", "array", "batch", "objective", "execution")
LEAST = ("finished", "objective", "execution", "batch")
"""Columns that a narrow terminal goes without, the first ones first, those with one value before.

What was varied stays; export has all.
"""
MEASURES = {"time": "iteration_s", "energy": "energy_j", "traffic": "traffic_bytes"}


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("results", help="list, export or prune the results of a store")
    parser.add_argument("action", choices=("list", "export", "prune"))
    parser.add_argument("--store", metavar="FILE", required=True)
    parser.add_argument(
        "--where",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="prune: delete results whose inputs are all these, as network=lenet",
    )
    add_metrics(parser)
    add_output(parser, "parquet")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what was asked for with an existing store."""
    with Store(args.store, create=False) as store:
        if args.action == "prune":
            deliver(f"{store.prune(**_conditions(args.where))} results deleted\n", None)
            return 0
        rows = store.rows()
    if args.action == "list":
        measures = [MEASURES[metric] for metric in parse_metrics(args.metrics)]
        columns = [*COLUMNS, *varied_keys(rows), *measures, "finished"]
        if args.format == "parquet":
            raise UsageError("list has no parquet; results export --output FILE.parquet has")
        listed = [{column: row.get(column) for column in columns} for row in rows]
        show(args, Answer(listed, lambda: listed, lambda: _parts(args, columns, rows)))
        return 0
    if not (args.output and args.output.lower().endswith(ENDINGS)):
        raise UsageError(f"export needs --output FILE ending in {', '.join(ENDINGS)}")
    check_outputs(args)
    import pandas

    flat = [{key: value for key, value in row.items() if key != "memory"} for row in rows]
    table = pandas.DataFrame(flat)
    show(args, Answer(records(table), lambda: rows_of(table), list, table))
    return 0


def _parts(
    args: argparse.Namespace, columns: list[str], rows: list[dict[str, Any]]
) -> list[Table | str]:

    title = f"{args.store}: {len(rows)} results"
    shown = [{column: str(row.get(column, "")) for column in columns} for row in rows]
    alike = [key for key in (*LEAST, *COLUMNS) if len({row[key] for row in shown}) == 1]
    least = list(dict.fromkeys([LEAST[0], *alike, *LEAST]))
    return fitted(title, shown, least, args.format) if rows else [title]


def _conditions(where: list[str]) -> dict[str, str]:

    conditions: dict[str, str] = {}
    for text in where:
        key, equals, value = text.partition("=")
        if not equals or not key or '"' in key:
            raise UsageError(f"--where {text!r}: expected KEY=VALUE, as network=lenet")
        conditions[key] = value
    return conditions
