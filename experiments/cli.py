"""The command ``accelarray``: parse, dispatch, and turn users' errors into one message."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn

from experiments.commands.examples import epilog
from experiments.encodings import legible, write_anywhere
from experiments.ending import stoppable
from experiments.notices import warnings_on_stderr
from experiments.results.formats import settle

COMMANDS = {
    "speedup": (
        "studies.configure_speedup",
        "speedups of planners over data parallelism, network by network",
    ),
    "plan": ("plan.configure", "show how a planner splits a network"),
    "simulate": ("steps.configure_simulate", "simulate one training step"),
    "timeline": ("steps.configure_timeline", "what every core and link does when, as a file"),
    "train": (
        "train.configure",
        "many workers that train together, by a method that may not wait for all",
    ),
    "compare": (
        "steps.configure_compare",
        "two planners' steps, and where the difference comes from",
    ),
    "explain": (
        "steps.configure_explain",
        "why a step takes as long as it does, and what would help",
    ),
    "sweep": ("studies.configure_sweep", "vary values of the array, the batch, …, in a grid"),
    "results": ("catalog.configure_results", "list, export or prune the results of a store"),
    "report": (
        "studies.configure_report",
        "one self-contained HTML page: speedups, plans, a timeline, sources",
    ),
    "reproduce": (
        "reproduce.configure",
        "a paper's evaluation, figure by figure, ours beside theirs",
    ),
    "validate": (
        "validate.configure_validate",
        "beside measured machines, formulas, another simulator: errors as they are",
    ),
    "calibrate": (
        "validate.configure_calibrate",
        "a software stack's constants from measured steps of one's own",
    ),
    "collective": ("steps.configure_collective", "time of one collective on an array's wires"),
    "design": ("design.configure", "search for the units that a core should have"),
    "fit": (
        "studies.configure_fit",
        "every combination of axes of parallelism that fits, the fastest first",
    ),
    "list": (
        "catalog.configure_catalog",
        "networks, planners, methods, arrays, devices or stacks by name",
    ),
    "show": ("catalog.configure_catalog", "a network, or a resolved spec with its sources"),
}
"""For each command the function that adds it to the parser (a module of ``experiments.commands``
and its name), and a line about it for ``--help``."""


class _Parser(argparse.ArgumentParser):
    """Says what a mistyped command was meant to be."""

    def error(self, message: str) -> NoReturn:
        typed = re.match(r"argument COMMAND: invalid choice: '([^']*)'", message)
        if typed and (near := get_close_matches(typed[1], COMMANDS, n=1)):
            message = f"unknown command {typed[1]!r}; did you mean {near[0]}?"
        super().error(message)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    return _parsers()[0]


def _parsers(typed: str | None = None) -> tuple[_Parser, dict[str, _Parser]]:
    """The whole, and each command's by its name.

    Only the command that is ``typed`` is loaded. For any other word, as ``--help``, the parser
    has the names alone, and a line about each; for None everything.
    """
    top = _Parser(
        prog="accelarray",
        description="How long does one training step take on an array of accelerators, and why?",
    )
    top.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    if typed is not None and typed not in COMMANDS:
        for name, (_, about) in COMMANDS.items():
            commands.add_parser(name, help=about)
        return top, {}
    wanted = [COMMANDS[typed]] if typed else COMMANDS.values()
    for where in dict.fromkeys(where for where, _ in wanted):
        module, _, configure = where.partition(".")
        getattr(import_module(f"experiments.commands.{module}"), configure)(commands)
    for name, one in commands.choices.items():
        one.formatter_class = argparse.RawDescriptionHelpFormatter  # examples keep their lines
        one.epilog = "\n\n".join(filter(None, [one.epilog, epilog(name)]))
    return top, commands.choices


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments, with those of a study's file where one is named; raises UsageError."""
    words = list(sys.argv[1:] if argv is None else argv)
    top, commands = _parsers(words[0] if words else "")
    command = commands.get(words[0]) if words else None
    study = None
    if command is not None and command.get_default("takes_study"):
        from experiments.commands.arguments import study_of

        study = study_of(words, command)
    args = top.parse_args(words)
    if study is not None:
        study.settle(args)
    settle(args)
    return args


class _Version(argparse.Action):
    """Look the version up when it is asked for: the metadata of packages take a while to load."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from experiments.version import version

        print(f"accelarray {version()}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0, 2 for the user's errors, 130 when interrupted, 143 when terminated."""
    write_anywhere()
    with stoppable() as terminated, warnings_on_stderr():
        code = _run(argv)
    return 143 if terminated() else code


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = parse(argv)
        code: int = args.run(args)
        return code
    except KeyboardInterrupt:
        print("accelarray: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if not _users_fault(error):
            raise
        print(f"accelarray: error: {legible(str(error))}", file=sys.stderr)
        return 2


def _users_fault(error: Exception) -> bool:
    from experiments.output import UsageError
    from hardware import SpecError
    from planners import PlanError
    from simulator import CollectiveError, SimulationError
    from workloads import NetworkError

    ours = UsageError | SpecError | PlanError | NetworkError | SimulationError | CollectiveError
    return isinstance(error, ours)


if __name__ == "__main__":
    sys.exit(main())
