"""Flags of commands, made from the table of options, and the file of ``--config``."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, NoReturn

from experiments.hints import remedy
from experiments.options import ALIASES, OPTIONS, SPEC_KEYS, SPEC_TABLES, TITLES, Option, leaves
from experiments.output import UsageError
from experiments.results.formats import FORMATS
from hardware.reader import hint, one_of_these, parse_toml, read_text
from workloads.importers.transformer_file import KIND

MODEL = ("model.attention", "model.transform")
ARRAY = ("array", "set", "precision", "optimizer", "stack", "price")
PLANNER = ("planner.name", "plan")
AXES = (
    *("parallel", "zero", "micro_batch", "planner.axis_order", "stages.hw", "stages.layers"),
    *("recompute", "pipeline.schedule"),
)
AIM = ("planner.objective", "planner.communication")
PIPELINE = tuple(key for key in OPTIONS if key.startswith("pipeline."))
EXECUTION = (
    *("model.mode", "recompute", "memory_reserve", *PIPELINE),
    *(key for key in OPTIONS if key.startswith("execution.") and key != "execution.unfolded"),
)
STEP = ("batch", *MODEL, *ARRAY, *AXES, *AIM, *EXECUTION, "max_memory")
RUN = tuple(key for key in OPTIONS if key.startswith(("run.", "simulate.", "goodput.")))
RUNNER = ("store", "jobs", "cluster", "max_memory")
SPLIT_BY = ("planner", "plan", "parallel")
"""Flags that each say how a step is split: what is typed replaces what a file says."""


class Parser(argparse.ArgumentParser):
    """Knows the keys of its flags, and says a mistake in one line."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options |= {"allow_abbrev": False}  # --micro-batch is another flag than --micro-batches
        super().__init__(*args, **options)
        self.keys: dict[str, str] = {}
        self.titles: dict[str, argparse._ArgumentGroup] = {}
        self._positionals.title, self._optionals.title = "arguments", "help"

    @property
    def command(self) -> str:
        """Its name, as "simulate"."""
        return self.prog.partition(" ")[2].removeprefix("papers ")

    def add(self, *wanted: str | Option, hide: Iterable[str] = ()) -> None:
        """Add options by their keys, or as they are; no help shows those of ``hide``."""
        hidden = {*hide}
        for one in wanted:
            option = OPTIONS[one] if isinstance(one, str) else one
            if option.key in self.keys:
                continue
            title = TITLES[option.key]
            if title not in self.titles:
                self.titles[title] = self.add_argument_group(title)
            how = _how(option)
            if option.values:
                how["metavar"] = option.values
            shown = option.shown and option.key not in hidden
            about = option.help if shown else argparse.SUPPRESS
            self.titles[title].add_argument(
                f"--{option.name}", help=about, required=option.required, **how
            )
            self.keys[option.key] = option.name
            if option.key == "config":
                self.add_argument("--study", dest="config", help=argparse.SUPPRESS)

    def add_network(self, *, optional: bool = False) -> None:
        """The network that a command is about; without it, ``model.name`` of a file."""
        self.add_argument(
            "network",
            nargs="?",
            metavar="NETWORK",
            help="name (list networks), or an .onnx, .toml, config.json or layer file",
        )
        self.set_defaults(needs_network=not optional)
        self.keys["model.name"] = "network"

    def add_output(
        self, *further: str, endings: Sequence[str] = (), hide: Iterable[str] = ()
    ) -> None:
        """``--config``, ``--format`` and ``--output`` (see ``formats.settle``).

        ``endings`` of files that the command writes by itself are no formats.
        """
        formats = (*FORMATS, *further)
        self.add("config", changed("format", values="|".join(formats)), "output", hide=hide)
        self.set_defaults(formats=formats, endings=endings)

    def typed(self) -> str:
        """The words that it needs: positional ones and required flags."""
        words = [_called(one) for one in self._actions if not one.option_strings]
        needed = [one for one in self._actions if one.option_strings and one.required]
        return " ".join([*words, *(f"{_called(one)} {one.metavar}" for one in needed)])

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, then where help is; exit with code 2."""
        self.exit(2, f"accelarray: error: {self._plain(message)}\nSee: {self.prog} --help\n")

    def _plain(self, message: str) -> str:
        """An error of argparse in our words: flag, value, remedy."""
        if found := re.match(r"the following arguments are required: (.*)", message):
            lacking = [one for one in self._actions if _called(one) in found[1].split(", ")]
            return f"{self.command} needs " + " and ".join(map(_described, lacking))
        found = re.match(r"argument ([^:]+): (.*)", message, re.DOTALL)
        if found is None:
            return message
        name, fault = found[1].split("/")[-1].split(", ")[0], found[2]
        action = next(
            (one for one in self._actions if name in [*one.option_strings, _called(one)]), None
        )
        if typed := re.match(r"invalid (int|float|_count) value: '(.*)'", fault, re.DOTALL):
            must = {"int": "a whole number", "_count": "a number, as 300B, 15T or 1.5e12"}
            return f"{name} {typed[2]}: must be {must.get(typed[1], 'a number')}"
        typed = re.match(r"invalid choice: '(.*)' \(choose", fault, re.DOTALL)
        if typed and action is not None and action.choices is not None:
            return f"{name} {typed[1]}: {_nearest(typed[1], [*action.choices])}"
        if fault.startswith("expected ") and action is not None:
            return f"{name} needs a value: {_described(action)}"
        return f"{name}: {fault}"


def _nearest(word: str, choices: Sequence[str]) -> str:
    """Which choice was meant; of two both."""
    return hint(word, choices) if len(choices) > 2 else one_of_these(choices)


def _called(action: argparse.Action) -> str:
    if action.option_strings:
        return action.option_strings[-1]
    return str(action.metavar or action.dest)


def _described(action: argparse.Action) -> str:
    """A flag with its value, and what it means."""
    metavar = f" {action.metavar}" if action.option_strings and action.metavar else ""
    shown = action.help not in (None, argparse.SUPPRESS)
    about = f" ({str(action.help).replace('%%', '%')})" if shown else ""
    return f"{_called(action)}{metavar}{about}"


class _Change(argparse.Action):
    """Notes an option, and that a spec is changed by it."""

    def __call__(self, _: object, namespace: argparse.Namespace, values: Any, *__: object) -> None:
        setattr(namespace, self.dest, values)
        namespace.set = [*namespace.set, f"{self.dest}={values}"]


def _count(text: str) -> float:
    """A large number, as 15T, 300B, 1.5e12."""
    times = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(text[-1:].upper())
    many = float(text[:-1]) * times if times else float(text)
    return int(many) if many.is_integer() else many


def _how(option: Option) -> dict[str, Any]:
    """What argparse needs to know of an option's values."""
    many: dict[str, Any] = {"action": "append", "default": []}
    kinds: dict[str, dict[str, Any]] = {
        "int": {"type": int},
        "float": {"type": float},
        "count": {"type": _count},
        "switch": {"action": "store_true"},
        "yes": {"action": "store_const", "const": "yes"},
        "many": many if not option.required else {"action": "append"},
        "spec": {"action": _Change},
        "attention": {**many, "dest": "transform", "type": "attention={}".format},
        "files": {"nargs": "+"},
    }
    return {"default": option.value} | kinds.get(option.kind, {"choices": option.choices})


def changed(key: str, **changes: Any) -> Option:
    """An option with another default, or other values, for one command."""
    return replace(OPTIONS[key], **changes)


class Config:
    """Options in a file, or in ``--set``, as words that a command's parser takes."""

    def __init__(self, path: str, parser: Parser) -> None:
        """Read and check the file; raises UsageError."""
        self.parser = parser
        self.flags = {
            option.removeprefix("--"): action
            for action in parser._actions
            for option in action.option_strings
            if option.startswith("--") and option not in ("--help", "--study", "--config")
        }
        self.names = {flag.replace("-", "_"): flag for flag in reversed(self.flags)}
        self.names |= {key: flag for key, flag in parser.keys.items() if flag in self.flags}
        self.network: str | None = None
        self.path = path
        text = read_text(path, UsageError, "a file of options") if path else ""
        self.words = list(self._all(parse_toml(text, path, UsageError)))

    def _all(self, table: Mapping[str, Any]) -> Iterator[str]:
        for key, value in table.items():
            many = isinstance(self.flags.get(self.flag_of(key) or ""), _MANY)
            if key == KIND and isinstance(value, dict):
                self.network = ":".join([KIND, *self._sizes(value)])
            elif isinstance(value, dict) and not many:
                for path, leaf in leaves(value, f"{key}."):
                    yield from self._one(path, leaf)
            else:
                yield from self._one(key, value)

    def _sizes(self, table: Mapping[str, Any]) -> Iterator[str]:
        """A transformer's sizes, as they stand behind a network's name."""
        for key, value in table.items():
            text = str(value).lower() if isinstance(value, bool) else self._text(key, value)
            yield f"{key}={text.replace(':', '-')}"

    def _one(self, key: str, value: Any) -> Iterator[str]:
        """A key and its value: of the network, an option, or the array's spec."""
        if key in ("network", "model.name") and "model.name" in self.parser.keys:
            self.network = self._text(key, value)
        elif (flag := self.flag_of(key)) is not None:
            yield from self.words_of(key, flag, value)
        elif "set" in self.flags and (key.partition(".")[0] in SPEC_TABLES or key in SPEC_KEYS):
            yield f"--set={key}={self._assigned(key, 'set', value)}"
        else:
            raise self._error(key, self.unknown(key))

    def flag_of(self, key: str) -> str | None:
        """The flag of a key, or of a flag's name; None where the command has none."""
        return self.names.get(key.replace("-", "_"))

    def unknown(self, key: str) -> str:
        """What to say of a key that is no option of this command."""
        plain = key.replace("-", "_")
        if plain in OPTIONS or plain in ALIASES:
            return f"accelarray {self.parser.command} does not read this option; remove the line"
        known = [*(name for name in self.names if name in OPTIONS), *self.flags]
        if near := get_close_matches(plain, known, n=1):
            return f"no such option; did you mean {near[0]}?"
        return "no such option; accelarray list options shows all of them"

    def words_of(self, key: str, flag: str, value: Any) -> Iterator[str]:
        """A flag's words for a value, as they would be typed."""
        action = self.flags[flag]
        if action.nargs == 0:
            if isinstance(value, str) and value in ("true", "false", "yes", "no"):
                value = value in ("true", "yes")
            if not isinstance(value, bool):
                raise self._error(key, f"{value!r}: must be true or false")
            yield from [f"--{flag}"] if value else []
        elif isinstance(action, _MANY) and not isinstance(value, str):
            for text in self._assignments(key, flag, value):
                yield f"--{flag}={text}"
        else:
            yield f"--{flag}={self._checked(key, action, self._text(key, value))}"

    def _checked(self, key: str, action: argparse.Action, text: str) -> str:
        if action.choices is not None and text not in action.choices:
            raise self._error(key, f"{text!r}: {_nearest(text, [*action.choices])}")
        try:
            if action.type in (int, float):
                action.type(text)
        except ValueError:
            must = "a whole number" if action.type is int else "a number"
            raise self._error(key, f"{text!r}: must be {must}") from None
        return text

    def _text(self, key: str, value: Any) -> str:
        """What would be typed for it: a list goes between commas."""
        if isinstance(value, list) and value:
            return ",".join(self._text(key, item) for item in value)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
        raise self._error(key, f"{value!r}: write a text, a number or a list of them")

    def _assignments(self, key: str, flag: str, value: Any) -> Iterator[str]:
        """``KEY=VALUE`` of a table, or as they are typed."""
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            yield from value
        elif isinstance(value, dict):
            for path, leaf in leaves(value):
                yield f"{path}={self._assigned(f'{key}.{path}', flag, leaf)}"
        else:
            raise self._error(key, 'write a table, as [vary], or a list of "KEY=VALUE"')

    def _assigned(self, path: str, flag: str, value: Any) -> str:
        if isinstance(value, bool) or (isinstance(value, list) and flag == "set"):
            try:
                return json.dumps(value)  # TOML has these as JSON has them
            except TypeError:
                raise self._error(path, f"{value!r}: write texts and numbers") from None
        return self._text(path, value)

    def _error(self, key: str, fault: str) -> Exception:
        where = f"{self.path}: {key}" if self.path else f"--set {key}"
        return UsageError(f"{where}: {fault}")


_MANY = argparse._AppendAction


def parsed(
    parser: Parser, typed: list[str], commands_with: Callable[[str], list[str]]
) -> argparse.Namespace:
    """A command's arguments, with those of ``--config`` and of ``--set``; raises UsageError.

    What is typed wins over the file; a flag and ``--set`` do not say the same twice.
    """
    if said := remedy(typed, parser._option_string_actions, parser.command):
        raise UsageError(said)
    *_, path = "", *_values(typed, "--config", "--study")
    file = Config(path if "config" in parser.keys else "", parser)
    options = [text for text in _values([*file.words, *typed], "--set") if _is_option(text, file)]
    ours, chosen = Config("", parser), list[str]()
    for text in options:
        key, _, value = text.partition("=")
        chosen += ours.words_of(key.strip(), str(file.flag_of(key.strip())), value.strip())
    args, further = parser.parse_known_args([*_kept([*file.words, *chosen], typed), *typed])
    if further:
        raise UsageError(unknown_flag(parser, further[0], commands_with))
    _check_once(typed, file)
    if options:
        args.set = [text for text in args.set if text not in options]
    _settle(args, file, typed)
    if getattr(args, "needs_network", False) and args.network is None:
        raise UsageError(
            f"{parser.command} needs a network, as accelarray {parser.command} resnet50 "
            "(accelarray list networks)"
        )
    return args


def _values(words: Sequence[str], *flags: str) -> Iterator[str]:
    """What some flags are given, in the order of the words; another flag is no value."""
    for word, following in pairwise([*words, ""]):
        flag, equals, value = word.partition("=")
        if flag in flags and (equals or following[:1] != "-" or following == "-"):
            yield value if equals else following


def _check_once(typed: Sequence[str], file: Config) -> None:
    """Raise UsageError where a flag and ``--set`` say the same, both typed."""
    flags = {word.partition("=")[0] for word in typed if word[:2] == "--"}
    for text in _values(typed, "--set"):
        flag = file.flag_of(_key(text))
        many = flag is not None and isinstance(file.flags[flag], _MANY)
        if f"--{flag}" in flags and not many:
            raise UsageError(f"--set {text}: --{flag} says it too; leave one of them out")


def _is_option(text: str, file: Config) -> bool:
    """Whether a ``--set`` is of an option, not of a key of the array's spec."""
    key = text.partition("=")[0].strip()
    return "=" in text and key not in SPEC_KEYS and file.flag_of(key) is not None


def _kept(words: list[str], typed: Sequence[str]) -> list[str]:
    """Words of a file without its planner where another one is typed."""
    flags = {word.partition("=")[0].removeprefix("--") for word in typed if word[:2] == "--"}
    if not flags.intersection(SPLIT_BY):
        return words
    return [word for word in words if word.partition("=")[0].removeprefix("--") not in SPLIT_BY]


def _settle(args: argparse.Namespace, file: Config, typed: Sequence[str]) -> None:
    """Of flags that may come several times, leave out the file's where one is typed.

    Of KEY=VALUE flags those of the same key.
    """
    if "network" in vars(args) and args.network is None and file.network is not None:
        args.network = file.network
    counts: dict[str, int] = {}
    for word in _kept(file.words, typed):
        action = file.flags[word.removeprefix("--").partition("=")[0]]
        dest = "set" if isinstance(action, _Change) else action.dest
        if isinstance(action, _Change | _MANY):
            counts[dest] = counts.get(dest, 0) + 1
    for dest, count in counts.items():
        texts = getattr(args, dest)
        keys = {_key(text) for text in texts[count:]}
        kept = [
            text for text in texts[:count] if not keys or ("=" in text and _key(text) not in keys)
        ]
        setattr(args, dest, kept + texts[count:])


def _key(text: str) -> str:
    return text.partition("=")[0].strip()


def unknown_flag(parser: Parser, word: str, commands_with: Callable[[str], list[str]]) -> str:
    """What to say of a word that a command does not take."""
    name = word.partition("=")[0]
    flags = [one for one in parser._actions if one.option_strings]
    if not name.startswith("-"):
        return f"{parser.command} takes no further word {word!r}; flags begin with --"
    if others := commands_with(name):
        have = "have" if len(others) > 1 else "has"
        return f"{parser.command} has no flag {name}; {', '.join(others)} {have} it"
    listed = [one.option_strings[-1] for one in flags if one.help != argparse.SUPPRESS]
    every = [one.option_strings[-1] for one in flags]
    near = get_close_matches(name, listed, n=1) or get_close_matches(name, every, n=1)
    said = f"did you mean {near[0]}?" if near else "accelarray list options shows all of them"
    return f"{parser.command} has no flag {name}; {said}"
