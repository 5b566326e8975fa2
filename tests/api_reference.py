"""The page of everything that ``import accelarray`` offers, from its docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import accelarray

HEAD = """# API reference

Everything in `import accelarray`. `python -m tests.api_reference` writes this page from the
docstrings.
"""


def main(path: str = "docs/reference/api.md") -> None:
    """Write the page."""
    Path(path).write_text(page(), encoding="utf-8")


def page() -> str:
    """The page in Markdown: functions, then results and other types, then errors."""
    parts = [HEAD]
    for title, wanted in (("Functions", _is_function), ("Types", _is_type), ("Errors", _is_error)):
        parts.append(f"\n## {title}\n")
        parts.extend(
            _entry(name, found)
            for name in dir(accelarray)
            if wanted(found := getattr(accelarray, name))
        )
    return "".join(parts)


def _is_error(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, Exception)


def _is_type(found: Any) -> bool:
    return not _is_function(found) and not _is_error(found)


def _is_function(found: Any) -> bool:
    return inspect.isfunction(found)


def _entry(name: str, found: Any) -> str:
    lines = [f"\n### `{name}`\n"]
    if _is_function(found):
        signature = inspect.signature(found)
        arguments = "".join(f"        {one},\n" for one in _arguments(signature))
        inside = f"\n{arguments}    " if arguments else ""
        lines.append(f"\n    {name}({inside}) -> {signature.return_annotation}\n")
    said = "The version that is installed." if isinstance(found, str) else inspect.getdoc(found)
    lines.append("\n" + (said or "").strip() + "\n")
    if isinstance(found, type) and not _is_error(found):
        lines.extend(_members(found))
    return "".join(lines)


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    """Each as it is written; a star stands before those that go by name alone."""
    starred = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield _argument(parameter)


def _argument(parameter: inspect.Parameter) -> str:
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    usual = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{stars}{parameter.name}: {parameter.annotation}{usual}"


def _members(cls: type) -> list[str]:
    """Public attributes and methods with the first line of what they say."""
    fields = [f.name for f in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
    found = [f"- `{name}`\n" for name in fields if not name.startswith("_")]
    for name, member in inspect.getmembers(cls):
        said = inspect.getdoc(member) if not name.startswith("_") else None
        if said and name not in fields and (callable(member) or isinstance(member, property)):
            call = "()" if callable(member) else ""
            found.append(f"- `{name}{call}`: {said.splitlines()[0]}\n")
    return ["\n", *found] if found else []


if __name__ == "__main__":
    main(*sys.argv[1:])
