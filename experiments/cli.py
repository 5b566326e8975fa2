"""The command ``accelarray``: parse, dispatch, and turn users' errors into one message."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

from experiments.commands.arguments import Parser, parsed
from experiments.commands.examples import epilog
from experiments.encodings import legible, write_anywhere
from experiments.ending import stoppable
from experiments.hints import as_typed, with_near_option
from experiments.notices import tell, warnings_on_stderr
from experiments.options import GROUPS, OWN
from experiments.output import UsageError
from experiments.results.formats import settle
from experiments.version import version
from hardware.reader import hint

DAILY = {
    "one training step": {
        "simulate": ("steps", "time, memory and communication of a step"),
        "plan": ("plan", "how a planner splits a network over the array"),
        "explain": ("steps", "why a step takes as long as it does, and what helps"),
        "timeline": ("steps", "what each device and link does when, as a file"),
    },
    "many steps": {
        "fit": ("studies", "the axes of parallelism that fit in memory, fastest first"),
        "sweep": ("studies", "a grid over values of the array, the batch, the plan"),
    },
    "hardware": {
        "collective": ("steps", "time of one collective on an array"),
        "design": ("design", "search for the compute units of a chip"),
    },
    "catalog": {
        "list": ("catalog", "networks, planners, methods, arrays, devices, stacks, options"),
        "show": ("catalog", "a network, a device, an array or a stack in full"),
    },
}
"""Commands of daily use, as ``--help`` groups them: the module of ``experiments.commands`` that has
``configure_NAME``, which adds arguments, and ``run_NAME``; and a line about it."""
PAPERS = {
    "speedup": ("studies", "speedups of planners over data parallelism"),
    "compare": ("steps", "two planners' steps, and where they differ"),
    "train": ("train", "training methods with slow workers, such as Prague and Hop"),
    "pipedream": ("plan", "stages from a PipeDream, max-load or Phaze profile"),
    "reproduce": ("reproduce", "the figures of a paper, ours beside theirs"),
    "report": ("studies", "one HTML page: speedups, plans, a timeline, sources"),
    "results": ("catalog", "list, export or delete results of a --store file"),
    "validate": ("validate", "predictions beside measured machines"),
    "calibrate": ("validate", "fit a software stack to measured steps"),
}
"""Commands of studies of papers: ``accelarray papers NAME``, and ``accelarray NAME`` too."""
FILES = {"read": ("read", "what another tool's file says, as a file for --config")}
"""Further commands, which ``--help`` names in a line of their own."""
COMMANDS = {name: one for group in DAILY.values() for name, one in group.items()} | FILES | PAPERS


WHERE = ("--jobs", "--cluster", "--max-memory")
"""Flags that say where a command is computed, not what."""


def whole() -> Parser:
    """The command line as a whole: what ``--help`` without a command shows."""
    top = Parser(
        prog="accelarray",
        usage="accelarray COMMAND ...",
        description="How long does one training step take on an array of accelerators, and why?",
        epilog=_listed(DAILY)
        + "\n\nFiles of other tools: accelarray read FILE\nStudies of papers: accelarray papers",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="store_true", help="print the version")
    return top


def parser_of(name: str) -> Parser:
    """A command's; its module is loaded."""
    home = import_module(f"experiments.commands.{COMMANDS[name][0]}")
    one = Parser(prog=f"accelarray {'papers ' * (name in PAPERS)}{name}")
    one.set_defaults(run=getattr(home, f"run_{name}"))
    getattr(home, f"configure_{name}")(one)
    _finish(name, one)
    return one


def _finish(name: str, one: Parser) -> None:
    """A command's usage, description and examples."""
    about = COMMANDS[name][1]
    one.description = about[0].upper() + about[1:] + "."
    one.usage = f"{one.prog} {one.typed()} [flags]"
    order = [one._positionals.title, OWN, *GROUPS, one._optionals.title]
    one._action_groups.sort(key=lambda group: order.index(group.title))
    one.formatter_class = argparse.RawDescriptionHelpFormatter  # examples keep their lines
    ways = " and ".join(f"--{way}" for way in ("set", "config") if way in one.keys)
    further = f"More flags and options, for {ways}: accelarray list options"
    parts = [one.epilog, further if "config" in one.keys else "", epilog(name)]
    one.epilog = "\n\n".join(filter(None, parts))


def _listed(groups: Mapping[str, Mapping[str, tuple[str, str]]]) -> str:
    """Names of commands, and a line about each."""
    parts = []
    for title, commands in groups.items():
        lines = [f"  {name:<12}{about}" for name, (_, about) in commands.items()]
        parts.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join(parts)


WITH_COST = ("simulate", "fit")
"""Commands whose results have a cost."""


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments, with those of a file of options where one is named; raises UsageError."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["papers"]:
        words = words[1:]
        if not words or words[0] in ("-h", "--help"):
            print("usage: accelarray papers COMMAND ...\n")
            print("Studies of papers and of measured machines.\n")
            print(_listed({"commands": PAPERS}))
            print("\nFlags of a command: accelarray papers COMMAND --help")
            raise SystemExit(0)
        if words[0] not in PAPERS:
            raise unknown_command(words[0], PAPERS, "papers ")
    if words[:1] == ["--version"]:
        print(f"accelarray {version()}")
        raise SystemExit(0)
    if not words or words[0] not in COMMANDS:
        if not words:
            whole().error("name a command, as accelarray simulate (COMMAND: accelarray --help)")
        if words[0][:1] != "-":
            raise unknown_command(words[0], COMMANDS)
        if words[0] not in ("-h", "--help"):
            whole().error(f"{words[0]}: name a command first, as accelarray simulate --help")
        return whole().parse_args(words)
    args = parsed(parser_of(words[0]), words[1:], commands_with)
    settle(args)
    if getattr(args, "price", None) is not None and words[0] not in WITH_COST:
        shown = " and ".join(WITH_COST)
        tell(f"--price has no effect here: {shown} show a cost, {words[0]} shows none.")
    return args


def commands_with(flag: str) -> list[str]:
    """The commands that have a flag."""
    return [name for name in COMMANDS if flag in parser_of(name)._option_string_actions]


def unknown_command(word: str, known: Mapping[str, object], group: str = "") -> Exception:
    """What to say of a word that is no command."""
    return UsageError(f"unknown command {f'{group}{word}'!r}; {hint(word, known)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0, 2 for the user's errors, 130 when interrupted, 143 when terminated."""
    write_anywhere()
    with stoppable() as came, warnings_on_stderr():
        code = _run(argv, came)
    return 143 if signal.SIGTERM in came else code


def _run(argv: Sequence[str] | None, came: Sequence[int]) -> int:
    args = None
    try:
        args = parse(argv)
        args.typed = typed_again(sys.argv[1:] if argv is None else argv)
        code: int = args.run(args) or 0
        return code
    except KeyboardInterrupt:
        return _interrupted(getattr(args, "store", None))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if came:  # Python makes a SyntaxError of an interruption while it compiles "\N{...}"
            return _interrupted(getattr(args, "store", None))
        if not _users_fault(error):
            raise
        fault = as_typed(with_near_option(str(error)), vars(args) if args else {})
        print(f"accelarray: error: {legible(fault)}", file=sys.stderr)
        return 2


def typed_again(words: Sequence[str]) -> str:
    """A command as it was typed, without where it is computed (``WHERE``): so a page names it."""
    kept, rest = ["accelarray"], iter(words)
    for word in rest:
        flag, equals, _ = word.partition("=")
        if flag not in WHERE:
            kept.append(word)
        elif not equals:
            next(rest, None)
    return shlex.join(kept)


def _interrupted(store: str | None) -> int:
    kept = (
        f"; what is finished is in {legible(store)}, and the same command goes on" if store else ""
    )
    print(f"accelarray: interrupted{kept}", file=sys.stderr)
    return 130


def _users_fault(error: Exception) -> bool:
    from hardware import SpecError
    from planners import PlanError
    from simulator import CollectiveError, SimulationError
    from workloads import NetworkError

    ours = UsageError | SpecError | PlanError | NetworkError | SimulationError | CollectiveError
    return isinstance(error, ours)


if __name__ == "__main__":
    sys.exit(main())
