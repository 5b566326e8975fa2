"""``accelarray plan``: which type each layer gets at each level; or a profile's stages."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import (
    add_network,
    add_output,
    add_planner,
    add_step,
)
from experiments.commands.plan_profile import add_profile, check_no_profile, run_profile
from experiments.commands.resolve import array_of, execution_of, network_of, planner_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from hardware import Array
    from planners import Partition, Pipeline, Plan, Split
    from workloads import Network

MOST_LEVELS = 16


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("plan", help="show how a planner splits a network")
    add_network(parser, optional=True)
    parser.add_argument(
        "--layers", nargs="+", metavar="FILE", help="layer files of the AccPar authors' program"
    )
    add_planner(parser)
    add_step(parser, array=None)
    parser.add_argument(
        "--levels", metavar="H", type=int, help="2^H alike accelerators instead of an array"
    )
    add_output(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw layers by levels (.png, .svg or .pdf)")
    add_profile(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plan every network asked for, or a profile, then deliver."""
    if args.profile is not None:
        return run_profile(args)
    check_no_profile(args)
    from experiments.formats import Shown, written
    from experiments.output import UsageError, check_writable, deliver
    from experiments.pictures.figures import check_plot, save
    from experiments.pictures.plan_map import plot_plan
    from experiments.studies.case import Case, plan_of

    if args.plot:
        if len(args.layers or []) > 1:
            raise UsageError("--plot draws one plan; give --layers one file")
        check_plot(args.plot)
        check_writable(args.output, args.plot)
    whole = _array(args)
    execution = execution_of(args, whole)
    planner = planner_of(args)
    networks = _networks(args)
    step = (planner, whole, args.batch, args.objective, args.communication, execution)
    plans = [plan_of(Case(network, *step)) for network in networks]
    array = execution.planned(whole)
    if args.plot:
        save(plot_plan(plans[0], array), args.plot)
    data = [
        to_dict(plan, array) | {"warnings": list(network.notes)}
        for plan, network in zip(plans, networks, strict=True)
    ]
    shown = Shown(
        data[0] if len(data) == 1 else data,
        lambda: [row for plan in plans for row in _rows(plan, array)],
        lambda: [part for plan in plans for part in ["", *tables(plan, array)]][1:],
    )
    deliver(written(shown, args.format), args.output)
    return 0


def _array(args: argparse.Namespace) -> Array:
    from experiments.output import UsageError
    from hardware import load_array

    if args.levels is None:
        return array_of(args)
    if args.array or args.set:
        raise UsageError("--levels takes the place of --array and --set; give one or the other")
    if not 0 <= args.levels <= MOST_LEVELS:
        raise UsageError(f"--levels {args.levels}: must be within 0...{MOST_LEVELS}")
    return load_array("accpar-homogeneous", [f"devices.0.count={2**args.levels}"])


def _networks(args: argparse.Namespace) -> list[Network]:
    from experiments.output import UsageError
    from workloads import read_layer_file

    if (args.network is None) == (args.layers is None):
        raise UsageError("name a NETWORK or give --layers FILE, one of the two")
    if args.layers:
        return [read_layer_file(path) for path in args.layers]
    return [network_of(args.network, args.transform, array_of(args))]


def to_dict(plan: Plan, array: Array) -> dict[str, Any]:
    """What ``--format json`` prints: levels where all halves are alike, else the tree."""
    data = plan.to_json() | {"array": array.name, **plan.gap_fields()}
    if plan.pipeline is not None:
        return data
    levels, root = plan.levels(), data.pop("root")
    if levels is None:
        return data | {"tree": root}
    return data | {
        "levels": [[str(kind) for kind in split.types] for split in levels],
        "cost": [_number(split.cost) for split in levels],
        "lower_bound": [split.lower_bound for split in levels],
    }


def _number(cost: float) -> float | int:
    """Whole numbers of elements as integers."""
    return int(cost) if cost.is_integer() else cost


def tables(plan: Plan, array: Array) -> list[Table | str]:
    """A table for every stretch of the tree in which halves are alike."""
    from experiments.pictures.plan_map import describe, stretches
    from experiments.studies.speedups import inexact
    from planners import OBJECTIVES
    from planners.plan.updates import bucket_words, update_order_words

    unit = OBJECTIVES[plan.objective].unit
    made = f"{plan.network}, {plan.planner} by {plan.objective}"
    title = f"{made} on {array.name}, batch {plan.batch}"
    if plan.communication != "printed":
        title += f", {plan.communication} communication"
    if plan.bucket_bytes is not None:
        title += f", {bucket_words(plan.bucket_bytes)}"
    if plan.update_order:
        title += f", {update_order_words(plan.update_order)}"
    parts: list[Table | str] = [title]
    if said := inexact(plan):
        parts += ["", said.rstrip()]
    if plan.pipeline is not None:
        return [*parts, *_stages(plan, plan.pipeline, array)]
    for group, level, chain in stretches(plan.root, array.group, 0):
        parts += ["", describe(group, chain), *_pieces(plan, chain, level, unit)]
    if plan.root is None:
        parts += ["", "A single accelerator: nothing is split."]
    return parts


def _stages(plan: Plan, pipeline: Pipeline, array: Array) -> Iterator[Table | str]:
    """Which layers are where, then every stage's own plan."""
    from rich.table import Table

    many, layers = pipeline.micro_batches, pipeline.layers(plan.nodes)
    yield ""
    size = plan.batch // many
    yield f"{pipeline.schedule}, {many} micro-batch{'es' * (many > 1)} of {size} samples"
    table = Table()
    for name in ("stage", "layers", "accelerators", "replicas"):
        table.add_column(name, justify="left" if name == "layers" else "right")
    for k, (stage, names) in enumerate(zip(pipeline.stages, layers, strict=True)):
        place = pipeline.places[stage.place]
        where = f"{place.first}" + (f"-{place.first + place.count - 1}" * (place.count > 1))
        said = "…".join(dict.fromkeys((names[0], names[-1]))) + ", recomputed" * stage.recompute
        table.add_row(str(k), said, where, str(place.replicas))
    yield table
    for k, stage in enumerate(pipeline.stages):
        place = pipeline.places[stage.place]
        own = tables(stage.plan, array.part(place.first, place.each))
        yield from ["", f"stage {k}:", *own[1:]]


def _rows(plan: Plan, array: Array) -> Iterator[dict[str, Any]]:
    """A plan as a spreadsheet: each layer at each level of each stretch; shares of the first."""
    from experiments.pictures.plan_map import describe, stretches

    if plan.pipeline is not None:
        for k, stage in enumerate(plan.pipeline.stages):
            place = plan.pipeline.places[stage.place]
            own = array.part(place.first, place.each)
            for row in _rows(stage.plan, own):
                yield row | {"network": plan.network, "stage": k}
        return
    for group, first, chain in stretches(plan.root, array.group, 0):
        for level, split in enumerate(chain, first):
            for v, (name, part) in enumerate(zip(plan.nodes, split.partitions, strict=True)):
                yield {
                    "network": plan.network,
                    "planner": plan.planner,
                    "group": describe(group, chain),
                    "level": level,
                    "layer": name,
                    "type": str(part.type),
                    "share": part.share,
                    **({"update": str(plan.updates[v])} if plan.updates else {}),
                }


def _pieces(plan: Plan, chain: list[Split], level: int, unit: str) -> Iterator[Table]:
    """Tables of as many levels as a terminal takes beside the layers' names."""
    from experiments.output import width

    names = max(map(len, [*plan.nodes, f"cost [{unit}]"]))
    cells = [_cell(part) for split in chain for part in split.partitions]
    cells += [_cost(split.cost) for split in chain] + [f"level {level + len(chain)}"]
    names += len("replicated") + 3 if plan.updates else 0
    many = max(1, (width() - names - 4) // (max(map(len, cells)) + 3))
    for first in range(0, len(chain), many):
        yield _table(plan, chain[first : first + many], level + first, unit)


def _table(plan: Plan, chain: list[Split], level: int, unit: str) -> Table:
    from rich.table import Table

    table = Table()
    table.add_column("layer")
    if plan.updates:
        table.add_column("update")
    for i in range(len(chain)):
        table.add_column(f"level {level + i}")
    for v, name in enumerate(plan.nodes):
        update = [str(one) for one in plan.updates[v : v + 1]]
        table.add_row(name, *update, *[_cell(split.partitions[v]) for split in chain])
    table.add_section()
    nothing = [""] * bool(plan.updates)
    table.add_row(f"cost [{unit}]", *nothing, *[_cost(split.cost) for split in chain])
    return table


def _cell(partition: Partition) -> str:
    """The type; the first group's share where it is not one half."""
    return f"{partition.type}" + ("" if partition.share == 0.5 else f" {partition.share:.4f}")


def _cost(cost: float) -> str:
    return f"{cost:,.0f}" if cost.is_integer() else f"{cost:.4g}"
