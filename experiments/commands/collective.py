"""``accelarray collective``: one collective on an array's wires, beside its closed form."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import add_array, add_output
from experiments.commands.resolve import array_of
from experiments.output import UsageError, progress_bar
from experiments.results.formats import flat
from experiments.results.result import Answer, check_outputs, show
from hardware import Wires, in_bytes, parse_quantity
from simulator import chosen, closed_form, run_alone

if TYPE_CHECKING:
    from rich.table import Table


COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast")
SHOWN_LINKS = 8
MOST_MESSAGES = 1 << 24


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("collective", help="time of one collective on an array's wires")
    parser.add_argument("collective", choices=COLLECTIVES)
    parser.add_argument(
        "--bytes",
        metavar="N",
        required=True,
        help='the full tensor: a number of bytes, or a quantity as "100 MB"',
    )
    parser.add_argument(
        "--algorithm",
        metavar="X",
        default="auto",
        help="see docs/collectives.md (default: auto, the one predicted to be fastest)",
    )
    add_array(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Build the wires, run the collective over all nodes, deliver."""
    size_bytes = parse_bytes(args.bytes)
    check_outputs(args)
    with progress_bar(3) as done:
        wires = Wires(array_of(args))
        nodes = wires.nodes
        _check_size(args.collective, args.algorithm, len(nodes))
        done("choosing messages")
        algorithm, phases = chosen(wires, args.collective, nodes, size_bytes, args.algorithm)
        done("running")
        time_s, link_bytes = run_alone(wires, phases)
        done("")
    formula_s = closed_form(wires, args.collective, nodes, size_bytes, algorithm)
    result = {
        "collective": args.collective,
        "algorithm": algorithm,
        "array": wires.array.name,
        "topology": wires.topology.kind,
        "joins": wires.topology.joins,
        "nodes": len(nodes),
        "bytes": size_bytes,
        "time_s": time_s,
        "closed_form_s": formula_s,
        "phases": [
            {"steps": phase.steps, "time_s": phase.alone_ps(wires.bandwidth) / 1e12}
            for phase in phases
        ],
        "bytes_per_link": {
            wires.names[link]: float(link_bytes[link]) for link in link_bytes.nonzero()[0]
        },
    }
    show(args, Answer(result, lambda: [flat(result)], lambda: [_table(result, wires)]))
    return 0


def parse_bytes(text: str) -> float:
    """``100000000`` or ``100 MB``; raises UsageError."""
    try:
        return parse_quantity(in_bytes(text), "B")
    except ValueError as error:
        raise UsageError(f"--bytes {text!r}: {error}, or a whole number of bytes") from None


def _check_size(collective: str, algorithm: str, nodes: int) -> None:
    """Refuse what would take minutes: messages between all pairs of very many nodes."""
    pairs = collective == "all-to-all" or algorithm == "direct"
    if pairs and nodes * nodes > MOST_MESSAGES:
        raise UsageError(f"{nodes:,} nodes: messages between all pairs are too many to count")


def _table(result: dict[str, Any], wires: Wires) -> Table:
    from rich.table import Table

    table = Table(show_header=False, title=f"{result['collective']}, {result['array']}")
    table.add_row("nodes", f"{result['nodes']:,} {result['joins']}, {result['topology']}")
    table.add_row("bytes", f"{result['bytes']:,.0f}")
    table.add_row("algorithm", result["algorithm"])
    table.add_row("phases", f"{len(result['phases']):,}")
    table.add_section()
    table.add_row("time", f"{result['time_s']:.12f} s")
    if (formula_s := result["closed_form_s"]) is None:
        table.add_row("closed form", "none that is exact here")
    else:
        table.add_row("closed form", f"{formula_s:.12f} s")
        table.add_row("difference", f"{(result['time_s'] - formula_s) * 1e12:+.3f} ps")
    table.add_section()
    links = sorted(result["bytes_per_link"].items(), key=lambda item: -item[1])
    for name, count in links[:SHOWN_LINKS]:
        table.add_row(name, f"{count:,.0f} bytes")
    if len(links) > SHOWN_LINKS:
        table.add_row("", f"and {len(links) - SHOWN_LINKS:,} more links (--format json)")
    unused = len(wires.bandwidth) - len(links)
    table.add_row("links without bytes", f"{unused:,}")
    return table
