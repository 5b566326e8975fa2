"""``accelarray list`` and ``show``: what there is; ``results``: what a store holds."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table

from experiments.api import inputs
from experiments.api.requests import SHORT
from experiments.commands.arguments import Parser, changed
from experiments.commands.studies import ENDINGS
from experiments.options import options_text
from experiments.output import UsageError, deliver, fitted, frame_of, whole_file
from experiments.report.comparison import WHEN, varied_keys
from experiments.results import formats
from experiments.results.catalog import KINDS, LISTED, all_planners, rows_of
from experiments.results.result import Answer, check_outputs, show
from experiments.results.sweeps import records
from experiments.studies.running.store import Store
from experiments.studies.step_numbers import MEASURES, parse_metrics
from experiments.studies.sweep import UNTOLD
from hardware import (
    Array,
    Device,
    Setting,
    Stack,
    catalog_names,
    load_array,
    load_device,
    load_stack,
    spec_kind,
)
from hardware.reader import hint
from hardware.spec import beside
from planners import load_planner
from workloads import LARGE, NETWORKS, Network, Sides, is_network


def configure_list(parser: Parser) -> None:
    """The kind of what is listed."""
    parser.add_argument("kind", metavar="KIND", choices=KINDS, help=", ".join(KINDS))
    parser.add_output(hide=("config",))


def run_list(args: argparse.Namespace) -> None:
    """Names with one line about each."""
    rows = rows_of(args.kind)
    if args.kind == "options" and args.format == "table":
        deliver(options_text(), args.output)
    else:
        _deliver(args, args.kind, rows, rows, LISTED)


def configure_show(parser: Parser) -> None:
    """The name of what is shown."""
    parser.add_argument("name", metavar="NAME", help="a name of any list, or the path of a spec")
    parser.add(changed("set", about="change a value of the spec"))
    parser.add_output(endings=("onnx",), hide=("config",))
    parser.epilog = "A network is written as an ONNX model where --output ends in .onnx."


def run_show(args: argparse.Namespace) -> None:
    """Find the name among networks, planners and specs, and print it."""
    if args.name == "options":
        args.kind = args.name
        run_list(args)
        return
    known = is_network(args.name)
    model = (args.output or "").lower().endswith(".onnx")
    if model and not known:
        raise UsageError(f"--output {args.output!r}: {args.name!r} is not a network")
    planner = not known and args.name in all_planners()
    if args.set and (known or planner):
        raise UsageError(f"--set changes specs; {args.name!r} is not one")
    if known:
        network = inputs.network_of(args.name)
        if model:
            from workloads.exporters.onnx_model import to_onnx

            data = to_onnx(network).SerializeToString()
            with whole_file(args.output) as path:
                path.write_bytes(data)
        else:
            rows = _layers(network)
            _deliver(args, _about(network), rows, _network(network, rows), LEAST_catalog)
    elif planner:
        row = {"name": args.name, "about": (load_planner(args.name).__doc__ or "").strip()}
        _deliver(args, args.name, [row], row)
    elif (kind := spec_kind(args.name)) == "array":
        array = load_array(args.name, args.set)
        _show_spec(args, kind, array, array.settings, execution=array.model)
    elif kind is not None:
        load = load_stack if kind == "stack" else load_device
        _show_spec(args, kind, *load(args.name, args.set))
    else:
        raise UsageError(_unknown(args.name))


def _unknown(name: str) -> str:
    specs = [name for kind in ("array", "device", "stack") for name in catalog_names(kind)]
    names = [*NETWORKS, *LARGE, *all_planners(), *specs]
    paths = "(or the path of a .toml, .onnx, .txt or config.json file)"
    known = hint(name, [*names, *beside(name)], "KIND")
    return f"nothing is called {name!r}; {known} {paths}"


def _show_spec(
    args: argparse.Namespace,
    kind: str,
    spec: Array | Device | Stack,
    settings: Iterable[Setting],
    **further: str,
) -> None:
    name, about = spec.name, spec.description
    rows = [{"key": s.key, "value": s.value, "source": s.source} for s in settings]
    data = {"kind": kind, "name": name, "description": about, **further, "settings": rows}
    words = "; ".join(filter(None, [about, *(f"{key} {value}" for key, value in further.items())]))
    _deliver(args, ": ".join(filter(None, [name, words])), rows, data)


def _about(network: Network) -> str:
    return (
        f"{network.name}: {network.description}; input {network.input}, {network.weights:,} "
        f"weights, {network.parameters:,} parameters with biases, norms and tables, "
        f"{network.macs:,} multiply-accumulates forward"
    )


def _layers(network: Network) -> list[dict[str, Any]]:
    return [
        {
            "layer": layer.name,
            "kind": layer.operator or layer.kind,
            "inputs": ", ".join(layer.inputs),
            "input": " ".join(map(str, dict.fromkeys(layer.operands))),
            "output": str(layer.output),
            "kernel": _window(layer.kernel),
            "stride": _window(layer.stride),
            "padding": _window(layer.padding),
            "groups": layer.groups,
            "weights": layer.weights,
            "parameters": layer.parameters,
            "macs": layer.macs,
        }
        for layer in network.layers
    ]


def _window(measure: Sides) -> int | str:
    """One number, or height x width."""
    return measure if isinstance(measure, int) else f"{measure[0]}x{measure[1]}"


def _network(network: Network, layers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "kind": "network",
        "name": network.name,
        "description": network.description,
        "input": str(network.input),
        "weights": network.weights,
        "parameters": network.parameters,
        "macs": network.macs,
        "layers": layers,
        "warnings": list(network.notes),
    }


LEAST_catalog = ("padding", "groups", "stride", "inputs", "parameters", "kernel", "input")
"""Columns of a network's layers that a narrow terminal goes without, the first ones first."""


def _deliver(
    args: argparse.Namespace,
    title: str,
    rows: list[dict[str, Any]],
    data: Any,
    least: Sequence[str] = (),
) -> None:
    """Rows as a table, of which a terminal may go without the ``least``, or data as JSON."""
    dropped = least if args.format == "table" else ()
    show(args, Answer(data, lambda: rows, lambda: fitted(title, rows, dropped)))


COLUMNS = ("network", "planner", "array", "batch", "objective", "execution")
LEAST_results = ("finished", "objective")
"""Columns that a narrow terminal goes without, the first ones first, those with one value before.

Then go those of studies, the last ones first, batch and execution; export has all.
"""


def configure_results(parser: Parser) -> None:
    """Add its arguments."""
    actions = ("list", "export", "prune")
    parser.add_argument("action", metavar="ACTION", choices=actions, help=", ".join(actions))
    parser.add(changed("store", about="file of results", required=True), "results.where", "metrics")
    parser.add_output("parquet", hide=("config",))


def run_results(args: argparse.Namespace) -> None:
    """Do what was asked for with an existing store."""
    with Store(args.store, create=False, read_only=args.action != "prune") as store:
        conditions, known = _conditions(args.where), store.input_names()
        for key in conditions:
            if known and key not in known:
                raise UsageError(f"--where {key}: no result has it; {hint(key, known)}")
        if args.action == "prune":
            deliver(f"{store.prune(**conditions)} results deleted\n", None)
            return
        rows = store.rows(**conditions)
    if args.action == "list":
        asked = parse_metrics(args.metrics)
        measures = [MEASURES.get(metric, "iteration_s") for metric in asked]
        studies = [key for row in rows if "study" in row for key, v in row.items() if _plain(v)]
        if studies and not any(row.get(one) for one in measures for row in rows):
            measures = []
        of_spec = [key for row in rows for key in row if "." in key or key in (*SHORT, "nodes")]
        asked_of = dict.fromkeys([*of_spec, *varied_keys(rows)])
        varied = [key for key in asked_of if all(_plain(row.get(key)) for row in rows)]
        columns = list(dict.fromkeys([*COLUMNS, *varied, *studies, *measures]))
        columns = [one for one in columns if one not in ("key", *WHEN)] + [WHEN[0]]
        if args.format == "parquet":
            raise UsageError("list has no parquet; results export --output FILE.parquet has")
        listed = [{column: row.get(column) for column in columns} for row in rows]
        show(args, Answer(listed, lambda: listed, lambda: _parts(args, columns, rows)))
        return
    if not (args.output and args.output.lower().endswith(ENDINGS)):
        raise UsageError(f"export needs --output FILE ending in {', '.join(ENDINGS)}")
    check_outputs(args)
    flat = [{key: value for key, value in row.items() if key not in UNTOLD} for row in rows]
    table = frame_of(flat)
    whole = formats.with_aliases(table)
    show(args, Answer(records(table), lambda: formats.rows_of(table), list, whole))


def _plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _shown(value: object) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _parts(
    args: argparse.Namespace, columns: list[str], rows: list[dict[str, Any]]
) -> list[Table | str]:
    title = f"{args.store}: {len(rows)} results"
    shown = [{column: _shown(row.get(column)) for column in columns} for row in rows]
    alike = [key for key in (*LEAST_results, *columns) if len({row[key] for row in shown}) == 1]
    kept = ("network", "planner", "method", "batch", "execution", "iteration_s")
    others = [column for column in reversed(columns) if column not in kept]
    order = (LEAST_results[0], *alike, *LEAST_results, *others, "batch", "execution")
    least = list(dict.fromkeys(order))
    return fitted(title, shown, least if args.format == "table" else ()) if rows else [title]


def _conditions(where: list[str]) -> dict[str, str]:
    conditions: dict[str, str] = {}
    for text in where:
        key, equals, value = text.partition("=")
        if not equals or not key or '"' in key:
            raise UsageError(f"--where {text!r}: expected KEY=VALUE, as network=lenet")
        conditions[key] = value
    return conditions
