"""Traces of PyTorch's profiler (Kineto): a simulated step as such files, and a file read back.

A file is of one rank: kernels on streams, the launch of each, process groups, messages. Hosts are
not simulated: a launch is written where its kernel begins.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, TextIO, cast

from experiments.explain.kernels import COLLECTIVES, COPIES, Interval, Kernel, Sums, mean, sums
from experiments.explain.kernels import kernels as kernels_of
from experiments.files.ranks import Message, Ranks, file_of
from experiments.output import UsageError
from experiments.pictures.trace import Event, write_trace
from hardware.reader import shown
from planners.order import Kind
from simulator import PICOSECONDS, Operation, Timeline
from simulator.cost.operators import WORK
from simulator.engine.operations import Board

PRODUCTS, ATTENTION, ELEMENTWISE = WORK
_KERNELS = {PRODUCTS: "gemm", ATTENTION: "flash_attention", ELEMENTWISE: "elementwise"}
_NCCL = {
    "all-reduce": ("AllReduce_Sum", "allreduce"),
    "reduce-scatter": ("ReduceScatter_Sum", "_reduce_scatter_base"),
    "all-gather": ("AllGather", "_allgather_base"),
    "all-to-all": ("SendRecv", "all_to_all"),
    "broadcast": ("Broadcast", "broadcast"),
}
"""NCCL's kernel, and the collective as torch.distributed calls it."""
_TYPES = {1.0: ("f8e4m3", "Float8_e4m3fn"), 2.0: ("bf16", "BFloat16"), 4.0: ("f32", "Float")}
COMPUTE_STREAM, FIRST_STREAM = 7, 20
"""Streams of computation (each unit of a core has one), and of process groups."""
HOST = 1_000_000
"""The process of rank 0's host; devices are processes 0, 1, ..."""
PS_A_NS, NS_A_US = 1000, 1000


def write(
    ranks: Ranks, timeline: Timeline, chosen: Collection[int], path: str, about: Mapping[str, Any]
) -> None:
    """A file for each chosen rank: step.0.pt.trace.json, step.1.pt.trace.json."""
    for number, mine in enumerate(kernels_of(timeline)):
        if (rank := ranks.numbers[number]) not in chosen:
            continue
        header = _header(ranks, rank, timeline.program.workers[number].device)
        write_trace(_Rank(ranks, rank, timeline).events(mine), about, file_of(path, rank), header)


def _header(ranks: Ranks, rank: int, device: Board) -> dict[str, Any]:
    groups = [
        {
            "pg_name": str(number),
            "pg_desc": "default_pg" if number == 0 else f"group {number}",
            "backend_config": "cuda:nccl",
            "pg_size": len(group),
            "ranks": list(group),
        }
        for group, number in ranks.groups.items()
    ]
    known = {"name": device.name, "totalGlobalMem": int(device.hbm_capacity_bytes)}
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": rank, **known}],
        "distributedInfo": {
            "backend": "nccl",
            "rank": rank,
            "world_size": len(ranks.numbers),
            "pg_count": len(groups),
            "pg_config": groups,
        },
    }


class _Rank:
    """The events of one rank."""

    def __init__(self, ranks: Ranks, rank: int, timeline: Timeline) -> None:
        self._ranks, self._rank, self._timeline = ranks, rank, timeline
        self._host = HOST + rank
        self._until: dict[int, int] = {}
        """When the last kernel of each stream ends (ps): a stream runs one at a time."""

    def events(self, kernels: list[Kernel]) -> Iterator[Event]:
        """Names of processes and threads, the step, then kernels with their launches."""
        named = (self._host, "python", "CPU"), (self._rank, "python", f"GPU {self._rank}")
        for pid, name, label in named:
            yield _metadata("process_name", pid, name=name)
            yield _metadata("process_labels", pid, labels=label)
        many = self._timeline.batches  # without a flush batches overlap: all are as long
        ends = [self._timeline.makespan_ps * n // many // PS_A_NS for n in range(many + 1)]
        for n, span in enumerate(pairwise(ends)):
            name = f"ProfilerStep#{n}"
            yield _complete("user_annotation", name, self._host, self._host, span, {})
        for number, kernel in enumerate(kernels, 1):
            yield from self._kernel(number, kernel)

    def _kernel(self, number: int, kernel: Kernel) -> Iterator[Event]:
        columns = self._timeline.columns
        operation = self._timeline.operations[columns.operation[kernel.row]]
        stream = COMPUTE_STREAM + operation.unit
        name = f"{_KERNELS.get(kernel.work)}_{operation.phase}"
        args: dict[str, Any] = {"layer": operation.layer, "phase": str(operation.phase)}
        if kernel.work in COLLECTIVES:
            message = self._ranks.message(operation, self._rank)
            stream = FIRST_STREAM + self._ranks.groups[message.group]
            while self._until.get(stream, 0) > kernel.start_ps:
                stream += len(self._ranks.groups)
            name, more = self._exchange(operation, message, kernel)
            args |= more
            self._until[stream] = kernel.end_ps
        elif operation.kind == Kind.COMPUTE:
            args["flops"] = operation.flops if kernel.work != ELEMENTWISE else 0.0
        span = kernel.start_ps // PS_A_NS, kernel.end_ps // PS_A_NS
        args |= {"device": self._rank, "context": 1, "stream": stream, "correlation": number}
        args |= {"micro_batch": columns.micro_batch[kernel.row], "External id": number}
        launch = span[0] // NS_A_US * NS_A_US  # a host is not simulated
        at, on = (launch, launch), {"correlation": number, "External id": number}
        flow = {"cat": "ac2g", "name": "ac2g", "id": number}
        yield _complete("kernel", name, self._rank, stream, span, args)
        yield _complete("cuda_runtime", "cudaLaunchKernel", self._host, self._host, at, on)
        yield flow | {"ph": "s", "pid": self._host, "tid": self._host, "ts": launch / NS_A_US}
        there = {"pid": self._rank, "tid": stream, "ts": span[0] / NS_A_US}
        yield flow | {"ph": "f", "bp": "e"} | there

    def _exchange(
        self, operation: Operation, message: Message, kernel: Kernel
    ) -> tuple[str, dict[str, Any]]:
        """NCCL's kernel, and what torch writes of a collective."""
        each = self._ranks.element_bytes(operation)
        short, type_ = _TYPES.get(each, (f"u{each:g}", "Byte"))
        unit = each if each in _TYPES else 1.0
        peer = "recv" if kernel.received else "send"
        nccl, collective = _NCCL.get(message.work, ("SendRecv", peer))
        algorithm = operation.jobs[0].name.split(" ")[1:] if operation.jobs else []
        words = [nccl, short, *(word.replace("-", "_").upper() for word in algorithm)]
        group = list(message.group)
        return f"ncclDevKernel_{'_'.join(words)}", {
            "Collective name": collective,
            "In msg nelems": round(message.brings / unit),
            "Out msg nelems": round(message.has / unit),
            "In split size": "[]",
            "Out split size": "[]",
            "dtype": type_,
            "Group size": len(group),
            "Process Group Name": str(self._ranks.groups[message.group]),
            "Process Group Ranks": str(group),
            "Rank": group.index(self._rank) if self._rank in group else 0,
        }


def _metadata(what: str, pid: int, **args: Any) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": 0, "ts": 0, "args": args}


def _complete(
    cat: str, name: str, pid: int, tid: int, span_ns: Interval, args: dict[str, Any]
) -> Event:
    start, end = span_ns
    times = {"ts": start / NS_A_US, "dur": (end - start) / NS_A_US}
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, **times, "args": args}


MOST_CHARACTERS = 2 << 30
"""Of a trace, unpacked."""
MOST_VALUE = 1 << 20
"""Characters of one event."""
MOST_BESIDE = 8 << 20
"""Characters of a value beside the events: process groups of many ranks."""
MOST_KERNELS = 2_000_000
MOST_TS, MOST_US = 1e18, 1e12
"""Microseconds: of a time stamp, and of a trace's time."""
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
PS_A_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace's kernels, summed for a step of a device: of ``steps`` steps, or of the whole.

    ``rank`` and ``world_size`` are None where the file does not say them.
    """

    path: str
    sums: Sums
    kernels: int
    devices: int
    steps: int
    rank: int | None = None
    world_size: int | None = None


class _Text:
    """A JSON file of which only the value that is read is in memory."""

    def __init__(self, path: str, file: TextIO) -> None:
        self._path, self._file = path, file
        self._text, self._at, self._read, self._over = "", 0, 0, False
        self._decode = json.JSONDecoder().raw_decode

    def fault(self, what: str) -> UsageError:
        """An error, with the place."""
        place = self._read - len(self._text) + self._at
        return UsageError(f"{self._path}: character {place:,}: {what}")

    def _more(self) -> None:
        more = self._file.read(MOST_VALUE)
        self._text, self._at = self._text[self._at :] + more, 0
        self._read, self._over = self._read + len(more), not more
        if self._read > MOST_CHARACTERS:
            raise self.fault(f"larger than {MOST_CHARACTERS >> 30} GiB unpacked; not read")

    def next(self) -> str:
        """The next character that is no blank; "" at the end."""
        while True:
            found = _BLANKS.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._over:
                return ""
            self._more()

    def take(self, wanted: str) -> str:
        """The next one of some characters, which is taken."""
        if (found := self.next()) == "" or found not in wanted:
            raise self.fault(f"not valid JSON: expected one of {' '.join(wanted)}")
        self._at += 1
        return found

    def items(self, ends: str) -> Iterator[None]:
        """In front of each item of an object or a list, whose ``ends`` are {} or []."""
        self.take(ends[0])
        if self.next() == ends[1]:
            self.take(ends[1])
            return
        yield
        while self.take(f",{ends[1]}") == ",":
            yield

    def value(self, most: int) -> Any:
        """The next value, of at most so many characters."""
        self.next()
        while True:
            try:
                found, end = self._decode(self._text, self._at)
                if end < len(self._text) or self._over:
                    self._at = end
                    return found
            except (ValueError, RecursionError) as cause:
                if self._over or len(self._text) - self._at > most:
                    said = "nested too deep" if isinstance(cause, RecursionError) else "a value"
                    raise self.fault(f"not valid JSON, or too long a value ({said})") from None
            self._more()


_BLANKS = re.compile(r"[ \t\r\n]*")


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Read the file of one rank, .json or .json.gz; raises UsageError."""
    name = os.fspath(path)
    try:
        with Path(name).open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            file = cast("IO[bytes]", gzip.GzipFile(fileobj=raw) if packed else raw)
            with file, io.TextIOWrapper(file, "utf-8-sig") as text:
                return _read(name, _Text(name, text))
    except UnicodeDecodeError:
        raise UsageError(f"{name}: not a text file (expected UTF-8)") from None
    except (OSError, EOFError, zlib.error) as cause:
        said = getattr(cause, "strerror", None) or cause
        raise UsageError(f"{name}: cannot be read: {said}") from None


class _Found:
    """What of a trace counts: intervals in picoseconds by device and class, steps, ranks."""

    def __init__(self) -> None:
        self.spans: dict[object, dict[str, list[Interval]]] = {}
        self.steps: dict[str, Interval] = {}
        self.kernels = 0
        self.info: object = None

    def event(self, event: object, fault: Callable[[str], UsageError]) -> None:
        """Note a kernel, a copy or a step; all else does not count."""
        if not isinstance(event, dict):
            raise fault(f"an event must be an object, not {shown(event)}")
        cat, name = event.get("cat"), event.get("name")
        step = cat == "user_annotation" and str(name).startswith("ProfilerStep")
        if event.get("ph") != "X" or not (step or cat in GPU):
            return
        span = tuple(_microseconds(event, key, fault) * PS_A_US for key in ("ts", "dur"))
        start, end = round(span[0]), round(span[0]) + round(span[1])
        if step:
            self.steps[str(name)[:100]] = start, end
            return
        self.kernels += 1
        if self.kernels > MOST_KERNELS:
            raise fault(f"more than {MOST_KERNELS:,} kernels; record fewer steps")
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        collective = args.get("Collective name", "")
        work = COPIES if cat != "kernel" else class_of(str(name)[:500], str(collective)[:100])
        device = str(args.get("device", event.get("pid")))[:20]
        self.spans.setdefault(device, {}).setdefault(work, []).append((start, end))


def _microseconds(event: dict[str, Any], key: str, fault: Callable[[str], UsageError]) -> float:
    value, least = event.get(key), 0 if key == "dur" else -MOST_TS
    if isinstance(value, int | float) and value is not True and least <= value <= MOST_TS:
        return float(value)
    must = "a number of microseconds" + ", not negative" * (key == "dur")
    raise fault(f"{shown(event.get('name'))}: {key}: {shown(value)}: must be {must}")


def _read(name: str, text: _Text) -> Trace:
    """All values of the file; of the events those that count."""
    found = _Found()
    for _ in text.items("{}"):
        key = text.value(MOST_VALUE)
        text.take(":")
        if key == "traceEvents":
            for _ in text.items("[]"):
                found.event(text.value(MOST_VALUE), text.fault)
        elif key == "distributedInfo":
            found.info = text.value(MOST_BESIDE)
        else:
            text.value(MOST_BESIDE)
    if not found.spans:
        raise UsageError(
            f"{name}: no GPU kernels: record with torch.profiler's ProfilerActivity.CUDA, and give "
            "the file that export_chrome_trace or tensorboard_trace_handler wrote"
        )
    every = [span for of in found.spans.values() for some in of.values() for span in some]
    every += found.steps.values()
    first, last = min(start for start, _ in every), max(end for _, end in every)
    if last - first > MOST_US * PS_A_US:
        raise UsageError(f"{name}: its kernels lie more than {MOST_US / 1e6:,.0f} s apart")
    steps = max(len(found.steps), 1)
    step_s = (last - first) / steps / PICOSECONDS
    of = [
        ({work: [(a - first, b - first) for a, b in some] for work, some in spans.items()}, 1)
        for spans in found.spans.values()
    ]
    summed = mean([(sums(spans, last - first, step_s), many) for spans, many in of])
    info = found.info if isinstance(found.info, dict) else {}
    rank, world = (_count(info.get(key)) for key in ("rank", "world_size"))
    return Trace(name, summed, found.kernels, len(of), len(found.steps), rank, world)


def _count(value: object) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
    return value if known else None  # type: ignore[return-value]


_COLLECTIVES = {name.replace("-", ""): name for name in _NCCL} | dict.fromkeys(
    ("send", "recv"), "send/recv"
)
"""In names without anything but letters, as NCCL, RCCL and torch.distributed have them."""
_ATTENTION = re.compile(r"flash|fmha|attention|attn|sdpa", re.IGNORECASE)
_PRODUCT = re.compile(
    r"gemm|gemv|cutlass|xmma|cublas|nvjet|matmul|wgrad|dgrad|winograd|cijk_|splitk|triton_tem"
    r"|conv(?!ert)|wmma|_mm_|implicit",
    re.IGNORECASE,
)


@lru_cache(maxsize=1 << 14)
def class_of(name: str, collective: str = "") -> str:
    """What a kernel does, by its name, and the collective's where the trace has one.

    Kernels of cuBLAS, cuDNN, CUTLASS, rocBLAS, Triton, NCCL and RCCL are known; what is
    none of them is element-wise.
    """
    communicates = bool(collective) or re.match(r"[nr]ccl", name) is not None
    for words in filter(None, (collective, name)):
        plain = re.sub(r"[^a-z]", "", words.lower())
        for word, work in _COLLECTIVES.items():
            if word in plain and (communicates or word == "allreduce"):
                return work
    if communicates:
        return COLLECTIVES[-1]
    if name.startswith("triton_") and not name.startswith("triton_tem"):
        return ELEMENTWISE
    if _ATTENTION.search(name):
        return ATTENTION
    return PRODUCTS if _PRODUCT.search(name) else ELEMENTWISE
