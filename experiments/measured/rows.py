"""Measured steps of large models: one CSV format, checked strictly; what is not known is empty.

A row is a step that somebody measured: a transformer, a machine, how it was split,
and seconds. The columns are those of the compiled table in docs/large-models.md.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from experiments.output import UsageError
from experiments.validate.rows import MOST_ROWS, Cells, shipped_text, text_of

TEXTS = ("source", "kind", "hw", "framework", "model", "arch", "precision", "dp_kind")
HABITS = ("recompute", "attn", "overlap")
WHOLE = (
    "gpus",
    "gpus_per_node",
    "year",
    "layers",
    "hidden",
    "ffn",
    "heads",
    "kv_heads",
    "head_dim",
    "vocab",
    "experts",
    "topk",
    "moe_ffn",
    "shared_ffn",
    "dense_layers",
    "seq",
    "gbs",
    "mbs",
    "tp",
    "pp",
    "vp",
    "cp",
    "ep",
    "dp",
)
FLAGS = ("gated", "sp")
NUMBERS = ("nic_gbps_per_gpu", "step_s", "mem_gib")
REMARKS = (
    "where",
    "certainty",
    "split",
    "intra_link",
    "tokens_s_gpu",
    "tflops_gpu",
    "tflops_convention",
    "mfu_pct",
    "derived",
    "notes",
)
"""Columns that say where a row is from, or its result in other words: they are not read."""
REQUIRED = ("id", "source", "hw", "gpus")
COLUMNS = ("id", *TEXTS, *HABITS, *WHOLE, *FLAGS, *NUMBERS, *REMARKS)
CALIBRATION = "large_models_calibration.csv"
MOST = 1e9
LONGEST = 200


@dataclass(frozen=True, slots=True)
class Row:
    """One measured step; None is unknown.

    ``gpus`` are chips of any make, ``hw`` their name. ``arch`` is gpt, llama, moe or
    mla_moe, ``layers`` ... ``dense_layers`` the transformer's sizes. ``gbs`` sequences of
    ``seq`` tokens are a batch, ``mbs`` a micro-batch of one replica. ``dp_kind`` is none, ddp,
    fsdp, zero1, zero2 or zero3; ``step_s`` is measured, and so is ``mem_gib`` of a chip.
    """

    id: str
    source: str
    kind: str
    hw: str
    framework: str
    model: str
    arch: str
    precision: str
    dp_kind: str
    recompute: str
    attn: str
    overlap: str
    gpus: int
    gpus_per_node: int | None
    year: int | None
    layers: int | None
    hidden: int | None
    ffn: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    vocab: int | None
    experts: int | None
    topk: int | None
    moe_ffn: int | None
    shared_ffn: int | None
    dense_layers: int | None
    seq: int | None
    gbs: int | None
    mbs: int | None
    tp: int | None
    pp: int | None
    vp: int | None
    cp: int | None
    ep: int | None
    dp: int | None
    gated: bool
    sp: bool
    nic_gbps_per_gpu: float | None
    step_s: float | None
    mem_gib: float | None

    @property
    def dense(self) -> bool:
        """Whether it has no experts."""
        return not self.experts


def shipped() -> tuple[Row, ...]:
    """The rows for calibration that come with accelarray."""
    return parse(shipped_text(CALIBRATION), CALIBRATION)


def load(path: str) -> tuple[Row, ...]:
    """The rows of a file; raises UsageError with file, line and column."""
    return parse(text_of(path), path)


def parse(text: str, name: str) -> tuple[Row, ...]:
    """The rows of a table's text, lines that begin with # apart.

    Raises UsageError with file, line and column.
    """
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        lines = [
            (reader.line_num, cells)
            for cells in reader
            if any(map(str.strip, cells)) and not cells[0].startswith("#")
        ]
    except csv.Error as error:
        raise UsageError(f"{name}:{reader.line_num}: not a line of CSV: {error}") from None
    if not lines:
        raise UsageError(f"{name}: no rows")
    header = [cell.strip() for cell in lines[0][1]]
    _check_header(header, f"{name}:{lines[0][0]}")
    if not 1 < len(lines) <= MOST_ROWS + 1:
        raise UsageError(f"{name}: {len(lines) - 1} rows; 1 to {MOST_ROWS} are read")
    return _unique([_row(cells, header, f"{name}:{number}") for number, cells in lines[1:]], name)


def _check_header(header: Sequence[str], where: str) -> None:
    if missing := [column for column in REQUIRED if column not in header]:
        raise UsageError(f"{where}: there is no column {missing[0]}; columns: {','.join(COLUMNS)}")
    for column in header:
        if column not in COLUMNS:
            raise UsageError(f"{where}: unknown column {column[:40]!r}; one of {','.join(COLUMNS)}")
        if header.count(column) > 1:
            raise UsageError(f"{where}: column {column} twice")


def _row(values: Sequence[str], header: Sequence[str], where: str) -> Row:
    if len(values) != len(header):
        raise UsageError(f"{where}: {len(values)} values; {len(header)} columns")
    cells = dict.fromkeys(COLUMNS, "") | {
        key: value.strip() for key, value in zip(header, values, strict=True)
    }
    found: dict[str, Any] = {key: _text(cells, key, where) for key in ("id", *TEXTS, *HABITS)}
    found |= {key: _whole(cells, key, where) for key in WHOLE}
    found |= {key: _number(cells, key, where) for key in NUMBERS}
    found |= {key: bool(_number(cells, key, where)) for key in FLAGS}
    for key in REQUIRED:
        if not found[key]:
            raise UsageError(f"{where}: {key} is missing")
    return Row(**{field.name: found[field.name] for field in fields(Row)})


def _text(cells: Cells, key: str, where: str) -> str:
    if len(cells[key]) > LONGEST:
        raise UsageError(f"{where}: {key}: {cells[key][:40]!r}...: at most {LONGEST} characters")
    return cells[key]


def _number(cells: Cells, key: str, where: str) -> float | None:
    """A number of 0 to MOST; nothing, and "nan", is unknown."""
    text = cells[key]
    if text.lower() in ("", "nan"):
        return None
    try:
        number = float(text)
    except ValueError:
        raise UsageError(f"{where}: {key}: {text[:40]!r} is not a number") from None
    if not 0 <= number <= MOST:
        raise UsageError(f"{where}: {key}: {text[:40]} is outside 0...{MOST:g}")
    return number


def _whole(cells: Cells, key: str, where: str) -> int | None:
    number = _number(cells, key, where)
    if number is None or number == 0:
        return None
    if not math.isclose(number, round(number)):
        raise UsageError(f"{where}: {key}: {cells[key][:40]} is not a whole number")
    return round(number)


def _unique(rows: Iterable[Row], name: str) -> tuple[Row, ...]:
    seen: dict[str, Row] = {}
    for row in rows:
        if row.id in seen:
            raise UsageError(f"{name}: two rows are called {row.id[:80]!r}")
        seen[row.id] = row
    return tuple(seen.values())
