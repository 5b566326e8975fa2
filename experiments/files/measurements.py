"""What benchmarks print: nccl-tests and rccl-tests, and MLPerf's training logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from experiments.encodings import comment
from experiments.notices import tell
from experiments.output import UsageError
from experiments.results.formats import csv_of
from hardware.reader import MOST_ROWS, parse_json, read_text, shown
from workloads import SIZES

MOST_BYTES = 64 << 20
"""Of a log."""
MOST_TIMED = 4000


@dataclass(frozen=True, slots=True)
class Timed:
    """One collective of ``bytes`` (the full tensor), out of place."""

    collective: str
    bytes: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run of nccl-tests or rccl-tests took: of so many ranks ``on_nodes`` each."""

    path: str
    device: str
    on_nodes: tuple[int, ...]
    rows: tuple[Timed, ...]

    @property
    def nodes(self) -> int:
        """Hosts."""
        return len(self.on_nodes)

    @property
    def ranks(self) -> int:
        """Devices that took part."""
        return sum(self.on_nodes)


PROGRAMS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
}
"""nccl-tests' programs that measure what is simulated here."""
_PROGRAM = re.compile(rf"({'|'.join(PROGRAMS)})_perf")
_OTHER = re.compile(r"\b(\w{2,30})_perf\b")
_RANK = re.compile(
    r"#\s+Rank\s+(\d{1,7})\s.{0,80}? on\s+(\S{1,255})\s+device\s+\d+\s+\[[^\]]*\] (.*)"
)
_NUMBER = r"\s+(\d{1,20}(?:\.\d{1,6})?)"
_ROW = re.compile(
    r"^\s*(\d{1,20})\s+\d{1,20}\s+[a-z]\w{0,12}(?:\s+[a-z]\w{0,12})?(?:\s+-?\d{1,6})?"
    rf"{_NUMBER * 3}\s+\S{{1,12}}(?:{_NUMBER * 3}\s+\S{{1,12}})?\s*$"
)
_SIZED = re.compile(r"^\s*\d{1,20}\s+\d{1,20}\s+[a-z]")
"""How a row begins, of which some have no time (nan, -1)."""
_PREFIX = re.compile(r"^\[\d+,\d+\]<std\w{3}>:|^\d+: ")
"""What mpirun and srun write before each line."""


def is_nccl(text: str) -> bool:
    """Whether it is what nccl-tests or rccl-tests print."""
    return "busbw" in text and "out-of-place" in text


def nccl(text: str, path: str) -> Measured:
    """Read a run of nccl-tests or rccl-tests; raises UsageError."""
    hosts, rows, device, skipped = dict[str, int](), list[Timed](), "", list[int]()
    name = _PROGRAM.search(text) or _PROGRAM.search(Path(path).name)
    if name is None:
        other = _OTHER.search(text)
        said = f"{other[0]} is not simulated" if other else "which collective is not said"
        raise UsageError(
            f"{path}: {said}; one of {', '.join(f'{one}_perf' for one in PROGRAMS)}, in the text "
            "or in the file's name"
        )
    for number, line in enumerate(text.splitlines(), 1):
        line = _PREFIX.sub("", line[:1000])
        if rank := _RANK.match(line):
            hosts[rank[2]] = hosts.get(rank[2], 0) + 1
            device = device or rank[3].strip()[:100]
        elif found := _ROW.match(line):
            size, seconds = float(found[1]), float(found[2]) / 1e6
            if not size or not seconds:
                skipped += [number] if size else []
                continue
            algbw = size / seconds / 1e9
            if abs(algbw - float(found[3])) > 0.02 * algbw + 0.011:
                raise UsageError(
                    f"{path}:{number}: algbw {found[3]} is not {size:.0f} B in {found[2]} us "
                    f"({algbw:.2f} GB/s)"
                )
            rows.append(Timed(PROGRAMS[name[1]], size, seconds))
        elif _SIZED.match(line):
            skipped.append(number)
    if not hosts:
        raise UsageError(f"{path}: no lines as '# Rank 0 ... on HOST device 0': who took part?")
    if not 1 <= len(rows) <= MOST_TIMED:
        raise UsageError(f"{path}: {len(rows)} rows of sizes and times; 1 to {MOST_TIMED} are read")
    if sum(hosts.values()) < 2:
        raise UsageError(f"{path}: one rank exchanges nothing")
    if skipped:
        lines = ", ".join(map(str, skipped[:5])) + (", ..." if skipped[5:] else "")
        tell(f"{path}: rows without a time are left out: {len(skipped)} (line {lines})")
    return Measured(path, device, tuple(hosts.values()), tuple(rows))


MLLOG = ":::MLLOG"
"""What lines of MLPerf's logging begin with."""
_MODELS = {
    "gpt3": "gpt3-175b",
    "llama31_405b": "llama3-405b",
    "llama31_8b": "llama3-8b",
    "deepseekv3_671b": "deepseek-v3",
}
"""Benchmarks that are transformers trained as a whole, as networks of ours."""
_NUMBERS = {
    "gbs": "global_batch_size",
    "mbs": "micro_batch_size",
    "seq": "max_sequence_length",
    "tp": "tensor_parallelism",
    "pp": "pipeline_parallelism",
    "cp": "context_parallelism",
    "ep": "expert_parallelism",
    "gpus": "number_of_ranks",
    "gpus_per_node": "accelerators_per_node",
}
_PRECISIONS = {"fp8": "fp8", "fp4": "fp4", "bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16"}
_CHIP = re.compile(r"G?B[23]00|G?H[12]00|A100(-[48]0)?|V100(-32)?|MI\d{3}X|TPUV\d\w?")
_COLUMNS = (
    *("id", "source", "kind", "hw", "gpus", "gpus_per_node", "framework", "year", "model", "arch"),
    *("layers", "hidden", "ffn", "heads", "kv_heads", "vocab", "seq", "precision", "gated", "gbs"),
    *("mbs", "tp", "pp", "cp", "ep", "step_s"),
)


@dataclass(frozen=True, slots=True)
class Log:
    """A log as the cells of one row of ``validate --rows``, and what it does not say."""

    path: str
    cells: Mapping[str, str]
    notes: tuple[str, ...]

    def to_csv(self) -> str:
        """The row, unknown cells empty, notes in front."""
        lines = [*map(comment, (f"read from {self.path}: MLPerf's log", *self.notes))]
        row = {column: self.cells.get(column, "") for column in _COLUMNS}
        return "\n".join([*lines, csv_of([row])])


LOGS = (".log", ".txt", ".out")
"""How names of logs end."""


def log_text(path: str) -> str:
    """The text of a log; "" of a file that is none by its name."""
    return read_text(path, UsageError, "a log", MOST_BYTES) if path.lower().endswith(LOGS) else ""


def mllog(text: str, path: str) -> Log:
    """Read an MLPerf training log; raises UsageError."""
    events = _events(text, path)
    values = {str(one["key"]): one.get("value") for one in events if "key" in one}
    notes = list[str]()
    benchmark = " ".join(str(values.get("submission_benchmark", ""))[:60].split())
    cells = {
        "id": re.sub(r"[^\w.-]", "_", Path(path).stem)[:100] or "log",
        "source": " ".join(f"MLPerf {str(values.get('submission_org', ''))[:60]}".split()),
        "kind": "step",
        "model": benchmark,
    }
    for column, key in _NUMBERS.items():
        value = values.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9:
            cells[column] = str(value)
    if "gpus" not in cells:
        nodes = values.get("number_of_nodes")
        each = cells.get("gpus_per_node")
        if isinstance(nodes, int) and each and 0 < nodes < 10**6:
            cells["gpus"] = str(nodes * int(each))
    platform = str(values.get("submission_platform", ""))[:200]
    if chip := _CHIP.search(platform.upper().replace(" ", "")):  # as rows call it
        cells["hw"] = chip[0].replace("TPUV", "TPUv")
    precision = str(values.get("lowest_numerical_precision_in_linear", "")).lower()
    cells |= {"precision": found} if (found := _PRECISIONS.get(precision)) else {}
    cells = _sizes(benchmark, notes) | cells  # the log's own come first
    cells |= _step(events, cells, notes)
    for column in ("hw", "gpus", "gbs", "precision", "layers", "step_s"):
        if column not in cells:
            notes.append(f"{column}: not in the log; write it")
    return Log(path, cells, tuple(notes))


def _events(text: str, path: str) -> list[dict[str, Any]]:
    found = list[dict[str, Any]]()
    for number, line in enumerate(text.splitlines(), 1):
        if MLLOG not in line:
            continue
        if len(line) > MOST_ROWS * 100:
            raise UsageError(f"{path}:{number}: a line of {len(line):,} characters is not read")
        event = parse_json(line.partition(MLLOG)[2], f"{path}:{number}", UsageError)
        if not isinstance(event, dict):
            raise UsageError(f"{path}:{number}: {shown(event)}: must be an object behind {MLLOG}")
        found.append(event)
    return found


def _sizes(benchmark: str, notes: list[str]) -> dict[str, str]:
    """The sizes of a benchmark's network; those of other benchmarks are not known here."""
    if (name := _MODELS.get(benchmark)) is None:
        notes.append(f"submission_benchmark = {benchmark or 'none'}: write the network's sizes")
        return {}
    of = SIZES[name]
    if of.experts:
        notes.append(f"{name} has experts: write the sizes of experts and of latent attention")
        return {"arch": "mla_moe"}
    sizes = {"layers": of.layers, "hidden": of.hidden, "heads": of.heads, "vocab": of.vocab}
    sizes |= {"ffn": of.ffn or 4 * of.hidden, "kv_heads": of.kv_heads or of.heads, "seq": of.seq}
    return {"arch": "llama" if of.gated else "gpt", "gated": str(int(of.gated))} | {
        key: str(value) for key, value in sizes.items()
    }


def _step(
    events: list[dict[str, Any]], cells: Mapping[str, str], notes: list[str]
) -> dict[str, str]:
    """Seconds of a step: as the log has them, by its samples in time, or by its throughput."""
    stats = [one["value"] for one in events if isinstance(one.get("value"), dict)]
    steps = [_positive(one.get("train_step_time")) for one in stats]
    if known := [one for one in steps if one]:
        return {"step_s": f"{median(known):.6g}"}
    batch = int(cells.get("gbs", 0))
    rates = [rate for one in stats if (rate := _positive(one.get("throughput")))]
    timed = sorted(
        (samples, at)
        for one in events
        if one.get("key") in ("train_loss", "block_start", "block_stop")
        and isinstance(one.get("metadata"), dict)
        and (at := _positive(one.get("time_ms")))
        and (samples := _count(one["metadata"].get("samples_count"))) is not None
    )
    spans = [(b - a, (to - at) / 1e3) for (a, at), (b, to) in pairwise(timed) if b > a and to > at]
    if spans:
        samples, seconds = np.array(spans).T  # the rate of the sample in the middle
        middle = np.quantile(samples / seconds, 0.5, weights=samples, method="inverted_cdf")
        rates = [float(middle)]
    elif rates:
        notes.append("step_s: from throughput, taken as samples a second")
    if not batch or not rates:
        return {}
    return {"step_s": f"{batch / median(rates):.6g}"}


def _count(value: object) -> float | None:
    return 0.0 if value == 0 and not isinstance(value, bool) else _positive(value)


def _positive(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e15
    return float(value) if known else None  # type: ignore[arg-type]
