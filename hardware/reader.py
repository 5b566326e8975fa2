"""Reads what comes from outside: limits first, then TOML, JSON or CSV, then a pydantic model.

    class LinksTable(Table):
        per_chip: Annotated[int, whole(1, 4096)]     # which must be written
        latency: Duration = 0.0                       # written like "1 us"; 0.0 where it is not

    text = read_text("links.toml", SpecError)
    links = checked(LinksTable, parse_toml(text, "links.toml", SpecError), "links.toml", SpecError)

Every file that a user may give goes this way, and every fault in it is told at once, as
``file: key: value: remedy``. Functions take the type of error that their caller raises. The module
imports nothing else of ours but quantities, so that ``workloads`` may read with it as well.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    create_model,
)
from pydantic.fields import FieldInfo

from hardware.quantity import out_of_range, parse_quantity, split_quantity

LARGEST_FILE = 1 << 20
"""Bytes of a file, where its reader does not say otherwise."""
MOST_ROWS = 1000
DEEPEST = 200
"""Tables and lists within each other."""
MOST_BITS = 4096
"""Of a whole number: Python writes none of more than 4,300 digits, but reads hexadecimal ones."""
_TOO_DEEP = f"nested too deep, at most {DEEPEST} levels are read"
_TOO_LONG = f"a number has more than {MOST_BITS} bits"
MOST_FAULTS = 20
"""Faults that one message tells."""

SI = "in SI units"
"""The context of values that are numbers already: quantities without their units."""
ROOM = 1e9
"""Such a value may be so many times outside the range of written ones, for an infinite link."""

Fault = tuple[str, str]
"""The path of a key, and what to say of it."""
Row = tuple[str, dict[str, str]]
"""A row of a CSV file: "file:line", and its cells by column."""
Error = type[Exception]
T = TypeVar("T", bound=BaseModel)


class Table(BaseModel):
    """A table of a file: its fields are the keys. Frozen; nothing unknown, nothing converted."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def table_of(of: type, *without: str, **more: tuple[Any, Any]) -> Any:
    """The table whose keys are the fields of a dataclass: their types, bounds and usual values.

    There are ``more`` of the table alone, each a type and what is usual.
    """
    types = get_type_hints(of, include_extras=True)
    keys: dict[str, Any] = {
        one.name: (types[one.name], ... if one.default is MISSING else one.default)
        for one in fields(of)
        if one.name not in without
    }
    return create_model(of.__name__, __base__=Table, **keys | more)


def optional(of: type[BaseModel], *without: str) -> dict[str, Any]:
    """Keys of a table for another one, in which none of them has to be there (None)."""
    return {
        field.alias or name: (Annotated[field.annotation, Field(), *field.metadata] | None, None)
        for name, field in of.model_fields.items()
        if name not in without
    }


class Cells(Table):
    """A row of a CSV file: its fields are the columns, and numbers are made of their texts."""

    model_config = ConfigDict(strict=False)


def whole(least: int, most: int) -> WrapValidator:
    """Bounds of a whole number, both allowed."""
    return _bounded(f"must be a whole number from {least:,} to {most:,}", least, most)


def number(least: float, most: float, *, above: bool = False) -> WrapValidator:
    """Bounds of a number, both allowed, or the least one not (``above``)."""
    words = f"above {least:,g} and at most" if above else f"from {least:,g} to"
    return _bounded(f"must be a number {words} {most:,g}", least, most, above=above)


def _bounded(must: str, least: float, most: float, *, above: bool = False) -> WrapValidator:
    def read(written: object, inner: Callable[[object], float]) -> float:
        try:
            exact = isinstance(written, Integral) and not isinstance(written, bool)
            value = inner(int(cast("Integral", written)) if exact else written)  # numpy's, too
        except ValidationError:
            raise ValueError(must) from None
        if not least <= value <= most or (above and value == least):
            raise ValueError(must)
        return value

    return WrapValidator(read)


def quantity(
    unit: str, most: float | None = None, or_else: str = "", *, zero: bool = False
) -> BeforeValidator:
    """Reads "8 GB/s" as a number of ``unit``; more than ``most`` is wrong, ``or_else``.

    None at all ("0 B") is right where ``zero`` says so.
    """

    def read(written: object, info: ValidationInfo) -> object:
        if info.context == SI:
            if isinstance(written, float | int) and (
                what := out_of_range(written, unit, most, ROOM)
            ):
                raise ValueError(what)
            return written
        if zero and isinstance(written, str) and split_quantity(written) == (unit, 0.0):
            return 0.0
        value = parse_quantity(written, unit)
        if most is not None and value > most:
            raise ValueError(or_else)
        return value

    return BeforeValidator(read)


def one_of(names: Collection[str]) -> BeforeValidator:
    """One of a few names, those that there are when it reads."""

    def read(written: object) -> object:
        if not any(name == written for name in names):
            raise ValueError(_must_be_one_of(names, written))
        return written

    return BeforeValidator(read)


FlopRate = Annotated[float, quantity("FLOP/s")]
ByteRate = Annotated[float, quantity("B/s")]
Duration = Annotated[float, quantity("s")]
Frequency = Annotated[float, quantity("Hz")]
Bytes = Annotated[float, quantity("B")]
HalfSize = Annotated[float, quantity("B", zero=True)]
Watts = Annotated[float, quantity("W")]
EnergyEach = Annotated[float, quantity("J")]
EnergyPerByte = Annotated[float, quantity("J/B")]
Share = Annotated[float, number(1e-9, 1)]
Text = Annotated[str, Field(max_length=2000)]
Count = Annotated[int, whole(1, 4096)]
Price = Annotated[float, number(0, 1e6)]
"""Dollars for an hour of a chip."""


MOST_LISTED = 20
"""Names that a message has at most."""
MOST_HINTS = 4
"""Names that a hint has at most."""


def hint(word: object, known: Iterable[str], listed: str = "") -> str:
    """Say which name was meant, "did you mean ring?", or else all that there are.

    Where none is almost the word, those that begin with it: h100-sxm for h100. They are
    ``listed`` by ``accelarray list`` with that word.
    """
    names = list(known)
    plain = {name.lower().replace("-", ""): name for name in reversed(names)}
    typed = shown(word, str).lower().replace("-", "")
    longer = sorted((one for one in plain if one.startswith(typed)), key=len) if typed else []
    near = difflib.get_close_matches(typed, plain, n=1, cutoff=0.8) or longer[:MOST_HINTS]
    near = near or difflib.get_close_matches(typed, plain, n=1)
    if not near:
        return one_of_these(names, listed)
    *others, last = (plain[one] for one in near)
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"


def extra(name: str) -> str:
    """The command that installs an optional part."""
    return f"pip install '.[{name}]' in a clone of accelarray"


def one_of_these(names: Sequence[str], listed: str = "") -> str:
    """The names there are; of very many the first ones, and where all of them are listed."""
    if len(names) <= MOST_LISTED:
        return f"one of {', '.join(names)}"
    first = ", ".join(names[: MOST_LISTED // 2])
    where = f": accelarray list {listed}" if listed else ""
    return f"one of {first} ... ({len(names)} in all{where})"


def shown(value: object, text: Callable[[object], str] = repr) -> str:
    """A value in a message, cut to 60 characters."""
    try:
        return text(value)[:60]
    except (ValueError, RecursionError):  # Python writes no number of more than 4,300 digits
        return "a value too long to show"


def read_text(
    path: str | Path, error: Error, what: str = "a spec", most: int = LARGEST_FILE
) -> str:
    """Return the text of a file of at most ``most`` bytes of UTF-8."""
    waits = False
    try:
        waits = Path(path).is_fifo() and not str(path).startswith(_SHELLS)
        if not waits:
            with Path(path).open("rb") as file:
                raw = file.read(most + 1)
    except OSError as cause:
        raise error(f"{path}: cannot be read: {cause.strerror}") from None
    except ValueError:
        raise error(f"{str(path)!r}: not a path") from None
    if waits:
        raise error(f"{path}: a pipe, which may wait forever; name a file")
    if len(raw) > most:
        size = f"{most >> 20} MiB" if most >> 20 else f"{most >> 10} KiB"
        raise error(f"{path}: larger than {size}; not {what}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise error(f"{path}: not a text file (expected UTF-8)") from None


_SHELLS = ("/dev/", "/proc/")
"""Where shells have what <( ) stands for."""


def parse_toml(text: str, origin: str | Path, error: Error) -> dict[str, Any]:
    """Return the tables of TOML; ``origin`` is the file that errors name."""
    wrong = f"{origin}: not valid TOML"
    if any(line.count(".") > DEEPEST and _dots(line) > DEEPEST for line in text.splitlines()):
        raise error(f"{wrong}: {_TOO_DEEP}")
    found: dict[str, Any] = _parsed(tomllib.loads, text, wrong, error)
    return found


def _dots(line: str) -> int:
    """Most dots of a key of the line, for whose tables tomllib takes time by the square."""
    bare = re.sub(r"\s*\.\s*", ".", _QUOTED.sub("q", line).partition("#")[0])
    parts = re.split(r"[\s,=\[\]{}]", bare)
    return max(len(re.findall(r"[\w-]\.(?=[\w-])", part)) for part in parts)


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|' + r"'[^']*'")


def parse_json(text: str, origin: str | Path, error: Error) -> Any:
    """Return the values of JSON; ``origin`` is the file that errors name."""
    if not text.strip():
        raise error(f"{origin}: the file is empty")
    parse = partial(json.loads, object_pairs_hook=_table)
    return _parsed(parse, text, f"{origin}: not valid JSON", error)


def _table(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A table of these keys and values, each key once; other readers would take the last."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {shown(key)} is there twice")
        found[key] = value
    return found


def parse_yaml(text: str, origin: str | Path, error: Error) -> Any:
    """Return the values of YAML without aliases; ``origin`` is the file that errors name."""
    return _parsed(_yaml, text, f"{origin}: not valid YAML", error)


def _yaml(text: str) -> Any:
    import yaml  # seldom needed

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Makes plain values alone, and no more of them than the file has."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("aliases (*name) are not read")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            if isinstance(node, yaml.MappingNode):
                keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
                _table((key, None) for key in keys)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)  # noqa: S506  (a safe loader)
    except yaml.YAMLError as cause:
        raise ValueError(" ".join(str(cause).split())[:200]) from None


def _parsed(parse: Callable[[str], Any], text: str, wrong: str, error: Error) -> Any:
    try:
        found = parse(text)
    except (RecursionError, MemoryError):
        raise error(f"{wrong}: {_TOO_DEEP}") from None
    except ValueError as cause:
        long = "set_int_max_str_digits" in str(cause)
        raise error(f"{wrong}: {_TOO_LONG if long else cause}") from None
    level, depth = [found], 0
    while level:
        if any(isinstance(value, int) and value.bit_length() > MOST_BITS for value in level):
            raise error(f"{wrong}: {_TOO_LONG}")
        if depth > DEEPEST:
            raise error(f"{wrong}: {_TOO_DEEP}")
        level = [inner for value in level for inner in _inside(value)]
        depth += 1
    return found


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def parse_csv(text: str, origin: str | Path, error: Error, most: int = MOST_ROWS) -> list[Row]:
    """Return the rows of a table, without blanks around their cells.

    Empty lines, and those that begin with #, do not count. The first that does names the columns.
    """
    lines = _lines(text, origin, error)
    where, header = next(lines, (f"{origin}:1", []))
    if len(header) == 1 and (other := [one for one in ";\t" if one in header[0]]):
        raise error(f"{where}: columns are separated by {other[0]!r}; take commas")
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise error(f"{where}: column {twice[0]} twice")
    rows = []
    for where, cells in lines:
        if len(cells) != len(header):
            raise error(f"{where}: {len(cells)} values; {len(header)} columns")
        rows.append((where, dict(zip(header, cells, strict=True))))
    if not 1 <= len(rows) <= most:
        found = f"{len(rows)} rows; at most {most} are read" if rows else "no rows"
        raise error(f"{origin}: {found}")
    return rows


def _lines(text: str, origin: str | Path, error: Error) -> Iterator[tuple[str, list[str]]]:
    reader = csv.reader(
        ("\n" if line.lstrip().startswith("#") else line for line in io.StringIO(text)), strict=True
    )
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                yield f"{origin}:{reader.line_num}", [cell.strip() for cell in cells]
    except csv.Error as cause:
        raise error(f"{origin}:{reader.line_num}: not a line of CSV: {cause}") from None


def checked_rows(model: type[T], rows: Sequence[Row], error: Error) -> list[T]:
    """Return every row of a table (``parse_csv``) as a model, or raise all of their faults.

    What is wrong with the columns is told once, of the first row.
    """
    read, faults = list[T](), list[str]()
    for where, cells in rows:
        table, wrong = validated(model, cells)
        read += [] if table is None else [table]
        faults += [": ".join(filter(None, (where, *fault))) for fault in wrong]
        if {path for path, _ in wrong} & (model.model_fields.keys() ^ cells.keys()):
            break
    raise_all(faults, error)
    return read


def checked(model: type[T], data: object, origin: str | Path, error: Error) -> T:
    """Return data as a model, or raise every fault, each with ``origin`` and path."""
    table, faults = validated(model, data)
    raise_all([": ".join(filter(None, (str(origin), *fault))) for fault in faults], error)
    assert table is not None  # noqa: S101
    return table


def raise_all(faults: Iterable[str], error: Error) -> None:
    """Raise the error of these faults, a line for each, where there are any."""
    lines = list(dict.fromkeys(faults))
    if len(lines) > MOST_FAULTS:
        lines[MOST_FAULTS:] = [f"... and {len(lines) - MOST_FAULTS} more faults"]
    if lines:
        raise error("\n".join(lines))


def validated(
    model: type[T], data: object, context: str | None = None
) -> tuple[T | None, list[Fault]]:
    """Return data as a model, None where it is wrong, and every fault."""
    try:
        return model.model_validate(data, context=context), []
    except ValidationError as error:
        found = error.errors(include_url=False)
    return None, [_fault(model, dict(one)) for one in found]


_WORDS = {
    "missing": "is missing",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "string_type": "must be a text",
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list, in [ ]"),
    **dict.fromkeys(("dict_type", "model_type"), "must be a table"),
    "none_required": "must not be there",
}
"""What is said of pydantic's errors instead of its own words."""


def _fault(model: type[BaseModel], error: Mapping[str, Any]) -> Fault:
    """The path of a pydantic error, and what to say of it."""
    kind, where, value = error["type"], [str(part) for part in error["loc"]], error["input"]
    if kind == "value_error" and not where:  # what does not go together in a table
        return "", str(error["ctx"]["error"])
    if kind == "extra_forbidden":
        known = [field.alias or name for name, field in _keys_at(model, where[:-1]).items()]
        return ".".join(where), f"unknown key; {hint(where[-1], known)}"
    if kind in ("literal_error", "enum"):
        names = re.findall("'([^']*)'", error["ctx"]["expected"])
        if where[-1] == "[key]":
            return ".".join(where[:-1]), f"unknown key; {hint(value, names)}"
        what = _must_be_one_of(names, value)
    elif kind == "value_error":
        what = str(error["ctx"]["error"])
    else:
        what = re.sub(r"^\w+ should", "must", error["msg"]).replace(" after validation", "")
        what = _WORDS.get(kind, what)
    return ".".join(where), what if kind == "missing" else f"{shown(value)}: {what}"


def _must_be_one_of(names: Iterable[str], written: object) -> str:
    known = list(names)
    if len(known) == 1:
        return f"must be {known[0]!r}"
    near = difflib.get_close_matches(shown(written, str), known, n=1)
    return f"must be one of {', '.join(map(repr, known))}" + (
        f"; did you mean {near[0]!r}?" if near else ""
    )


def _keys_at(model: type[BaseModel], where: Iterable[str]) -> dict[str, FieldInfo]:
    """The fields of the table at a path; names and numbers of entries lead nowhere else."""
    for part in where:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        if part in fields:
            model = next(_models_in(fields[part].annotation), model)
    return model.model_fields


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)
