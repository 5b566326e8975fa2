"""Bring what the pages say that their examples print up to date.

    python -m tests.docs_outputs [WORD ...]

runs the examples of all pages, or of those whose names have a WORD in them, and
writes today's output where it differs: each run of lines between two ``...`` is
found again by the likeness of its first and its last line. Which lines a page
shows stays as it is; ``???`` alone becomes the whole output.
"""

import difflib
import os
import re
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

from tests.docs_pages import PAGES, Example, examples, matches, name_of


class GoneError(Exception):
    """A line of a page has none like it in today's output."""


@cache
def parts(line: str) -> tuple[str, str]:
    """What a line is about: its first cell, and all of it, without numbers and frames."""
    cells = [re.sub(r"\s+", " ", cell).strip() for cell in re.split(r"[│┃]", line.strip("│┃ "))]
    bare = [re.sub(r"[\d.,]+", "#", cell) for cell in cells]
    return cells[0], " ".join(bare)


@cache
def likeness(old: str, new: str) -> float:
    (first, all_), (other, others) = parts(old), parts(new)
    if not first or not other:
        return float(old.strip() == new.strip())
    one = difflib.SequenceMatcher(None, first, other).ratio()
    two = difflib.SequenceMatcher(None, all_, others).ratio()
    return 0.7 * one + 0.3 * two


def found(line: str, lines: list[str], start: int, near: int) -> int:
    """The line most like one, from ``start`` on; of equals the nearest to ``near``."""
    scores = [
        (likeness(line, other) - 0.002 * abs(at - near), -at)
        for at, other in enumerate(lines[start:], start)
    ]
    score, at = max(scores, default=(0.0, 0))
    if score < 0.5:
        raise GoneError(line)
    return -at


def renewed(example: Example) -> str:
    """What a page shows of an example's output, from today's."""
    old, lines = example.wanted.rstrip().splitlines(), example.out.splitlines()
    if old == ["???"]:
        return example.out + "\n"
    runs = [text.strip("\n").splitlines() for text in re.split(r"(?m)^\.\.\.$", "\n".join(old))]
    runs = [run for run in runs if run]
    new: list[str] = []
    at = 0
    for number, run in enumerate(runs):
        opens = number == 0 and old[0] != "..." and at == 0
        first = 0 if opens and likeness(run[0], lines[0]) >= 0.5 else found(run[0], lines, at, at)
        whole = number == len(runs) - 1 and old[-1] != "..."
        if whole:
            last = len(lines) - 1
        elif len(run) == 1:
            last = first
        else:
            last = found(run[-1], lines, first, first + len(run) - 1)
        new += ["..."] * (first > at) + lines[first : last + 1]
        at = last + 1
    return "\n".join([*new, *["..."] * (at < len(lines) or not runs)]) + "\n"


def indented(text: str, indent: str) -> str:
    return "".join(indent + line if line.strip() else line for line in text.splitlines(True))


def update(page: Path) -> list[str]:
    """Write a page's outputs anew where they differ; what could not be is told."""
    told = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for example in examples(page):
                if matches(example):
                    continue
                try:
                    new = renewed(example)
                except GoneError as line:
                    told.append(f"{name_of(page)}: {example.command}: no line like {line}")
                    continue
                text = page.read_text()
                start = text.index(example.command) if example.command != "python" else 0
                indent = re.search(r"( *)\$ $", text[:start])
                prefix = indent.group(1) if indent else ""
                before, rest = text[:start], text[start:]
                wanted = indented(example.wanted, prefix)
                if wanted and wanted in rest:
                    page.write_text(before + rest.replace(wanted, indented(new, prefix), 1))
                    told.append(f"{name_of(page)}: {example.command}: renewed")
                else:
                    told.append(f"{name_of(page)}: {example.command}: not found in the page")
        except Exception as error:
            told.append(f"{name_of(page)}: stopped: {type(error).__name__} {error}")
        os.chdir("/")
    return told


def run(words: list[str]) -> None:
    pages = [page for page in PAGES if not words or any(word in name_of(page) for word in words)]
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(pages) or 1)) as pool:
        for told in pool.map(update, pages):
            print("\n".join(told), flush=True) if told else None


if __name__ == "__main__":
    run(sys.argv[1:])
