"""``accelarray results``: what a store holds."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.commands.arguments import add_metrics

COLUMNS = ("network", "planner", "array", "batch", "objective", "execution")
LEAST = ("finished", "objective", "execution", "batch")
"""Columns that a narrow terminal goes without, the first ones first; export has all."""
MEASURES = {"time": "iteration_s", "energy": "energy_j", "traffic": "traffic_bytes"}


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("results", help="list, export or prune the results of a store")
    parser.add_argument("action", choices=("list", "export", "prune"))
    parser.add_argument("--store", metavar="FILE", required=True)
    parser.add_argument("--output", metavar="FILE", help="export: .csv, .json or .parquet")
    parser.add_argument(
        "--where",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="prune: delete results whose inputs are all these, as network=lenet",
    )
    add_metrics(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what was asked for with an existing store."""
    from experiments.commands.sweep import ENDINGS, write_table
    from experiments.output import UsageError, check_writable, deliver, table_of
    from experiments.report.page.results import varied_keys
    from experiments.studies.metrics import parse_metrics
    from experiments.studies.store import Store

    with Store(args.store, create=False) as store:
        if args.action == "prune":
            deliver(f"{store.prune(**_conditions(args.where))} results deleted\n", None)
            return 0
        rows = store.rows()
    if args.action == "list":
        measures = [MEASURES[metric] for metric in parse_metrics(args.metrics)]
        columns = [*COLUMNS, *varied_keys(rows), *measures, "finished"]
        shown = [{column: str(row.get(column, "")) for column in columns} for row in rows]
        title = f"{args.store}: {len(rows)} results"
        deliver(table_of(title, shown, LEAST) if rows else f"{title}\n", None)
        return 0
    if not (args.output and args.output.endswith(ENDINGS)):
        raise UsageError(f"export needs --output FILE ending in {', '.join(ENDINGS)}")
    check_writable(args.output)
    import pandas

    flat = [{key: value for key, value in row.items() if key != "memory"} for row in rows]
    write_table(pandas.DataFrame(flat), args.output)
    return 0


def _conditions(where: list[str]) -> dict[str, str]:
    from experiments.output import UsageError

    conditions: dict[str, str] = {}
    for text in where:
        key, equals, value = text.partition("=")
        if not equals or not key or '"' in key:
            raise UsageError(f"--where {text!r}: expected KEY=VALUE, as network=lenet")
        conditions[key] = value
    return conditions
