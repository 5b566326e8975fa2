"""``--study FILE.toml``: a study's flags in a file, so that it can be kept and run again."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from experiments.output import UsageError
from hardware.reader import hint, parse_toml, read_text

_FLAG = re.compile(r"--stu(?:d|dy)?(?:=(.*))?", re.DOTALL)
"""``--study``, and what argparse takes for it."""


def add_study(parser: argparse.ArgumentParser) -> None:
    """``--study``."""
    parser.add_argument(
        "--study",
        metavar="FILE",
        help="take flags from a TOML file, as networks = [...]; those given beside it win",
    )
    parser.set_defaults(takes_study=True)


class Study:
    """The flags in a file, checked, which become the defaults of a command's parser."""

    def __init__(self, path: str, command: argparse.ArgumentParser) -> None:
        """Read and check the file, and give its values to the parser; raises UsageError."""
        self.path = path
        self.flags = {
            option.removeprefix("--"): action
            for action in command._actions
            for option in action.option_strings
            if option.startswith("--") and option not in ("--help", "--study")
        }
        self.values = {
            self._flag(key).dest: self._value(key, value) for key, value in _read(path).items()
        }

        command.set_defaults(**self.values)
        for action in self.flags.values():
            action.required = action.required and action.dest not in self.values

    def settle(self, args: argparse.Namespace) -> None:
        """Of KEY=VALUE flags, leave out the file's where the command line has the same key."""
        for dest, ours in self.values.items():
            if isinstance(ours, list):
                typed = getattr(args, dest)[len(ours) :]
                keys = {_key(text) for text in typed}
                kept = [text for text in ours if _key(text) not in keys]
                setattr(args, dest, kept + typed)

    def _flag(self, key: str) -> argparse.Action:

        if (action := self.flags.get(key)) is not None:
            return action
        raise self._error(key, f"this command has no such flag; {hint(key, sorted(self.flags))}")

    def _value(self, key: str, value: Any) -> Any:
        """A flag's value as its parser would make it of what is typed."""
        action = self.flags[key]
        if action.nargs == 0:
            if not isinstance(value, bool):
                raise self._error(key, f"{value!r}: must be true or false")
            return value or action.default
        if isinstance(action, argparse._AppendAction):
            return list(self._assignments(key, value))
        text = self._text(key, value)
        if action.choices is not None and text not in action.choices:
            raise self._error(key, f"{text!r}: one of {', '.join(action.choices)}")
        if action.type is int:
            try:
                return int(text)
            except ValueError:
                raise self._error(key, f"{text!r}: must be a whole number") from None
        return text

    def _text(self, key: str, value: Any) -> str:
        """What would be typed for it: a list goes between commas."""
        if isinstance(value, list) and value:
            return ",".join(self._text(key, item) for item in value)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
        raise self._error(key, f"{value!r}: write a text, a number or a list of them")

    def _assignments(self, key: str, value: Any) -> Iterator[str]:
        """``KEY=VALUE`` of a table, or as they are typed."""
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            yield from value
        elif isinstance(value, dict):
            for path, leaf in _leaves(value):
                yield f"{path}={self._assigned(f'{key}.{path}', key, leaf)}"
        else:
            raise self._error(key, 'write a table, as [vary], or a list of "KEY=VALUE"')

    def _assigned(self, path: str, key: str, value: Any) -> str:

        if isinstance(value, bool) or (isinstance(value, list) and key == "set"):
            try:
                return json.dumps(value)  # TOML has these as JSON has them
            except TypeError:
                raise self._error(path, f"{value!r}: write texts and numbers") from None
        return self._text(path, value)

    def _error(self, key: str, fault: str) -> Exception:

        return UsageError(f"{self.path}: {key}: {fault}")


def study_of(words: list[str], command: argparse.ArgumentParser) -> Study | None:
    """The study that a command line names, the last one where it names several."""
    found = None
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word == "--":
            break
        if match := _FLAG.fullmatch(word):
            found = following if match[1] is None else match[1]
    return None if found is None else Study(found, command)


def _key(text: str) -> str:
    return text.partition("=")[0].strip()


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _read(path: str) -> dict[str, Any]:

    return parse_toml(read_text(path, UsageError, "a study file"), path, UsageError)
