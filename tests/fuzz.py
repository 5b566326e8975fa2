"""Files of fifteen kinds, damaged at random, given to the commands that read them.

    python -m tests.fuzz COUNT [SEED] [KIND ...]

A command may accept a damaged file or refuse it in one message (exit code 2). It may not end with
a traceback, work for MOST_S without a word or hold more than MOST_BYTES. Every fault is printed
with its number: the same number and seed make the same file again.
"""

from __future__ import annotations

import gzip
import io
import random
import re
import resource
import signal
import sqlite3
import sys
import tempfile
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

from experiments.cli import main
from experiments.files.measurements import log_text, nccl
from experiments.measured.case import ready
from experiments.measured.rows import load
from experiments.output import UsageError
from tests.experiments.files.test_measurements import GOOD, log
from tests.test_readers import DEVICE, GRAPH, HOSTILE, LAYERS, STACK, TRANSFORMER
from workloads import load_network

SEED = 36
MOST_S = 12.0
"""Of a processor."""
MOST_BYTES = 1 << 30
FOUR = "--array", "tpu-v3-8", "--set", "devices.0.count=1", "--batch", "8"
STEP = "simulate", "lenet", "--planner", "accpar", "--batch", "8"
TRAIN = "train", "lenet", "--workers", "2", "--iterations", "3", "--array", "tpu-v3-8"
TWO = "--devices", "2"
FLOWS = "--bandwidth", "1 GB/s", "--micro-batches", "4", "--memory", "1 GB"
HIERARCHY = "--hierarchy", "2@1 GB/s"
TRACED = "compare", "lenet", "--planners", "owt", *FOUR
SWEEP = (
    "sweep",
    "--networks",
    "lenet",
    "--planners",
    "owt",
    "--array",
    "tpu-v3-8",
    "--vary",
    "batch=8,16",
)
ARRAY = """kind = "array"
description = "eight chips"
execution = "deployed"
devices = [{device = "a100-80", count = 4}]
nodes = 2
[topology]
joins = "chips"
[[topology.levels]]
kind = "switch"
members = 4
bandwidth = "300 GB/s"
latency = "2 us"
efficiency = 0.77
protocols = ["LL ring: 9.5 us + 0.87 us a step at 0.47"]
[[topology.levels]]
kind = "switch"
bandwidth = "25 GB/s"
latency = "5 us"
[sources]
"topology.joins" = "a guess"
"""
OPERATOR = '"optimalLatencyFw": 1, "optimalLatencyBw": 1, "parameterSize": 1, "activationSize": 1'
PHAZED = f'{{"nodes": {{"1": [{{"id": 0, {OPERATOR}}}, {{"id": 1, {OPERATOR}}}]}}, '
PHAZED += '"edges": {"1": [{"sourceId": 0, "destId": 1, "communicationCost": 1}]}}'
LINE = (
    "forward_compute_time=1.0, backward_compute_time=1.0, activation_size=1.0, parameter_size=1.0"
)
PROFILE = f"node1 -- ReLU -- {LINE}\nnode2 -- Linear -- {LINE}\n\tnode1 -- node2\n"
STUDY = 'batch = 8\nplanner = "owt"\narray = "tpu-v3-8"\nset = {network = {latency = "1 us"}}\n'
ROW = "id,source,kind,hw,gpus,framework,model,arch,layers,hidden,ffn,heads,vocab,seq,gbs,mbs,tp,pp,"
ROW += "dp,sp,precision,step_s\na,s,step,H100,8,NeMo,tiny,llama,4,64,128,4,512,64,32,2,2,1,4,1,"
ROW += "bf16,0.5\n"


def rows(path: str) -> int:
    """What ``validate --rows`` reads and plans; the steps themselves are asked for."""
    try:
        for row in load(path):
            ready(row)
    except UsageError as error:
        print(f"accelarray: error: {error}", file=sys.stderr)
        return 2
    return 0


def timed(path: str) -> int:
    """What ``calibrate`` reads of nccl-tests; that fits constants for seconds."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of rows that are left out
            nccl(log_text(path), path)
    except UsageError as error:
        print(f"accelarray: error: {error}", file=sys.stderr)
        return 2
    return 0


def run(*words: str) -> Callable[[str], int]:
    """A command, with the damaged file's path in the place of FILE."""
    return lambda path: main([path if word == "FILE" else word for word in words])


def in_array(path: str) -> int:
    """A device is read by way of an array beside it."""
    name = Path(path).name
    Path("array.toml").write_text(f'kind = "array"\n[[devices]]\ndevice = "{name}"\ncount = 4\n')
    return main([*STEP, "--array", "array.toml"])


KINDS: dict[str, tuple[str, Sequence[Callable[[str], int]]]] = {
    "device.toml": ("spec", [in_array, run("show", "FILE")]),
    "array.toml": ("spec", [run(*STEP, "--array", "FILE")]),
    "stack.toml": ("stack", [run(*STEP, "--array", "dgx-a100", "--stack", "FILE")]),
    "plan.json": ("plan", [run("simulate", "lenet", "--plan", "FILE", *FOUR)]),
    "layers.txt": ("layer file", [run("simulate", "FILE", "--planner", "owt", *FOUR)]),
    "network.toml": ("transformer", [run("simulate", "FILE", "--planner", "owt", *FOUR)]),
    "model.onnx": ("ONNX", [run("simulate", "FILE", "--planner", "owt", *FOUR)]),
    "rows.csv": ("rows", [rows]),
    "graph.txt": ("profile", [run("pipedream", "FILE", *HIERARCHY)]),
    "max-load.json": ("profile", [run("pipedream", "FILE", "--planner", "max-load", *TWO)]),
    "phaze.json": (
        "profile",
        [run("pipedream", "FILE", "--planner", "phaze", *TWO, *FLOWS)],
    ),
    "factors.txt": ("slowdowns", [run(*TRAIN, "--slowdown", "FILE")]),
    "edges.txt": ("graph", [run(*TRAIN, "--method", "d-psgd", "--graph", "FILE")]),
    "kept.db": (
        "store",
        [run("results", "list", "--store", "FILE"), run(*SWEEP, "--store", "FILE")],
    ),
    "step.pt.trace.json": ("trace", [run(*TRACED, "--trace", "FILE")]),
    "step.pt.trace.json.gz": ("trace", [run(*TRACED, "--trace", "FILE")]),
    "run.log": ("MLPerf log", [run("read", "FILE"), rows]),
    "all_reduce_perf.txt": ("nccl-tests", [timed]),
    "study.toml": ("study file", [run("simulate", "lenet", "--config", "FILE")]),
}
"""Files by name: their kind, and what reads them."""


@cache
def good() -> dict[str, bytes]:
    """An undamaged file of each kind."""
    found = {
        "device.toml": DEVICE.encode(),
        "array.toml": ARRAY.encode(),
        "stack.toml": STACK.replace("a100-80gb", "a100-80").encode(),
        "layers.txt": LAYERS.encode(),
        "network.toml": TRANSFORMER.replace('"gpt2"', '"gpt2"\nseq = 16\nhidden = 24').encode(),
        "rows.csv": ROW.encode(),
        "graph.txt": PROFILE.encode(),
        "max-load.json": GRAPH.replace('{"sourceId": 1, "destId": 1, "cost": 1.0}', "").encode(),
        "phaze.json": PHAZED.encode(),
        "factors.txt": b"1.0 2.0\n1 1\n0.5 3\n",
        "edges.txt": b"0 1\n1 > 0\n",
        "study.toml": STUDY.encode(),
    }
    found["run.log"], found["all_reduce_perf.txt"] = log().encode(), GOOD.encode()
    with tempfile.TemporaryDirectory() as folder, chdir(folder), quiet():
        for name in ("step.pt.trace.json", "step.pt.trace.json.gz"):
            assert main(["timeline", "lenet", "--planner", "owt", *FOUR, "--output", name]) == 0
            found[name] = Path(name.replace("step.", "step.0.")).read_bytes()
        assert main(["plan", "lenet", "--planner", "accpar", *FOUR, "--output", "plan.json"]) == 0
        assert main([*SWEEP, "--store", "kept.db"]) == 0
        found |= {name: Path(name).read_bytes() for name in ("plan.json", "kept.db")}
    try:
        from workloads.exporters.onnx_model import to_onnx
    except ImportError:
        return found
    return found | {"model.onnx": to_onnx(load_network("lenet")).SerializeToString()}


def damaged(name: str, content: bytes, rng: random.Random) -> bytes:
    """The file with one change, seldom with two or three; most leave it well formed."""
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        if name.endswith(".gz") and rng.random() < 0.8:
            content = gzip.compress(in_text(unpacked(content), rng), mtime=0)
        elif name == "kept.db" and rng.random() < 0.8:
            content = in_a_row(content, rng)
        elif name in ("kept.db", "model.onnx", "step.pt.trace.json.gz"):
            content = in_bytes(content, rng)
        else:
            content = in_text(content, rng)
    return content


def unpacked(content: bytes) -> bytes:
    """Of a file that is whole; of another one nothing."""
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return b""


def in_text(content: bytes, rng: random.Random) -> bytes:
    """A number, a word, a line or some bytes changed."""
    way = rng.choice((in_numbers, in_numbers, in_numbers, in_names, in_lines, in_words, in_bytes))
    return way(content, rng)


NUMBERS = ("0", "1", "2", "3", "7", "8", "-1", "0.5", "1.5", "1e-9", "1e30", "64", "1000", "65536")


def in_numbers(content: bytes, rng: random.Random) -> bytes:
    """A number replaced by another one."""
    return replaced(
        content, rng, rb"(?<![\w.])-?\d+(\.\d+)?(e-?\d+)?", rng.choice(NUMBERS).encode()
    )


def in_names(content: bytes, rng: random.Random) -> bytes:
    """A name replaced by another one of the file, or none."""
    names = re.findall(rb"[A-Za-z_][\w-]*", content) or [b""]
    return replaced(
        content, rng, rb"[A-Za-z_][\w-]*", rng.choice([*names, b"", b"=x", b"<b>", b"a.b"])
    )


def replaced(content: bytes, rng: random.Random, pattern: bytes, by: bytes) -> bytes:
    """One of the places of a pattern replaced."""
    if not (found := list(re.finditer(pattern, content))):
        return in_bytes(content, rng)
    place = rng.choice(found)
    return content[: place.start()] + by + content[place.end() :]


def in_lines(content: bytes, rng: random.Random) -> bytes:
    """A line left out, said twice, or put elsewhere."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return in_bytes(content, rng)
    line = lines.pop(rng.randrange(len(lines)))
    for _ in range(rng.randrange(3)):
        lines.insert(rng.randrange(len(lines) + 1), line)
    return b"".join(lines)


def in_bytes(content: bytes, rng: random.Random) -> bytes:
    """Bytes changed, taken out, put in or repeated."""
    at, many = rng.randrange(len(content) + 1), rng.choice((1, 2, 4, 30))
    way = rng.randrange(5)
    if way == 0:
        return content[:at] + content[at + many :]
    if way == 1:
        return content[:at] + rng.randbytes(many) + content[at:]
    if way == 2:
        return content[:at] + content[max(at - 30 * many, 0) : at] + content[at:]
    if way == 3:
        return content[:at]
    return content[:at] + rng.randbytes(many) + content[at + many :]


def in_words(content: bytes, rng: random.Random) -> bytes:
    """A word replaced: by another one of the file, by a number near, by a hostile one."""
    text = content.decode("utf-8", "surrogateescape")
    words = list(re.finditer(r'[\w."+-]+', text))
    if not words:
        return in_bytes(content, rng)
    word = rng.choice(words)
    near = ("0", "1", "-1", "2", "7", "1e3", "65536", "1e-9", "1e30", "inf", "=1", '"', "1 GB/s")
    other = rng.choice((rng.choice(near), rng.choice(words).group(), rng.choice(HOSTILE), ""))
    changed = text[: word.start()] + other + text[word.end() :]
    return changed.encode("utf-8", "surrogatepass" if "\ud800" in changed else "surrogateescape")


def in_a_row(content: bytes, rng: random.Random) -> bytes:
    """A store whose inputs or outputs are damaged, in a file that is whole."""
    with tempfile.NamedTemporaryFile(suffix=".db") as file:
        Path(file.name).write_bytes(content)
        try:
            with sqlite3.connect(file.name) as db:
                column = rng.choice(("inputs", "outputs", "outputs", "finished", "version"))
                ((old,),) = db.execute(f"SELECT {column} FROM results LIMIT 1")  # noqa: S608
                new = in_text(str(old).encode(), rng).decode("utf-8", "replace")
                db.execute(f"UPDATE results SET {column} = ?", (new,))  # noqa: S608
            db.close()
        except (sqlite3.Error, ValueError):
            return in_bytes(content, rng)
        return Path(file.name).read_bytes()


@contextmanager
def quiet() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """What is printed meanwhile."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        yield out, err


class TooLongError(BaseException):
    """A file took longer than MOST_S."""


def fault(name: str, seed: int, number: int) -> str | None:
    """What is wrong with what the commands make of a damaged file; None if nothing is."""
    rng = random.Random(f"{seed} {name} {number}")  # noqa: S311
    content = damaged(name, good()[name], rng)
    read = rng.choice(KINDS[name][1])

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_S)
    try:
        with tempfile.TemporaryDirectory() as folder, chdir(folder), quiet() as (_, err):
            Path(name).write_bytes(content)
            code = read(name)
    except TooLongError:  # a file may ask for much work, which is announced
        return None if "accelarray: " in err.getvalue() else f"more than {MOST_S:g} s"
    except SystemExit as error:  # what argparse does with words that are wrong
        code = int(str(error.code))
    except Exception:
        return traceback.format_exc(limit=-3)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    said = err.getvalue()
    if code not in (0, 2) or "Traceback" in said:
        return f"exit code {code}: {said[-300:]}"
    if code == 2 and "accelarray: error: " not in said:
        return f"refused without a message: {said[-300:]}"
    return None


def faults(count: int, seed: int = SEED, names: Sequence[str] = ()) -> Iterator[str]:
    """Every fault of so many files, of all kinds in turn."""
    before = _most_held()
    kinds = [name for name in names or KINDS if name in good()]
    for number in range(count):
        name = kinds[number % len(kinds)]
        if (found := fault(name, seed, number)) is not None:
            yield f"{name}, seed {seed}, number {number}: {found}"
    if _most_held() - before > MOST_BYTES:
        yield f"more than {MOST_BYTES >> 20} MiB"


def _most_held() -> int:
    """Bytes that this process has held at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    total, *rest = sys.argv[1:]
    chosen = faults(int(total), int(rest[0]) if rest else SEED, rest[1:])
    sys.exit(bool([print(found, flush=True) for found in chosen]))
