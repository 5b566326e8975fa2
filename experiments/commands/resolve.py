"""What parsed arguments describe: arrays, networks, planners, steps, and where to run them."""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from experiments.studies.case import Case, Planned
    from experiments.studies.running.runner import Runner
    from hardware import Array
    from simulator import Execution
    from workloads import Network

MOST_WARNINGS = 10
"""Lines of warnings about one network on the terminal; JSON has them all."""


def array_of(args: argparse.Namespace) -> Array:
    """The array that ``--array`` and ``--set`` describe."""
    from hardware import load_array

    return load_array(args.array or "accpar-mixed", args.set)


def network_of(name: str, transforms: Sequence[str] = (), array: Array | None = None) -> Network:
    """The network of that name or path, transformed; what was not understood goes to stderr.

    Its attention is that of the array's software, where that has one and no other is asked for.
    """
    from experiments.output import warn
    from workloads import load_network
    from workloads.attention import attention_cores
    from workloads.transforms import transformed

    network = load_network(name)
    form = array.stack.attention if array and array.stack else None
    if form and attention_cores(network) and not any(t.startswith("attention") for t in transforms):
        transforms = [f"attention={form}", *transforms]
    network = transformed(network, transforms)
    for note in network.notes[:MOST_WARNINGS]:
        warn(f"{network.name}: {note}")
    if more := len(network.notes[MOST_WARNINGS:]):
        warn(f"{network.name}: and {more} more")
    return network


def networks_of(args: argparse.Namespace) -> list[Network]:
    """The networks a comparison is asked for."""
    from workloads import ZOO

    chosen = names(args.networks, list(ZOO), "networks")
    array = array_of(args)
    return [network_of(name, args.transform, array) for name in chosen]


def planners_of(args: argparse.Namespace) -> list[str]:
    """The planners a comparison is asked for, each of them known; "all" are built in."""
    from planners import AXES, PLANNERS

    known = [*PLANNERS, *([AXES] if args.parallel else [])]
    chosen = names(args.planners, known, "planners")
    _check_axes(args, chosen)
    return chosen


def _check_axes(args: argparse.Namespace, planners: Sequence[str | Planned]) -> None:
    """Raise for a planner that is not known, and for axes that none of them reads."""
    from experiments.studies.options import check_axes
    from planners import load_planner

    for planner in planners:
        load_planner(planner)
    check_axes(planners, [name for name, value in vars(args).items() if value is not None])


def execution_of(args: argparse.Namespace, array: Array | None = None) -> Execution:
    """The execution model that the arguments describe, or else the one that their array is for.

    Raises UsageError for options that it has not.
    """
    from dataclasses import replace

    from experiments.output import UsageError
    from experiments.studies.options import DEPLOYED_OPTIONS, MODEL_OPTIONS, with_options
    from simulator import PUBLISHED, deployed

    array = array or array_of(args)
    model = args.execution or array.model
    said_of = {name: getattr(args, name, None) for name in MODEL_OPTIONS}
    options = {name: value for name, value in said_of.items() if value is not None}
    if model == "published":
        said = "" if args.execution else f", which {array.name} is for; add --execution deployed"
        given = [name for name in options if name in DEPLOYED_OPTIONS]
        for name in (*given, *(["strict_memory"] if args.strict_memory else [])):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} has no meaning under --execution published{said}")
        return with_options(PUBLISHED, options)
    return replace(with_options(deployed(array), options), strict_memory=bool(args.strict_memory))


def planner_of(args: argparse.Namespace) -> str | Planned:
    """What ``--planner``, ``--parallel`` or ``--plan`` (a file) asks for; PlanError."""
    from experiments.studies.case import Planned
    from planners import AXES, Plan

    chosen: str | Planned = str(args.planner or AXES)
    if args.plan is not None:
        plan = Plan.read(args.plan)
        chosen = Planned(plan.planner, plan)
    _check_axes(args, [chosen])
    return chosen


def case_of(args: argparse.Namespace, planner: str | Planned | None = None) -> Case:
    """The step that the arguments describe, under ``planner`` where they name none."""
    from experiments.studies.case import Case

    chosen = planner or planner_of(args)
    array = array_of(args)
    network = network_of(args.network, args.transform, array)
    return Case(
        network,
        chosen,
        array,
        args.batch,
        args.objective,
        args.communication,
        execution_of(args, array),
        not getattr(args, "unfolded", False),
    )


@contextmanager
def runner_of(args: argparse.Namespace) -> Iterator[Runner]:
    """Where the arguments want cases run and kept; the store is open meanwhile.

    What is said before the work is in ``args.forewarned`` then.
    """
    from contextlib import nullcontext

    from experiments.studies.running.runner import Runner
    from experiments.studies.running.store import Store

    check_runner(args)
    args.forewarned = []
    with nullcontext() if args.store is None else Store(args.store) as store:
        yield Runner(store, args.jobs, args.cluster, partial(_forewarn, args.forewarned))


def forewarn(*cases: Case) -> list[str]:
    """Say before the work what will take long or much memory; what was said."""
    from experiments.studies.running.estimate import forewarning

    told: list[str] = []
    if said := forewarning(cases):
        _forewarn(told, said)
    return told


def _forewarn(told: list[str], said: str) -> None:
    from experiments.output import warn

    warn(said)
    told.append(said)


def check_runner(args: argparse.Namespace) -> None:
    """Raise UsageError for a number of processes that makes no sense."""
    from experiments.studies.running.runner import Runner

    Runner(jobs=args.jobs)


def names(text: str, known: list[str], what: str) -> list[str]:
    """A comma-separated list, or ``all``; order kept, repetitions dropped."""
    from experiments.output import UsageError

    parts = [name.strip() for name in text.split(",") if name.strip()]
    chosen = list(dict.fromkeys(n for p in parts for n in (known if p == "all" else [p])))
    if not chosen:
        raise UsageError(f"--{what} {text!r}: name at least one of {', '.join(known)}, or all")
    return chosen
