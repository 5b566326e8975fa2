"""What parsed arguments describe: arrays, networks, planners, steps, and where to run them."""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from experiments.studies.case import Case
    from experiments.studies.runner import Runner
    from hardware import Array
    from simulator import Execution
    from workloads import Network

MOST_WARNINGS = 10
"""Lines of warnings about one network on the terminal; JSON has them all."""


def array_of(args: argparse.Namespace) -> Array:
    """The array that ``--array`` and ``--set`` describe."""
    from hardware import load_array

    return load_array(args.array or "accpar-mixed", args.set)


def network_of(name: str) -> Network:
    """The network of that name or path; what was not understood of it goes to stderr."""
    from experiments.output import warn
    from workloads import load_network

    network = load_network(name)
    for note in network.notes[:MOST_WARNINGS]:
        warn(f"{network.name}: {note}")
    if more := len(network.notes[MOST_WARNINGS:]):
        warn(f"{network.name}: and {more} more")
    return network


def networks_of(args: argparse.Namespace) -> list[Network]:
    """The networks a comparison is asked for."""
    from workloads import ZOO

    return [network_of(name) for name in names(args.networks, list(ZOO), "networks")]


def planners_of(args: argparse.Namespace) -> list[str]:
    """The planners a comparison is asked for, each of them known."""
    from planners import load_planner, planner_names

    chosen = names(args.planners, planner_names(), "planners")
    for planner in chosen:
        load_planner(planner)
    return chosen


def execution_of(args: argparse.Namespace) -> Execution:
    """The execution model that the arguments describe; raises UsageError."""
    from dataclasses import replace

    from experiments.output import UsageError
    from experiments.studies.model_options import MODEL_OPTIONS, with_options
    from simulator import DEPLOYED, PUBLISHED

    options = {name: value for name in MODEL_OPTIONS if (value := getattr(args, name)) is not None}
    if args.execution == "published":
        for name in (*options, *(["strict-memory"] if args.strict_memory else [])):
            raise UsageError(f"--{name} has no meaning under --execution published")
        return PUBLISHED
    return replace(with_options(DEPLOYED, options), strict_memory=bool(args.strict_memory))


def case_of(args: argparse.Namespace, planner: str | None = None) -> Case:
    """The step that the arguments describe, under ``planner`` where they name none."""
    from experiments.studies.case import Case
    from planners import load_planner

    chosen = planner or args.planner
    load_planner(chosen)
    return Case(
        network_of(args.network),
        chosen,
        array_of(args),
        args.batch,
        args.objective,
        args.communication,
        execution_of(args),
        not getattr(args, "unfolded", False),
    )


@contextmanager
def runner_of(args: argparse.Namespace) -> Iterator[Runner]:
    """Where the arguments want cases run and kept; the store is open meanwhile.

    What is said before the work is in ``args.forewarned`` then.
    """
    from contextlib import nullcontext

    from experiments.studies.runner import Runner
    from experiments.studies.store import Store

    check_runner(args)
    args.forewarned = []
    with nullcontext() if args.store is None else Store(args.store) as store:
        yield Runner(store, args.jobs, args.cluster, partial(_forewarn, args.forewarned))


def forewarn(*cases: Case) -> list[str]:
    """Say before the work what will take long or much memory; what was said."""
    from experiments.studies.estimate import forewarning

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
    from experiments.studies.runner import Runner

    Runner(jobs=args.jobs)


def names(text: str, known: list[str], what: str) -> list[str]:
    """A comma-separated list, or ``all``; order kept, repetitions dropped."""
    from experiments.output import UsageError

    parts = [name.strip() for name in text.split(",") if name.strip()]
    chosen = list(dict.fromkeys(n for p in parts for n in (known if p == "all" else [p])))
    if not chosen:
        raise UsageError(f"--{what} {text!r}: name at least one of {', '.join(known)}, or all")
    return chosen
