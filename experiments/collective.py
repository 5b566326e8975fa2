"""A collective on its own: time, algbw and busbw of every algorithm, and bytes of every link."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Unpack

from rich.table import Table

from experiments.api.argument_types import ArrayLike, ArrayOptions, Changes, Progress, explicit
from experiments.api.inputs import array_of
from experiments.api.requests import changed
from experiments.output import UsageError, hearing, pairs_table, table_of
from experiments.pictures.figures import finish, panels
from experiments.pictures.palette import SERIES
from experiments.results.formats import flat
from experiments.results.result import Answer
from experiments.studies import unread
from experiments.terms import change, duration
from hardware import COMMAND_LINE, Array, Wires, format_quantity, in_bytes, parse_quantity, watched
from hardware.interconnect.fabric import Memory
from simulator import DEPLOYED, PICOSECONDS, Offer, closed_form, offer, offers, run_alone
from simulator.collectives.offers import NCCL, Ready

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast")
SHOWN_LINKS = 8
BY_NCCL = ", NCCL's steps"
"""Follows an algorithm's name where "auto" takes as long for each step as NCCL reckons."""
MOST_MESSAGES = 1 << 24
SIZES = [float(1 << power) for power in range(10, 35, 2)]
"""Bytes of the picture's points: 1 KiB to 16 GiB."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CollectiveResult(Answer):
    """One collective over all nodes of an array: its time, rates, and the bytes of every link."""

    @property
    def time_s(self) -> float:
        """Seconds until the last node has its result."""
        return float(self.data["time_s"])

    def title(self) -> str:
        """Collective, array, and time."""
        return f"{self.data['collective']}, {self.data['array']}: {duration(self.time_s)}"


@explicit(collective='"all-reduce", "reduce-scatter", "all-gather", "all-to-all" or "broadcast"')
def collective(
    collective: str,
    bytes: str | float,  # noqa: A002  (the command's --bytes)
    array: ArrayLike = "accpar-mixed",
    *,
    algorithm: str = "auto",
    set: Changes = (),  # noqa: A002
    progress: Progress | None = None,
    **options: Unpack[ArrayOptions],
) -> CollectiveResult:
    """Simulate one collective over all nodes of an array.

    Raises CollectiveError, SpecError or UsageError.
    """
    if isinstance(bytes, bool) or not isinstance(bytes, str | Real):
        raise UsageError(f"bytes {bytes!r}: a number, or a text with a unit, as '100 MB'")
    size_bytes = parse_bytes(bytes if isinstance(bytes, str) else f"{float(bytes)!r} B")
    if collective not in COLLECTIVES:
        raise UsageError(f"collective {collective!r}: one of {', '.join(COLLECTIVES)}")
    changes = changed(set, options)
    place = array_of(array, changes)
    with hearing(progress, 3) as done:
        wires, seen = _watched(place)
        nodes, pairs = len(wires.nodes), collective == "all-to-all" or algorithm == "direct"
        if pairs and nodes * nodes > MOST_MESSAGES:  # which would take minutes
            raise UsageError(f"{nodes:,} nodes: messages between all pairs are too many to count")
        done("choosing messages")
        found = offer(wires, collective, wires.nodes, size_bytes, algorithm)
        done("running")
        data = _data(wires, collective, size_bytes, found, algorithm)
        data["warnings"] = _warnings(place, seen)
        done("")
    return CollectiveResult(
        data,
        lambda: [flat(data)],
        lambda: _tables(data, wires),
        picture=lambda: plot_bandwidth(wires, collective, size_bytes),
    )


def _watched(array: Array) -> tuple[Wires, set[str]]:
    """The wires of an array, and which of its fields have been read by now."""
    seen = set[str]()
    return Wires(watched.watched(array, seen)), seen


def _warnings(array: Array, seen: set[str]) -> list[str]:
    """What was changed and is not read, once each, and what is taken for granted."""
    told, idle = unread.changed(array, DEPLOYED), {*watched.unread(array, seen)}
    keys = [s.key for s in array.settings if s.source == COMMAND_LINE and s.key in idle]
    rest = [key for key in unread.by_table(keys) if not any(f" {key}" in one for one in told)]
    more = [f"A collective does not read {key}." for key in rest]
    return [*more, *told, *unread.small_tori(array)]


def parse_bytes(text: str) -> float:
    """``100000000`` or ``100 MB``; raises UsageError."""
    try:
        return parse_quantity(in_bytes(text), "B")
    except ValueError as error:
        raise UsageError(f"--bytes {text!r}: {error}, or a whole number of bytes") from None


def rates(name: str, nodes: int, size_bytes: float, time_s: float) -> dict[str, float | None]:
    """Algbw and busbw in GB/s (1e9 bytes); None of what takes no time.

    What makes of algbw a busbw is as nccl-tests (doc/PERFORMANCE.md) has it.
    """
    algbw = size_bytes / time_s / 1e9 if time_s else None
    factor = (2 if name == "all-reduce" else 1) * (nodes - 1) / nodes
    if name == "broadcast" or nodes < 2:
        factor = 1.0
    return {"algbw_gb_per_s": algbw, "busbw_gb_per_s": None if algbw is None else algbw * factor}


def _data(wires: Wires, name: str, size_bytes: float, found: Offer, by: str) -> dict[str, Any]:
    """As JSON has it."""
    nodes = len(wires.nodes)
    jobs = tuple(job.unfolded() for job in found.jobs())
    time_s, carried = run_alone(wires, jobs)
    alone = _alone(wires, name, size_bytes)
    chosen = found.algorithm
    if f"{chosen}{BY_NCCL}" in alone and by == "auto":
        chosen += BY_NCCL
    alone.setdefault(chosen, time_s)  # some are taken only where they are named
    return {
        "collective": name,
        "algorithm": chosen,
        "array": wires.array.name,
        "topology": wires.topology.kind,
        "joins": wires.topology.joins,
        "nodes": nodes,
        "bytes": size_bytes,
        "time_s": time_s,
        **rates(name, nodes, size_bytes, time_s),
        "closed_form_s": None
        if isinstance(found, Ready) and found.in_steps
        else closed_form(wires, name, wires.nodes, size_bytes, found.algorithm),
        "algorithms": [
            {
                "algorithm": algorithm,
                "time_s": alone_s,
                **rates(name, nodes, size_bytes, alone_s),
                "chosen": algorithm == chosen,
            }
            for algorithm, alone_s in sorted(alone.items(), key=lambda one: one[::-1])
        ],
        "phases": [
            {"steps": job.steps, "time_s": job.alone_ps(wires.bandwidth) / PICOSECONDS}
            for job in jobs
        ],
        "bytes_per_link": {
            wires.names[link]: float(carried[link]) for link in carried.nonzero()[0]
        },
    }


def _tables(data: dict[str, Any], wires: Wires) -> list[Table | str]:
    phases = len(data["phases"])
    joins = data["joins"].removesuffix("s") if data["nodes"] == 1 else data["joins"]
    about = {
        "nodes": f"{data['nodes']:,} {joins}, {data['topology']}",
        "size": f"{data['bytes']:,.0f} bytes",
        "algorithm": f"{data['algorithm']}, {phases:,} phase{'s' * (phases != 1)}",
    }
    times = {
        "time": duration(data["time_s"]),
        "algbw": _rate(data["algbw_gb_per_s"]),
        "busbw": _rate(data["busbw_gb_per_s"]),
        "closed form": "none that is exact here",
    }
    if (formula_s := data["closed_form_s"]) is not None:
        differs_s = data["time_s"] - formula_s
        times["closed form"] = (
            f"{duration(formula_s)}; difference {change(differs_s)}"
            if abs(differs_s) * PICOSECONDS >= 1
            else "the same to the picosecond"
        )
    title = f"{data['collective']}, {data['array']}"
    whole = pairs_table(title, about.items(), times.items())
    tables: list[Table | str] = [whole, _algorithms(data), _links(data, wires)]
    if "nccl" in data["algorithm"].lower():
        said = "auto is what NCCL, the stack's library, does: it does not work tier by tier."
        tables.insert(2, said)
    return [*tables, *data["warnings"]]


def _rate(gb_per_s: float | None) -> str:
    return "" if gb_per_s is None else f"{gb_per_s:.4g} GB/s"


def _algorithms(data: dict[str, Any]) -> Table:
    heads = ("algorithm", "time", "algbw [GB/s]", "busbw [GB/s]")
    table = table_of("Algorithms, fastest first", heads, ("algorithm",))
    for one in data["algorithms"]:
        cells = [f"{one[f'{name}_gb_per_s'] or 0:#.4g}" for name in ("algbw", "busbw")]
        mark = " (chosen)" * one["chosen"]
        table.add_row(one["algorithm"] + mark, duration(one["time_s"]), *cells)
    return table


def _links(data: dict[str, Any], wires: Wires) -> Table:
    table = table_of("Bytes of the busiest links", ("link", "bytes"), ("link",))
    links = sorted(data["bytes_per_link"].items(), key=lambda item: -item[1])
    for name, count in links[:SHOWN_LINKS]:
        table.add_row(name, f"{count:,.0f}")
    if len(links) > SHOWN_LINKS:
        table.add_row(f"and {len(links) - SHOWN_LINKS:,} more links (--format json)", "")
    between = [net.fabric for net in wires.subnets if not isinstance(net.fabric, Memory)]
    unused = {name for fabric in between for name in fabric.names()} - data["bytes_per_link"].keys()
    table.add_row("links without bytes", f"{len(unused):,}")
    return table


def _alone(wires: Wires, name: str, size_bytes: float) -> dict[str, float]:
    """Seconds of each algorithm that applies, by its name, when nobody else uses the links.

    Where "auto" has none of NCCL's own, but takes NCCL's steps, that stands beside the others.
    """
    found = {one.algorithm: one.alone_ps for one in offers(wires, name, size_bytes)}
    auto = offer(wires, name, wires.nodes, size_bytes)
    if isinstance(auto, Ready) and auto.in_steps and auto.algorithm not in NCCL:
        found[f"{auto.algorithm}{BY_NCCL}"] = auto.alone_ps
    return {algorithm: alone_ps / PICOSECONDS for algorithm, alone_ps in found.items()}


def plot_bandwidth(wires: Wires, name: str, size_bytes: float) -> Figure:
    """Busbw of every algorithm over the size, and a line at the size that was asked for."""
    nodes = len(wires.nodes)
    curves: dict[str, list[tuple[float, float]]] = {}
    for size in SIZES:
        for algorithm, alone_s in _alone(wires, name, size).items():
            if rate := rates(name, nodes, size, alone_s)["busbw_gb_per_s"]:
                curves.setdefault(algorithm, []).append((size, rate))
    figure, (axes,) = panels(7.0, 4.2)
    order = sorted(curves, key=lambda key: -max(rate for _, rate in curves[key]))
    for number, algorithm in enumerate(order):
        look = "--" if number % 2 else "-"  # what lies under another is seen
        colour = SERIES[number % len(SERIES)]
        axes.plot(*zip(*curves[algorithm], strict=True), look, color=colour, label=algorithm)
    axes.axvline(size_bytes, color="#555555", lw=0.8, ls=":")
    axes.set_xscale("log", base=2)
    ticks = SIZES[::2]
    axes.set_xticks(ticks, [_binary(size) for size in ticks])
    axes.set_ylim(bottom=0)
    title = f"{name} over {nodes:,} {wires.topology.joins} of {wires.array.name}"
    finish(axes, title, f"size (dotted: {format_quantity(size_bytes, 'B')})", "busbw [GB/s]")
    return figure


def _binary(size: float) -> str:
    power, unit = divmod(int(size).bit_length() - 1, 10)
    return f"{1 << unit} {('B', 'KiB', 'MiB', 'GiB')[power]}"
