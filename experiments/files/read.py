"""``accelarray.read``: what a file of another tool says, as options of ours."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.table import Table

from experiments.api.argument_types import explicit
from experiments.files import deepspeed, maxtext, megatron, torchtitan
from experiments.files.job import Job, sizes_of
from experiments.files.measurements import MLLOG, Log, is_nccl, log_text, mllog
from experiments.notices import tell
from experiments.options import leaves
from experiments.output import UsageError, deliver
from experiments.results.result import Result
from hardware.reader import parse_json, parse_toml, parse_yaml, read_text
from workloads import Transformer
from workloads.importers.fields import Fields
from workloads.importers.hugging_face.config import config_of, read_config

HUGGING_FACE = "Hugging Face's config.json"
READERS: dict[str, ModuleType] = {
    "DeepSpeed's JSON": deepspeed,
    "torchtitan's TOML": torchtitan,
    "MaxText's YAML": maxtext,
    "Megatron's arguments": megatron,
}
"""By kind of file, with ``read``, and patterns of keys: ``KNOWN_BY`` them, ``WITHOUT_EFFECT``."""
STACKS = {
    "DeepSpeed's JSON": "deepspeed-2022",
    "torchtitan's TOML": "torchtitan-2024",
    "MaxText's YAML": "maxtext-2024",
}
"""The software of a kind of file. Megatron-Bridge's and NeMo's (YAML) is that of most arrays."""
_MEGATRON_LM = "megatron-lm-2025"
_TIMED = re.compile(
    r"(overlap|bucket_(size|cap)|cuda_graph|grad_reduce_in_bf16|async_tensor"
    r"|communication_data_type|grad_sync_dtype)\w*$"
    r"|^((training\.)?compile(\.enabled?)?|attention(_backend|_kernel)?)$"
)
"""Keys that change how long a step takes, of any framework, and that have no field of ours."""
_HELD = re.compile(
    r"(offload|cpu_checkpointing|partition_activations|saved_activations|hpz_partition"
    r"|quantized_weights|quantized_gradients|grads_in_fp32|main_grads_dtype|main_params_dtype"
    r"|exp_avg\w*_dtype|grad_accum_dtype|account_for|optimizer_instances|fp[48]_param|mics_shard"
    r"|fsdp_float8|weight_dtype|grad_dtype|mu_dtype|vocab_tiling)\w*(\.device)?$"
)
"""Keys that change what devices hold or exchange, or which layers a stage has, likewise."""
_FLASH = (None, "auto", "autoselected", "flash", "fused")
_NONE = (False, None, 1, -1, "none", "fp32", "float32", "")
"""Values of such keys that ask for nothing that is not there anyway."""
TIMED = "--overlap, --bucket, --attention or --stack say it"
HELD = "it changes memory, traffic or which layers a stage has"
_MEGATRON = "Megatron's arguments"
_LARGEST = 1 << 20
_LONGEST = 4 << 20
"""Characters of a script with its variables replaced."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ReadResult(Result):
    """What a file says: a network, axes of parallelism, batch, precision and the rest."""

    path: str
    kind: str
    job: Job

    def title(self) -> str:
        """The file, and what it is."""
        return f"read from {self.path}: {self.kind}"

    def to_dict(self) -> dict[str, Any]:
        """Options by key, as ``--config`` takes them, and what was not understood."""
        return {"kind": self.kind, "options": self.job.values, "notes": list(self.job.notes)}

    def rows(self) -> list[dict[str, Any]]:
        """A line for each option."""
        values = self.job.values
        sizes = values.pop("transformer", {})
        named = {f"transformer.{key}": value for key, value in sizes.items()}
        return [{"key": key, "value": value} for key, value in {**values, **named}.items()]

    def tables(self) -> list[Table | str]:
        """The file for ``--config``."""
        return [self.to_toml().rstrip("\n")]

    def to_toml(self) -> str:
        """The file for ``--config``."""
        return self.job.to_toml(self.title())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file for ``--config`` (.toml)."""
        deliver(self.to_toml(), os.fspath(path))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class LogResult(ReadResult):
    """What an MLPerf log says: one row of measured steps, for ``validate --rows``."""

    log: Log

    def to_dict(self) -> dict[str, Any]:
        """Cells by their columns, and what the log does not say."""
        return {"kind": self.kind, "row": dict(self.log.cells), "notes": list(self.log.notes)}

    def rows(self) -> list[dict[str, Any]]:
        """The row."""
        return [dict(self.log.cells)]

    def tables(self) -> list[Table | str]:
        """The table of one row."""
        return [self.log.to_csv().rstrip("\n")]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table (.csv)."""
        deliver(self.log.to_csv(), os.fspath(path))


@explicit(path="a file of another tool, or a folder with a config.json")
def read(path: str | os.PathLike[str]) -> ReadResult:
    """Read a model or a training job from another tool's file, as options of ours.

    Files are Hugging Face's config.json, Megatron-LM's arguments (a shell script or YAML),
    Megatron-Bridge's and NeMo's YAML, torchtitan's TOML, MaxText's YAML and DeepSpeed's JSON.
    An MLPerf log (.log, .txt, .out) is a row of measured steps. What was not understood is a
    warning. Raises UsageError or NetworkError.
    """
    name = os.fspath(path)
    if MLLOG in (text := log_text(name)):
        log = mllog(text, name)
        return LogResult(name, "MLPerf's log", Job(notes=log.notes), log)
    if is_nccl(text):
        raise UsageError(f"{name}: of nccl-tests; accelarray papers calibrate {name} reads it")
    kind, job = _read(name)
    for note in job.notes:
        tell(note)
    return ReadResult(name, kind, job)


def _read(name: str) -> tuple[str, Job]:
    config = config_of(name)
    if config is not None and config != name:
        return HUGGING_FACE, _network(config)
    text = read_text(name, UsageError, "a configuration", _LARGEST)
    ending = Path(name).suffix.lower()
    if ending == ".json":
        values = parse_json(text, name, UsageError)
        if isinstance(values, dict) and "model_type" in values:
            return HUGGING_FACE, _network(name)
    elif ending == ".toml":
        values = parse_toml(text, name, UsageError)
    elif ending in (".yaml", ".yml"):
        values = parse_yaml(text, name, UsageError)
    else:
        values = _shell(name, text)
    if not isinstance(values, dict):
        raise UsageError(f"{name}: no keys and values")
    flat = dict(leaves(values))
    kind = next(
        (kind for kind, one in READERS.items() if any(map(one.KNOWN_BY.fullmatch, flat))),
        _MEGATRON,
    )
    if kind == _MEGATRON:
        flat = _by_last(flat)
    tool = READERS[kind]
    if not any(map(tool.KNOWN_BY.fullmatch, flat)):
        raise UsageError(
            f"{name}: not a file that is known here; {', '.join((HUGGING_FACE, *READERS))}"
        )
    one = Fields(name, flat, UsageError)
    job: Job = tool.read(one)
    for asked, usual, why in ((_TIMED, _FLASH, TIMED), (_HELD, _NONE, HELD)):
        if idle := [key for key in one.left if asked.search(key)]:
            said = [key for key in idle if one.left[key] is True or one.left[key] not in usual]
            one.notes += [f"{', '.join(said[:10])}: not read; {why}"] if said else []
            one.left = {key: value for key, value in one.left.items() if key not in idle}
    own = _MEGATRON_LM if kind == _MEGATRON and ending not in (".yaml", ".yml") else ""
    if stack := STACKS.get(kind, own):
        one.notes.append(f"simulated with the array's software, not its own: --stack {stack}")
    return kind, replace(job, notes=(*one.notes, *one.unknown(tool.WITHOUT_EFFECT)))


def _network(path: str) -> Job:
    found = read_config(path)
    if isinstance(found.of, Transformer):
        return Job(sizes=sizes_of(found.of), notes=found.notes)
    return Job(network=path, notes=found.notes)


def _by_last(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the last part of their paths, as Megatron's tables repeat no key but name."""
    found: dict[str, Any] = {}
    for path, value in flat.items():
        parts = path.replace("-", "_").split(".")
        key = "_".join(parts[-2:]) if parts[-1] == "name" else parts[-1]
        if value is not None and not key.startswith("_"):
            found.setdefault(key, value)
    return found


_BLANK = r"[^\S\n]"  # not line ends: many of them would take time by the square
_ASSIGNED = re.compile(
    rf"(?:^|;){_BLANK}*(?:export{_BLANK}+)?([A-Za-z_]\w*)="
    rf"(\"[^\"\n]*\"|'[^'\n]*'|[^\s(#;]*){_BLANK}*(?=;|#|$)",
    re.M,
)
_ARRAY = re.compile(r"^\s*\w+\+?=\(")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)(?::-([^}]*))?\}?")


def _shell(name: str, text: str) -> dict[str, Any]:
    """Flags and values of a command in a script, its variables replaced by what they are set to."""
    assigned = {
        key: re.sub(rf"\$\{{{key}:-([^}}]*)\}}", r"\1", value.strip("\"'"))  # ${X:-4} of X itself
        for key, value in _ASSIGNED.findall(text)
    }
    for _ in range(3):
        text = _VARIABLE.sub(lambda found: assigned.get(found[1], found[2] or "")[:1000], text)
        if len(text) > _LONGEST:
            raise UsageError(f"{name}: its variables make more than {_LONGEST >> 20} MiB")
    text = re.sub(rf"^{_BLANK}*#.*$", " ", text.replace("\\\n", " "), flags=re.M)
    try:
        words = shlex.split(_ended(text), comments=True)
    except ValueError as error:
        raise UsageError(f"{name}: not a shell command: {error}") from None
    found: dict[str, Any] = {}
    for at, word in enumerate(words):
        if re.fullmatch(r"--[A-Za-z][\w.-]*(=.*)?", word, re.DOTALL):
            flag, equals, value = word.removeprefix("--").partition("=")
            following = words[at + 1] if at + 1 < len(words) else "--"
            bare = not equals and following.startswith("--")
            found[flag.replace("-", "_")] = True if bare else _typed(value if equals else following)
    return found


def _ended(text: str) -> str:
    """Lines of a script with -- behind each that ends a command, or an array (``NAME=(``).

    A flag's value is on the flag's line, or, inside an array, on one behind it.
    """
    found, inside = list[str](), False
    for line in text.splitlines():
        inside = inside or bool(_ARRAY.match(line))
        line = _ARRAY.sub("", line.rstrip())
        if inside and line.endswith(")"):
            inside, line = False, line[:-1]
        found.append(line if inside else f"{line} --")
    return "\n".join(found)


def _typed(text: str) -> Any:
    """A word as a number or a truth value, where it is one."""
    if re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"-?\d{1,18}\.\d{0,18}(e-?\d{1,2})?|-?\d{1,18}e-?\d{1,2}", text, re.ASCII):
        return float(text)
    return {"true": True, "false": False}.get(text.lower(), text)
