"""Rows for tests: a small transformer on a few chips, and a table's text."""

from __future__ import annotations

from typing import Any

from experiments.measured.rows import Row, parse

SMALL: dict[str, Any] = {
    "id": "small/0",
    "source": "small",
    "kind": "step",
    "hw": "H100",
    "gpus": 8,
    "gpus_per_node": 8,
    "framework": "NeMo 24.07 + TE",
    "year": 2024,
    "model": "tiny",
    "arch": "llama",
    "layers": 4,
    "hidden": 1024,
    "ffn": 4096,
    "gated": 1,
    "heads": 8,
    "kv_heads": 8,
    "vocab": 32000,
    "seq": 512,
    "precision": "bf16",
    "gbs": 32,
    "mbs": 2,
    "tp": 2,
    "sp": 1,
    "pp": 1,
    "cp": 1,
    "ep": 1,
    "dp": 4,
    "dp_kind": "ddp",
    "recompute": "none",
    "attn": "flash",
    "step_s": 0.05,
}


def table(*rows: dict[str, Any]) -> str:
    """A CSV of rows with the columns that they have."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [",".join(str(row.get(key, "")) for key in columns) for row in rows]
    return "\n".join([",".join(columns), *lines]) + "\n"


def small(**changed: Any) -> Row:
    """The small row, otherwise."""
    (row,) = parse(table(SMALL | changed), "rows.csv")
    return row
