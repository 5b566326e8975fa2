"""``accelarray simulate``, ``timeline``, ``compare``, ``explain``; ``collective`` on its own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from experiments.api.inputs import planners_of, read_plan
from experiments.collective import COLLECTIVES, collective, parse_bytes
from experiments.commands.arguments import ARRAY, PLANNER, RUN, STEP, Parser, changed
from experiments.commands.resolve import case_of, cases_of, keywords_of
from experiments.explain.traced import traced
from experiments.notices import tell
from experiments.output import UsageError, check_writable
from experiments.pictures import lanes
from experiments.results.difference import differing
from experiments.results.explanation import explained
from experiments.results.result import check_outputs, show
from experiments.results.step import ENDINGS, check_ending, stepped, steps, write
from experiments.studies.case import Case, Planned
from experiments.studies.runs.run import run_of
from experiments.studies.speedups import warn_inexact
from experiments.studies.step_numbers import metrics_of
from planners import AXES, Planner


def configure_simulate(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_network()
    parser.add(*STEP, *PLANNER, "metrics", "execution.unfolded", "export", *RUN, hide=("metrics",))
    parser.add_output()


def run_simulate(args: argparse.Namespace) -> None:
    """Plan, simulate, show."""
    check_outputs(args)
    case, run = case_of(args), run_of(vars(args))
    show(args, stepped(case, metrics_of(args.metrics, case.array), run), args.export)


def configure_timeline(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_network()
    parser.add(*STEP, *PLANNER, "execution.unfolded", "timeline.devices", "config")
    about = "the file to write: a picture, a Perfetto trace or records, by its ending: "
    output = changed("output", about=about + ", ".join(ENDINGS), default="", required=True)
    parser.add(output)


def run_timeline(args: argparse.Namespace) -> None:
    """Plan, simulate, write the file that ``--output`` names."""
    check_ending(args.output)
    check_writable(args.output)
    case = replace(case_of(args), folded=not args.unfolded and args.devices is None)
    step = stepped(case)
    shown = lanes.sites(step.timeline)
    if args.devices is not None:
        shown = lanes.chosen(shown, args.devices)
    warn_inexact(case.network.name, step.plan)
    for said in step.unread:
        tell(said)
    write(args.output, case, step.plan, step.timeline, shown)


def configure_compare(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_network()
    about = "plan to compare in place of a planner; or two"
    plan = changed("plan", kind="many", value=[], about=about)
    parser.add(changed("planners", value="", about="two planners"), plan, "compare.trace")
    parser.add(*STEP, "metrics", "plot", hide=("metrics", "optimizer", "pipeline.schedule"))
    parser.add_output()


def run_compare(args: argparse.Namespace) -> None:
    """Plan and simulate twice, or once beside a trace, then show."""
    if args.trace is not None:
        _run_traced(args)
        return
    chosen = _compared(args)
    if len(chosen) != 2:
        asked = {f"--planners {args.planners!r}": args.planners, "--plan": args.plan}
        given = " and ".join(flag for flag, value in asked.items() if value)
        raise UsageError(
            f"{given}: name two different ones, as owt,accpar; a --plan FILE stands for one"
        )
    check_outputs(args)
    one, other = chosen
    cases = cases_of(args, list(chosen.values()))
    metrics = metrics_of(args.metrics, cases[0].array)
    first, second = steps(cases, metrics)
    show(args, differing(first, second, (one, other), metrics))


def _run_traced(args: argparse.Namespace) -> None:
    """One step beside a measured one."""
    if args.plot:
        raise UsageError("--plot: there is no picture of a trace beside a step; leave it out")
    if not args.planners and not args.plan and args.parallel:
        args.planners = AXES
    chosen = list(_compared(args).values()) if args.planners or args.plan else []
    if len(chosen) != 1:
        raise UsageError(
            "--trace is compared with one step: name one planner, as --planners accpar, axes, as "
            "--parallel dp=8, or one --plan FILE"
        )
    check_outputs(args)
    (step,) = steps(cases_of(args, chosen))
    show(args, traced(step, args.trace))


def _compared(args: argparse.Namespace) -> dict[str, str | Planner]:
    """What is compared, by name: planners, then plans, by their files where names are taken."""
    found: dict[str, str | Planner] = {}
    if not args.planners and not args.plan:
        raise UsageError("compare needs two planners, as --planners owt,accpar; or two --plan FILE")
    if args.planners:
        found |= {str(one): one for one in planners_of(args.planners, vars(args))}
    plans = {file: read_plan(file) for file in args.plan}
    taken = [*found, *(plan.planner for plan in plans.values())]
    for file, plan in plans.items():
        name = file if taken.count(plan.planner) > 1 else plan.planner
        found[name] = Planned(name, plan)
    return found


def configure_explain(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_network()
    parser.add(*STEP, *PLANNER, "metrics", "plot", hide=("metrics", "optimizer"))
    parser.add_output()


def run_explain(args: argparse.Namespace) -> None:
    """Simulate the step and its variants, then show."""
    check_outputs(args)

    def asked(changes: Sequence[str]) -> Case:
        return case_of(argparse.Namespace(**vars(args) | {"set": changes}))

    case = asked(args.set)
    metrics = metrics_of(args.metrics, case.array)
    show(args, explained(case, args.set, asked, metrics=metrics))


def configure_collective(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_argument(
        "collective", metavar="COLLECTIVE", choices=COLLECTIVES, help=", ".join(COLLECTIVES)
    )
    algorithm = changed("execution.algorithm", value="auto", shown=True)
    hidden = ("precision", "optimizer", "stack")
    parser.add("collective.bytes", algorithm, "plot", *ARRAY, hide=hidden)
    parser.add_output()


def run_collective(args: argparse.Namespace) -> None:
    """Run the collective over all nodes, deliver."""
    parse_bytes(args.bytes)
    check_outputs(args)
    show(args, collective(**keywords_of(args, collective)))
