"""The pages of the documentation, and their examples, run one after the other.

``console`` blocks: commands after ``$``, then their output, in which a line
``...`` stands for any lines. ``python`` blocks of a page run in one namespace;
a ``text`` block after one is what it prints. ``toml`` and ``text`` blocks whose
first line is ``# NAME`` become that file.
"""

import contextlib
import fnmatch
import functools
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from experiments.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
CHANGES = re.compile(r"--store|--output|--plot|--report|--trace|--device ")
"""Options that write: what a command prints may be otherwise after one of these."""


class Example(NamedTuple):
    """What a page says that a command or a block of Python prints, and what it prints."""

    command: str
    wanted: str
    out: str


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str]]:
    return [
        (language, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))
        for indent, language, text in BLOCK.findall(page.read_text())
    ]


def commands(text: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    assert parts[0] == "", f"output before the first command: {parts[0]!r}"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def printed(command: str) -> str:
    program, *args = shlex.split(command)
    assert program == "accelarray", command
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(args) == 0, command
    return out.getvalue().rstrip()


def matches(example: Example) -> bool:
    pattern = "\n".join(
        "*" if line == "..." else re.sub(r"[\[*?]", r"[\g<0>]", line)
        for line in example.wanted.rstrip().splitlines()
    )
    return fnmatch.fnmatchcase(example.out, pattern)


def examples(page: Path) -> Iterator[Example]:
    """Run a page's blocks in order, in the current folder."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    ran = functools.cache(printed)  # a page may show one command's output in several pieces
    told: str | None = None
    for language, text in blocks(page):
        if language in ("toml", "text") and text.startswith("# "):
            ran.cache_clear()
            name, _, rest = text.removeprefix("# ").partition("\n")
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(rest)
        elif language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, str(page), "exec"), namespace)  # noqa: S102  (our own docs)
            told = out.getvalue()
        elif language == "text":
            assert told is not None, f"{page}: a text block is a file, or what Python prints"
            yield Example("python", text, told.rstrip())
        elif language == "console":
            for command, wanted in commands(text):
                if CHANGES.search(command):
                    ran.cache_clear()
                yield Example(command, wanted, ran(command))
        elif language != "mermaid":  # a picture
            assert language == "sh", f"{page}: {language} blocks are not checked"
