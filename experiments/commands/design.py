"""``accelarray design``: which units a core should have for these networks, area and power."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from math import isfinite
from time import perf_counter
from typing import Any

from experiments.commands.arguments import add_output, add_stages, add_transform
from experiments.commands.resolve import execution_of
from experiments.design.judge import Limits
from experiments.design.keeping import StoredEvaluations
from experiments.design.runs import device_of, fields_of
from experiments.design.shown import rows, tables, to_dict
from experiments.design.space import load_space
from experiments.design.spec import specs_of
from experiments.design.study import MOST_DESIGNS, Asked, Found, budget_of, run_search, study
from experiments.face.inputs import network_of
from experiments.output import UsageError, deliver, progress_bar
from experiments.pictures.plots import pareto
from experiments.results.result import Answer, check_outputs, show
from experiments.studies.case import Case
from experiments.studies.running.estimate import forewarn
from experiments.studies.running.store import Store
from hardware import load_array
from planners import load_planner

AIMS = ("throughput", "throughput-per-watt", "throughput-per-mm2")
SEARCHES = ("wham", "random", "exhaustive")


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("design")
    parser.add_argument("networks", metavar="NETWORK", nargs="+", help="one design for all of them")
    parser.add_argument(
        "--array", metavar="A", default="wham-1", help="whose cores are designed (wham-1)"
    )
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[])
    parser.add_argument("--batch", metavar="N", type=int, default=64, help="samples a step (64)")
    parser.add_argument("--planner", metavar="P", default="data_parallel", help="on several cores")
    parser.add_argument("--mode", choices=("training", "inference"), help="(training)")
    add_transform(parser)
    parser.add_argument("--area", metavar="MM2", help="of a chip at most (as the base design)")
    parser.add_argument("--power", metavar="W", help="of a chip at most (as the base design)")
    parser.add_argument("--objective", choices=AIMS, default="throughput")
    parser.add_argument("--space", metavar="FILE", default="wham", help="or wham, small (wham)")
    parser.add_argument("--top", metavar="K", default="3", help="kept of each search (3)")
    parser.add_argument("--each", action="store_true", help="a design for each network by itself")
    parser.add_argument("--search", choices=SEARCHES, default="wham")
    parser.add_argument("--budget", metavar="N", help="designs evaluated at most by each search")
    parser.add_argument("--seed", metavar="N", default="0", help="of the random search (0)")
    parser.add_argument(
        "--baselines", action="store_true", help="random and exhaustive search, same budget"
    )
    parser.add_argument("--store", metavar="FILE", help="keep evaluations, make only missing ones")
    parser.add_argument("--plot", metavar="FILE", help="throughput against area (png, svg, pdf)")
    parser.add_argument("--device", metavar="FILE", help="write the winner's spec (.toml)")
    add_stages(parser)
    add_output(parser)
    deployed = {"overlap", "shards", "bucket", "update_order", "algorithm", "execution", "update"}
    parser.set_defaults(run=run, strict_memory=False, **dict.fromkeys(deployed))


def run(args: argparse.Namespace) -> int:
    """Search, run the best on the engine, deliver."""
    if args.device and not args.device.endswith(".toml"):
        raise UsageError(f"--device {args.device!r}: the name must end in .toml")
    if args.each and (args.plot or args.device) and len(args.networks) > 1:
        raise UsageError("--each makes several designs; --plot and --device are for one")
    check_outputs(args, args.device)
    cases = _cases(args)
    told = forewarn(cases)
    groups = [[case] for case in cases] if args.each else [cases]
    results = []
    with nullcontext() if args.store is None else Store(args.store) as store:
        for group in groups:
            asked = _asked(args, group)
            found = _searched(args, asked, store)
            results.append((asked, found, _baselines(args, asked, found)))
    data = [to_dict(args, *result) for result in results]
    output: dict[str, Any] = data[0] if len(data) == 1 else {"designs": data}
    output["warnings"] = [*told, *(note for case in cases for note in case.network.notes)]
    asked, found, _ = results[0]
    answer = Answer(
        output,
        lambda: [row for one in data for row in rows(one)],
        lambda: [part for one in data for part in tables(one)],
        picture=partial(_picture, asked, found),
    )
    show(args, answer)
    if args.device:
        names = [case.network.name for case in asked.cases]
        places = found.places
        files = specs_of(args.device, cases[0].array, asked.space, found.winner, names, places)
        for path, text in files.items():
            deliver(text, path)
    return 0


def _cases(args: argparse.Namespace) -> list[Case]:
    load_planner(args.planner)
    array = load_array(args.array, args.set)
    args.execution = "deployed"
    execution = execution_of(args, array)
    if args.batch < 1:
        raise UsageError(f"--batch {args.batch}: at least one sample")
    names = list(dict.fromkeys(args.networks))
    return [
        Case(
            network_of(name, args.transform, array),
            args.planner,
            array,
            args.batch,
            execution=execution,
        )
        for name in names
    ]


def _asked(args: argparse.Namespace, cases: Sequence[Case]) -> Asked:
    device = device_of(cases[0].array)
    units = device.units
    if units is None:  # device_of has looked
        raise AssertionError
    reached = device.roofline.memory_efficiency * device.hbm_bytes_per_s
    free = Limits(float("inf"), float("inf"), device.cores_per_chip, reached)
    limits = free._replace(
        area_mm2=_positive(args.area, "--area") or free.area(units),
        power_w=_positive(args.power, "--power") or free.power(units),
    )
    return Asked(
        tuple(cases),
        load_space(args.space),
        limits,
        args.objective,
        args.search,
        None if args.budget is None else _whole(args.budget, "--budget"),
        _whole(args.seed, "--seed", least=0),
        _whole(args.top, "--top"),
    )


def _positive(text: str | None, option: str) -> float | None:
    """A number above zero; raises UsageError."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not isfinite(value) or value <= 0:
        raise UsageError(f"{option} {text}: must be a number above zero")
    return value


def _whole(text: str, option: str, least: int = 1) -> int:
    if text.isascii() and text.isdigit() and len(text) < 9 and int(text) >= least:
        return int(text)
    raise UsageError(f"{option} {text}: must be a whole number from {least} on")


def _searched(args: argparse.Namespace, asked: Asked, store: Store | None) -> Found:
    """A study with a progress bar, its evaluations kept."""
    kept: list[StoredEvaluations] = []

    def kept_for(of: str) -> StoredEvaluations | None:
        if store is not None:
            kept.append(StoredEvaluations(store, of))
        return kept[-1] if store is not None else None

    total = budget_of(asked) if args.search != "wham" else None
    try:
        with progress_bar(total) as progress:
            return study(asked, kept_for=kept_for, progress=progress)
    finally:
        for one in kept:
            one.flush()


def _baselines(args: argparse.Namespace, asked: Asked, found: Found) -> list[dict[str, Any]]:
    """Random search with as many evaluations, exhaustive with as many or all of a small space."""
    if not args.baselines:
        return []
    ours, rows = found.judge, []
    small = len(asked.space) <= MOST_DESIGNS
    for search in ("random", "exhaustive"):
        budget = None if small and search == "exhaustive" else ours.evaluations
        with progress_bar(budget) as progress:
            judge = ours.fresh(progress)
            started = perf_counter()
            run_search(judge, search, budget, asked.seed)
        best = judge.top(1)[0]
        rows.append(
            {
                "search": search,
                "evaluations": judge.evaluations,
                "whole_space": budget is None,
                "search_s": perf_counter() - started,
                "estimated_value": best.value,
                "design": str(best.design),
            }
        )
    return rows


def _picture(asked: Asked, found: Found) -> Any:
    points = [(score.area_mm2, score.value) for score in found.evaluated]
    winner = fields_of(found.winner, asked.cases)
    names = ", ".join(case.network.name for case in asked.cases)
    title = f"{names}: {len(points):,} designs by estimate"
    base = (found.base.area_mm2, 1.0)
    place = winner["area_mm2"], winner["value"]
    return pareto(points, base, place, asked.aim, title)
