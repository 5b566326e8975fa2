"""What cases give, a line each, in a file: this code's lines against those that are stored.

A case is anything whose ``str`` is its name. ``Table.main`` is the command line of
a module that has such a table:

    python -m MODULE                      compare every case
    python -m MODULE --case resnet18      those with these words in their names
    python -m MODULE --quick              the few that the test suite compares
    python -m MODULE --write --case X     store what this code does in those
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import Pool
from pathlib import Path
from typing import Generic, TypeVar

C = TypeVar("C")


def differing(known: str | None, now: str) -> str:
    """What is said of a line that is not the stored one to the letter; nothing of one that is."""
    return "" if known == now else f"stored {known}\n  now    {now}"


@dataclass(frozen=True)
class Table(Generic[C]):
    """Every case, the few of them that are quick, and the line that this code gives for one.

    All are functions of a module, so that other processes find them.
    """

    path: Path
    about: str
    cases: Callable[[], Iterable[C]]
    quick: Callable[[C], bool]
    measured: Callable[[C], str]
    shared: Callable[[C], object] = str
    """Cases one after the other of which this is the same are measured by one process."""
    differs: Callable[[str | None, str], str] = differing
    """Of a stored line and one of now: what is wrong; "" where nothing is."""

    def stored(self) -> dict[str, str]:
        """The stored lines by case; none where there is no file yet."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return dict(line.split(": ", 1) for line in lines if line)

    def compare(self, chosen: Sequence[C], jobs: int = 1) -> Iterator[str]:
        """What differs from the stored lines, a paragraph for each case."""
        known = self.stored()
        for name, line in self._each(chosen, jobs):
            difference = self.differs(known.get(name), line)
            if difference:
                yield f"{name}\n  {difference}"

    def write(self, chosen: Sequence[C], jobs: int = 1) -> None:
        """Store this code's lines of ``chosen``; lines of what is no case any more are left out."""
        lines = self.stored() | dict(self._each(chosen, jobs))
        known = [str(case) for case in self.cases() if str(case) in lines]
        self.path.write_text("".join(f"{name}: {lines[name]}\n" for name in known))

    def main(self, arguments: list[str] | None = None) -> int:
        """Compare, or store; the exit code says whether everything was the same."""
        parser = argparse.ArgumentParser(description=self.about)
        parser.add_argument("--write", action="store_true", help="store what this code does")
        parser.add_argument("--case", default="", help="words of the cases' names")
        parser.add_argument("--quick", action="store_true", help="those that the tests compare")
        parser.add_argument("--jobs", type=int, default=1, help="processes")
        parser.add_argument("--file", type=Path, default=self.path, help="the stored lines")
        given = parser.parse_args(arguments)
        words = given.case.split()
        chosen = [
            case
            for case in self.cases()
            if all(word in str(case) for word in words) and (self.quick(case) or not given.quick)
        ]
        table = replace(self, path=given.file)
        if given.write:
            table.write(chosen, given.jobs)
            return 0
        count = 0
        for difference in table.compare(chosen, given.jobs):
            print(difference, flush=True)
            count += 1
        print(f"{len(chosen)} cases, {count} differ")
        return 1 if count else 0

    def _each(self, chosen: Sequence[C], jobs: int) -> Iterator[tuple[str, str]]:
        """The name and the line of every case, in order, as they are ready."""
        groups = [tuple(group) for _, group in itertools.groupby(chosen, self.shared)]
        names = map(str, chosen)
        if jobs == 1:
            results: Iterable[list[str]] = map(self._lines, groups)
            yield from zip(names, itertools.chain.from_iterable(results), strict=True)
            return
        with Pool(jobs, maxtasksperchild=20) as pool:
            results = pool.imap(self._lines, groups, chunksize=2)
            yield from zip(names, itertools.chain.from_iterable(results), strict=True)

    def _lines(self, group: tuple[C, ...]) -> list[str]:
        return [self.measured(case) for case in group]
