"""Measured steps of large models: one CSV format, checked strictly; what is not known is empty.

A row is a step that somebody measured: a transformer, a machine, how it was split,
and seconds. The columns are those of the compiled table in docs/reference/specs.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from experiments.files.measurements import MLLOG, log_text, mllog
from experiments.output import UsageError
from experiments.studies.published_values import shipped_rows
from hardware.reader import Cells, checked_rows, number, parse_csv, read_text, whole
from hardware.reader import Row as Line
from workloads.importers.transformer_file import LONGEST, MOST_LAYERS

REMARKS = (
    *("where", "certainty", "split", "intra_link", "tokens_s_gpu", "tflops_gpu"),
    *("tflops_convention", "mfu_pct", "derived", "notes"),
)
"""Columns that say where a row is from, or its result in other words: they are not read."""
CALIBRATION = "large_models_calibration.csv"
MOST = 10**9

Text = Annotated[str, Field(max_length=200)]
LongText = Annotated[str, Field(max_length=4000)]
Unknown = AfterValidator(lambda count: count or None)
"""Of what is counted None and 0 are unknown."""
Count = Annotated[int | None, whole(0, MOST), Unknown]
Layers = Annotated[int | None, whole(0, MOST_LAYERS), Unknown]
Tokens = Annotated[int | None, whole(0, LONGEST), Unknown]
Measure = Annotated[float, number(0, MOST)] | None


def _flag(cell: Any) -> Any:
    """Of a cell that is not empty whether it is 1; ValueError for what is neither 0 nor 1."""
    try:
        known = not cell or float(cell) in (0.0, 1.0)
    except ValueError:
        known = False
    if not known:
        raise ValueError("must be 0 or 1")
    return cell and float(cell) != 0


Flag = Annotated[bool, BeforeValidator(_flag)]


class LeftOutError(ValueError):
    """A row of which nothing can be said; the message is why."""


class Row(Cells):
    """One measured step; None is unknown.

    ``gpus`` are chips of any make, ``hw`` their name. ``arch`` is gpt, llama, moe or
    mla_moe, ``layers`` ... ``dense_layers`` the transformer's sizes. ``gbs`` sequences of
    ``seq`` tokens are a batch, ``mbs`` a micro-batch of one replica. ``dp_kind`` is none, ddp,
    fsdp, zero1, zero2 or zero3; ``step_s`` is measured, and so is ``mem_gib`` of a chip:
    ``mem_kind`` says of what (allocated, reserved, or used as the driver counts it).
    Of unlike chips ``array`` is a spec beside the table, and ``stage_hw`` and ``stage_layers``
    are as on the command line. A ``network`` stands for the sizes: a name, or a file beside the
    table. Rows of one ``group`` are plans for the same job.
    """

    id: Text
    source: Text
    kind: Text = ""
    hw: Text = ""
    array: Text = ""
    network: Text = ""
    stage_hw: LongText = ""
    stage_layers: LongText = ""
    group: Text = ""
    framework: Text = ""
    model: Text = ""
    arch: Text = ""
    precision: Text = ""
    dp_kind: Text = ""
    recompute: Text = ""
    attn: Text = ""
    overlap: Text = ""
    gpus: Annotated[int, whole(1, MOST)]
    gpus_per_node: Count = None
    year: Count = None
    layers: Layers = None
    hidden: Count = None
    ffn: Count = None
    heads: Count = None
    kv_heads: Count = None
    head_dim: Count = None
    vocab: Count = None
    experts: Count = None
    topk: Count = None
    moe_ffn: Count = None
    shared_ffn: Count = None
    dense_layers: Count = None
    seq: Tokens = None
    gbs: Count = None
    mbs: Count = None
    tp: Count = None
    pp: Count = None
    vp: Count = None
    cp: Count = None
    ep: Count = None
    dp: Count = None
    gated: Flag = False
    sp: Flag = False
    nic_gbps_per_gpu: Measure = None
    step_s: Measure = None
    mem_gib: Measure = None
    mem_kind: Literal["", "allocated", "reserved", "used"] = ""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, cells: dict[str, str]) -> dict[str, Any]:
        """What is written of it: no remarks, and nothing that is unknown."""
        return {
            column: cell
            for column, cell in cells.items()
            if column not in REMARKS
            and (cell.lower() not in ("", "nan") or column not in cls.model_fields)
        }

    @model_validator(mode="after")
    def _has_chips(self) -> Row:
        if not self.hw and not self.array:
            raise ValueError("hw: is missing (or array: a spec beside the table)")
        return self

    @property
    def dense(self) -> bool:
        """Whether it has no experts."""
        return not self.experts


def shipped() -> tuple[Row, ...]:
    """Return the rows for calibration that come with accelarray."""
    return _unique(shipped_rows(CALIBRATION))


def load(path: str) -> tuple[Row, ...]:
    """Return the rows of a file, a table's or one of an MLPerf log.

    Raises UsageError with file, line and column.
    """
    if MLLOG in (text := log_text(path)):
        log = mllog(text, path)
        if not {"hw", "gpus", "layers"} <= log.cells.keys():
            raise UsageError(
                f"{path}: {'; '.join(log.notes)}; accelarray read {path} --output rows.csv "
                "writes the row to complete"
            )
        return tuple(checked_rows(Row, [(path, dict(log.cells))], UsageError))
    rows = parse(read_text(path, UsageError, "such a table"), path)
    return tuple(_beside(path, row) for row in rows)


def _beside(path: str, row: Row) -> Row:
    """The row with the files that it names found from the table's folder; the rest are names."""
    files = {key: name for key in ("array", "network") if (name := getattr(row, key))}
    for key, name in files.items():
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise UsageError(
                f"{path}: {row.id}: {key}: {name[:80]!r}: name a file beside the table, or in a "
                "folder there"
            )
        if name.partition(":")[0].endswith((".toml", ".onnx", ".txt", ".json")):
            files[key] = str(Path(path).parent / name)
    return row.model_copy(update=files)


def parse(text: str, name: str) -> tuple[Row, ...]:
    """Return the rows of a table's text, lines that begin with # apart.

    Raises UsageError with file, line and column.
    """
    return _unique(parse_csv(text, name, UsageError))


def _unique(lines: Sequence[Line]) -> tuple[Row, ...]:
    rows = checked_rows(Row, lines, UsageError)
    seen = set[str]()
    for (where, _), row in zip(lines, rows, strict=True):
        if row.id in seen:
            raise UsageError(f"{where}: two rows are called {row.id[:80]!r}")
        seen.add(row.id)
    return tuple(rows)
