"""``accelarray plan``: which type each layer gets at each level; or a profile's stages."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from experiments.commands.arguments import PLANNER, STEP, Parser, changed
from experiments.commands.resolve import cases_of, planner_of
from experiments.notices import tell
from experiments.options import ALIASES, PIPEDREAM
from experiments.options import OPTIONS as TABLE
from experiments.output import UsageError, progress_bar
from experiments.progress import working
from experiments.results.planned import PlanResult
from experiments.results.profiles import of_max_load, of_phaze, of_pipeline
from experiments.results.result import Answer, check_outputs, show
from experiments.studies.case import Case, plan_of
from hardware.quantity import in_bytes, parse_quantity
from planners.pipeline.cost_models import COST_MODELS, parse_hierarchy
from planners.pipeline.load_graph import read_load_graph
from planners.pipeline.max_load import max_load
from planners.pipeline.phaze import Training, layers_of, phaze, read_phaze
from planners.pipeline.pipedream import Rules, plan_stages
from planners.pipeline.profile import planned_part, read_profile
from planners.pipeline.states import states_of
from workloads import read_layer_file

MOST_LEVELS = 16
OF_NETWORKS = ("model.layers", "planner.levels")
PROFILE = tuple(option.key for option in PIPEDREAM)
SHARED = ("pipeline.micro_batches", "optimizer", "recompute")
"""What a plan of a profile takes, and one of a network as well."""


def configure_plan(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_network(optional=True)
    parser.add(*STEP, *PLANNER, "plot", *OF_NETWORKS, *PROFILE, hide=(*PROFILE, "memory_reserve"))
    parser.add_output()


def configure_pipedream(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_argument(
        "profile", metavar="PROFILE", help="graph.txt of PipeDream, or JSON of max-load or Phaze"
    )
    about = "planner: pipedream, max-load or phaze"
    parser.add(changed("planner.name", value="pipedream", default="pipedream", about=about))
    parser.add(*PROFILE[1:], *SHARED, hide=("recompute", "optimizer"))
    parser.add_output()
    parser.set_defaults(set=[])


def run_plan(args: argparse.Namespace) -> None:
    """Plan every network asked for, or a profile, then deliver."""
    if args.profile is not None:
        run_pipedream(args)
        return
    for name in OPTIONS:
        if ALIASES[name] not in SHARED and _given(args, name):
            raise UsageError(f"{_flag(name)} belongs to --profile FILE, which is not given")
    if args.plot and len(args.layers or []) > 1:
        raise UsageError("--plot draws one plan; give --layers one file")
    check_outputs(args)
    cases = _cases(args)
    with progress_bar(len(cases)) as done:
        plans = []
        for case in cases:
            working(done, f"planning {case.network.name}")
            plans.append(PlanResult(plan_of(case), case))
            done(case.network.name)
    many = Answer(
        [plan.to_dict() for plan in plans],
        lambda: [row for plan in plans for row in plan.rows()],
        lambda: [part for plan in plans for part in ["", *plan.tables()]][1:],
    )
    show(args, plans[0] if len(plans) == 1 else many)
    if args.output:  # the file says it, the terminal does not
        for said in dict.fromkeys(said for plan in plans for said in plan.without()):
            tell(said)


def _cases(args: argparse.Namespace) -> list[Case]:
    """The network, or those of layer files; UsageError for arguments that exclude each other."""
    if args.levels is not None:
        if args.array or args.set:
            raise UsageError("--levels takes the place of --array and --set; give one or the other")
        if not 0 <= args.levels <= MOST_LEVELS:
            raise UsageError(f"--levels {args.levels}: must be within 0...{MOST_LEVELS}")
        args.array, args.set = "accpar-homogeneous", [f"devices.0.count={2**args.levels}"]
    planner = planner_of(args)
    if (args.network is None) == (args.layers is None):
        raise UsageError("name a NETWORK or give --layers FILE, one of the two")
    if args.layers is None:
        return cases_of(args, [planner])
    return [cases_of(args, [planner], read_layer_file(path))[0] for path in args.layers]


MOST = 1_000_000
"""Of devices, CPUs and micro-batches."""
READ = {
    "pipedream": ["hierarchy", "cost_model", "activation_ratio", "straight", "fewer", "memory"],
    "max-load": ["devices", "cpus", "memory"],
    "phaze": ["devices", "bandwidth", "micro_batches", "memory", "optimizer", "recompute"],
}
"""What ``--planner`` takes with ``--profile``, and which options each of these reads."""
OPTIONS = sorted({name for names in READ.values() for name in names})
WHOLE = "stages:all"
NEEDED = {
    "pipedream": ("hierarchy",),
    "max-load": ("devices",),
    "phaze": ("devices", "bandwidth", "micro_batches", "memory"),
}
EXAMPLES = {"hierarchy": ' "4@10 GB/s,4@1.25 GB/s"', "bandwidth": ' "100 Gbit/s"'}
_OF_NETWORKS: dict[str, Any] = {"network": None} | {
    one.name.replace("-", "_"): one.value if one.kind != "many" else []
    for one in map(TABLE.__getitem__, (*STEP, *PLANNER, "plot", *OF_NETWORKS))
    if one.name not in ("planner", "attention", "micro-batches", "recompute", "optimizer")
}
"""What only a plan of a network reads, with what stands for "not given"."""


def _given(args: argparse.Namespace, name: str) -> bool:
    value = getattr(args, name)
    return value is not None and value is not False  # 0 is given


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for an option that this planner does not read, or one that it lacks."""
    if args.planner not in READ:
        other = args.planner or ("the plan of --plan" if args.plan else "")
        raise UsageError(
            "--profile is planned by --planner pipedream, max-load or phaze, "
            + (f"not by {other}" if other else "of which none is given")
        )
    args.set = [change for change in args.set if change != f"optimizer={args.optimizer}"]
    for name, unset in _OF_NETWORKS.items():
        if getattr(args, name, unset) != unset:
            what = "NETWORK" if name == "network" else _flag(name)
            raise UsageError(f"{what} has no meaning with --profile; give one or the other")
    for name in OPTIONS:
        if _given(args, name) and name not in READ[args.planner]:
            raise UsageError(f"{_flag(name)} has no meaning with --planner {args.planner}")
    for name in NEEDED[args.planner]:
        if not _given(args, name):
            raise UsageError(f"{args.planner} needs {_flag(name)}{EXAMPLES.get(name, '')}")
    for name in ("devices", "cpus"):
        value, least = getattr(args, name), 0 if name == "cpus" else 1
        if value is not None and not least <= value <= MOST:
            raise UsageError(f"{_flag(name)} {value}: must be within {least}...{MOST}")
    if args.optimizer not in (None, "sgd", "adam"):
        raise UsageError(f"--optimizer {args.optimizer}: Phaze's placement knows sgd and adam")
    if args.recompute not in (None, "none", WHOLE):
        raise UsageError(f"--recompute {args.recompute}: Phaze's placement takes {WHOLE}, or none")
    ratio = args.activation_ratio
    if ratio is not None and not 1e-6 <= ratio <= 1e6:
        raise UsageError(f"--activation-ratio {ratio}: must be within 1e-6...1e6; 1 is as they are")


def run_pipedream(args: argparse.Namespace) -> None:
    """Plan a profile and deliver; what a plan leaves out goes to stderr where no table says it."""
    _check(args)
    check_outputs(args)
    planned = {"pipedream": _pipedream, "max-load": _max_load, "phaze": _phaze}[args.planner]
    shown, notes = planned(args)
    if args.format in ("json", "csv"):
        for note in notes:
            tell(note)
    show(args, shown)


def _memory(args: argparse.Namespace) -> float | None:
    return None if args.memory is None else _quantity("--memory", args.memory, "B")


def _quantity(flag: str, text: str, unit: str) -> float:
    try:
        return parse_quantity(in_bytes(text) if unit == "B" else text, unit)
    except ValueError as error:
        raise UsageError(f"{flag} {text!r}: {error}") from None


def _pipedream(args: argparse.Namespace) -> tuple[Answer, list[str]]:
    levels = parse_hierarchy(args.hierarchy)
    profile, left_out = planned_part(read_profile(args.profile))
    model = COST_MODELS[args.cost_model or "paper"](args.activation_ratio)
    states = states_of(profile, first_source=model.first_source)
    rules = Rules(args.straight, args.fewer, _memory(args))
    with progress_bar(len(levels) * len(states)) as done:
        plan = plan_stages(states, levels, model, rules, done)
    notes = list(plan.notes)
    if not states.every:
        why = "As in the released program" if model.first_source else "As it has many cuts"
        said = "a plan begins with the first of several inputs: others may be faster"
        notes.append(f"{why}, {said}.")
    if rules.fewer and rules.memory_bytes is not None:
        notes.append(
            "Memory counts machines that stay idle as stages behind, so a --hierarchy of fewer "
            "machines may allow faster plans."
        )
    if left_out:
        notes.append(f"Inputs and unused sinks are no part of the plan: {_some(left_out)}.")
    return of_pipeline(plan, states, args.hierarchy, notes), notes


def _some(names: tuple[str, ...], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _max_load(args: argparse.Namespace) -> tuple[Answer, list[str]]:
    graph = read_load_graph(args.profile)
    if (memory := _memory(args)) is not None:
        graph = replace(graph, memory_bytes=memory)
    with progress_bar(None) as done:
        plan = max_load(graph, args.devices, args.cpus, done)
    return of_max_load(plan, graph, args.devices), list(plan.notes)


def _micro_batches(text: str) -> int:
    digits = text.isascii() and text.isdigit() and len(text) < 10
    if not (digits and 1 <= int(text) <= MOST):
        raise UsageError(f"--micro-batches {text}: must be a whole number 1...{MOST}")
    return int(text)


def _phaze(args: argparse.Namespace) -> tuple[Answer, list[str]]:
    bandwidth = _quantity("--bandwidth", args.bandwidth, "B/s")
    training = Training(
        _micro_batches(args.micro_batches),
        bandwidth,
        _quantity("--memory", args.memory, "B"),
        args.optimizer == "adam",
        args.recompute == WHOLE,
    )
    if args.profile.lower().endswith(".json"):
        layers = read_phaze(args.profile)
    else:
        profile, _ = planned_part(read_profile(args.profile))
        layers = layers_of(profile)
    with progress_bar(min(args.devices, len(layers.layers))) as done:
        plan = phaze(layers, args.devices, training, done)
    return of_phaze(plan, layers, args.devices), list(plan.notes)
