"""Where results go: the terminal or a file, as a table, CSV or JSON."""

from __future__ import annotations

import copy
import io
import json
import math
import os
import re
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich import progress as bars
from rich.console import Console, RenderableType
from rich.table import Column, Table

from experiments.encodings import legible
from experiments.progress import Count, lines

if TYPE_CHECKING:
    import pandas

NARROWEST = 80
"""Columns that every table fits; wider ones are used where the terminal has them."""
WIDEST = 10_000
READABLE = 30
"""Columns that longer text has at least, while others can be left out."""
KEY, LONG_KEY, LONG_HEAD = re.compile(r"\w+(\.[\w-]+)+"), 22, 16
"""What keys look like, and the columns from which on a table that is too wide for its terminal
breaks them at their dots: in cells, and in headings."""


class UsageError(ValueError):
    """The command was asked for something that makes no sense."""


def text_of(*renderables: RenderableType) -> str:
    """Plain text: tables as wide as the terminal at most, titles above them.

    On a terminal longer lines are wrapped between words; elsewhere they stay whole.
    """
    console = Console(
        file=io.StringIO(),
        width=width(),
        highlight=False,
        markup=False,  # names come from strangers' files
        emoji=False,
    )
    with console.capture() as capture:
        for renderable in renderables:
            if isinstance(renderable, Table):
                if renderable.title:
                    console.print(prose(str(renderable.title), sys.stdout), soft_wrap=True)
                console.print(_fitting(renderable))
            else:
                shown = prose(renderable, sys.stdout) if isinstance(renderable, str) else renderable
                console.print(shown, soft_wrap=True)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def prose(text: str, stream: TextIO | None) -> str:
    """Text in lines that a terminal has room for; as it is where the stream is none."""
    if stream is None or not stream.isatty():
        return text
    lines = text.split("\n")
    whole = textwrap.TextWrapper(width(), break_long_words=False, break_on_hyphens=False)
    return "\n".join(whole.fill(line) if len(line) > width() else line for line in lines)


def _fitting(table: Table) -> Table:
    """A table without its title that gives up words before numbers, and folds what is too long."""
    fitting = copy.copy(table)
    fitting.title = None
    tight = Console(width=WIDEST).measure(table).maximum > width()
    fitting.columns = [
        replace(
            column,
            header=_narrow(column) if tight else column.header,
            _cells=[*map(_at_dots, column._cells)] if tight else column._cells,
            overflow="fold",
            no_wrap=column.no_wrap or column.justify == "right",
        )
        for column in table.columns
    ]
    return fitting


def _at_dots(cell: RenderableType, most: int = LONG_KEY) -> RenderableType:
    """A long key in lines that end at its dots, "devices.0.arithmetic." and "activations"."""
    if not isinstance(cell, str) or not KEY.fullmatch(cell) or len(cell) <= most:
        return cell
    lines = [""]
    for part in re.split(r"(?<=\.)", cell):
        if lines[-1] and len(lines[-1] + part) > most:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _narrow(column: Column) -> str:
    """A column's header in lines no longer than its longest word, or cell."""
    header, cells = str(column.header), [*map(str, column.cells)]
    widest = max([LONG_HEAD, *map(len, cells)])
    words = [line for word in header.split() for line in str(_at_dots(word, widest)).split("\n")]
    longest = max(map(len, [*words, *cells, ""]))
    return textwrap.fill(" ".join(words), max(1, longest), break_long_words=False)


def fitted(
    title: str, rows: Sequence[Mapping[str, Any]], least: Sequence[str] = ()
) -> list[Table | str]:
    """``table`` without the columns of ``least`` that a terminal has no room for; says which."""
    dropped: list[str] = []
    for key in (key for key in least if key in rows[0]):
        if _least_width(rows, dropped) <= width():
            break
        dropped.append(key)
    kept = [{key: v for key, v in row.items() if key not in dropped} for row in rows]
    if not dropped:
        return [table(title, kept)]
    said = f"Not shown here: {', '.join(dropped)} (a wider terminal and --format json have all)."
    return [table(title, kept), said]


def width() -> int:
    """Columns that text may have."""
    return max(NARROWEST, shutil.get_terminal_size((NARROWEST, 24)).columns)


def _least_width(rows: Sequence[Mapping[str, Any]], without: Sequence[str]) -> int:
    """Columns that a table of rows needs: numbers whole, of text a few words a line."""
    total = 1
    for key in (key for key in rows[0] if key not in without):
        cells = [_cell(row[key]) for row in rows]
        longest = max(len(word) for text in [key, *cells] for word in [*text.split(), ""])
        total += 3 + max(longest, min(READABLE, max(map(len, cells))))
    return total


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows of like fields as a table; numbers to the right."""
    words = [key for key, value in rows[0].items() if not isinstance(value, int)]
    return table_of(title, list(rows[0]), words, [map(_cell, row.values()) for row in rows])


def table_of(
    title: str, heads: Sequence[str], words: Sequence[str], rows: Iterable[Iterable[str]] = ()
) -> Table:
    """A table with rows, or for rows; columns of ``words`` stand left, those of numbers right."""
    made = Table(title=title)
    for head in heads:
        made.add_column(head, justify="left" if head in words else "right")
    for row in rows:
        made.add_row(*row)
    return made


def frame_of(rows: Iterable[Any], columns: list[str] | None = None) -> pandas.DataFrame:
    """Rows as a data frame; only who asks for one waits for pandas to load."""
    import pandas

    return pandas.DataFrame(list(rows), columns=columns)


def pairs_table(title: str, *sections: Iterable[tuple[str, str]]) -> Table:
    """Names and values, a line between sections."""
    made = Table(show_header=False, title=title)
    for section in sections:
        made.add_section()
        for name, value in section:
            made.add_row(name, value)
    return made


def to_json(data: Any) -> str:
    """JSON as the commands print it; a number that is not finite is null."""
    return json.dumps(finite(data), indent=2, allow_nan=False) + "\n"


def to_toml(table: Mapping[str, Any], at: str = "") -> str:
    """TOML of a table: plain values, which it has as JSON has them, then the tables in it.

    Keys are written as they are: where dots are a part of one it is in quotes already.
    """
    plain, parts = "", list[str]()
    for key, value in table.items():
        if isinstance(value, Mapping):
            parts.append(f"[{at}{key}]\n{to_toml(value, f'{at}{key}.')}")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            parts += [f"[[{at}{key}]]\n{to_toml(one, f'{at}{key}.')}" for one in value]
        else:
            plain += f"{key} = {json.dumps(value)}\n"
    return "\n".join([plain, *parts])


def spec_toml(table: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    """A spec, and where each of its values is from."""
    return to_toml({**table, "sources": {json.dumps(key): of for key, of in sources.items()}})


def finite(data: Any) -> Any:
    """Data as JSON can have it: None for numbers that are not finite."""
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def deliver(text: str, output: str | None) -> None:
    """Print, or write a file whole (never half a file), legibly; raises UsageError."""
    text = legible(text)
    if output is not None:
        with whole_file(output) as path:
            path.write_text(text, encoding="utf-8")
        return
    if sys.stdout is None:
        raise UsageError("there is no standard output; use --output FILE")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"standard output cannot be written: {error.strerror}") from None


def check_page(output: str, flag: str = "--output") -> None:
    """Raise UsageError unless the name ends as those of HTML pages do."""
    if not output.lower().endswith((".html", ".htm")):
        raise UsageError(f"{flag} {output!r}: the name must end in .html")


def deliver_page(html: str, output: str) -> None:
    """Write an HTML page whole; raises UsageError."""
    with whole_file(output) as path:
        path.write_bytes(html.encode("utf-8", "replace"))


def check_writable(*outputs: str | None) -> None:
    """Raise UsageError now rather than after minutes of work, where a file cannot be written."""
    for output in outputs:
        if output is not None:
            with whole_file(output, keep=False):
                pass


@contextmanager
def whole_file(output: str, *, keep: bool = True) -> Iterator[Path]:
    """A path to write to, moved to ``output`` only when all went well; raises UsageError.

    What ``output`` links to is replaced; a pipe or a device is written to.
    """
    target, temporary = _places(output)
    try:
        yield temporary
        if keep and target.exists() and not target.is_file():
            target.write_bytes(temporary.read_bytes())
        elif keep:
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
            temporary.replace(target)
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _places(output: str) -> tuple[Path, Path]:
    """The file meant, and a temporary one beside it (elsewhere for a pipe or a device)."""
    try:
        target = Path(output)
        if target.is_file() or not target.exists():  # no pipe behind /dev/stdout
            target = target.resolve()
        if target.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(0, "permission denied")
        folder = target.parent if target.is_file() or not target.exists() else None
        handle, name = tempfile.mkstemp(dir=folder, prefix=".", suffix=target.suffix)
        os.close(handle)
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{output!r}: cannot be written: {error}") from None
    return target, Path(name)


@contextmanager
def progress_bar(total: int | None) -> Iterator[Callable[[str], None]]:
    """A bar on stderr when that is a terminal, else a line now and then (``progress.lines``).

    Call what it yields once per finished case. It estimates the time that is left from how fast
    cases have come. Where nobody knows how many there will be, it counts them.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        with lines(total) as count:
            yield count
        return
    columns = (
        bars.SpinnerColumn(),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        bars.TextColumn("{task.fields[left]}"),
        bars.TextColumn("{task.fields[label]}", markup=False),
    )
    console = Console(stderr=True, get_time=time.monotonic)
    with bars.Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total, label="the first case", left="")

        def shown(count: Count) -> None:
            progress.update(task, label=legible(count.label), left=count.left, completed=count.done)

        yield Count(total, shown)


def hearing(
    progress: Callable[[str], None] | None, total: int | None
) -> AbstractContextManager[Callable[[str], None]]:
    """``progress``, called once for each finished case; None is the command line's bar."""
    return progress_bar(total) if progress is None else nullcontext(progress)
