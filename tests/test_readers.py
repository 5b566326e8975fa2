"""Whatever a file holds, each reader gives a value or one message of its own kind of error."""

from __future__ import annotations

import itertools
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.commands.arguments import Config, Parser
from experiments.design.space import load_space
from experiments.files.read import read
from experiments.measured import pods
from experiments.measured.rows import load as load_rows
from experiments.measured.steps import RingRow
from experiments.output import UsageError
from hardware import SpecError, load_array, load_device, load_stack
from hardware.reader import checked_rows, parse_csv, read_text
from planners import Plan, PlanError
from planners.pipeline.load_graph import read_load_graph
from planners.pipeline.phaze import read_phaze
from planners.pipeline.profile import read_profile
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.graphs import load_graph
from simulator.asynchronous.stragglers import parse_slowdowns
from simulator.lowering.schedules.file import read_schedule
from workloads import NetworkError
from workloads.importers.hugging_face.config import read_hugging_face
from workloads.importers.layer_file import read_layer_file
from workloads.importers.transformer_file import read_transformer_file

PLAN = (
    '{"planner": "p", "network": "n", "batch": 1, "objective": "time", "layers": ["a"], '
    '"root": {"types": ["I"], "shares": [0.5], "cost": 1.0, "halves": [null]}}'
)
GRAPH = (
    '{"nodes": [{"id": 1, "fpgaLatency": 1.0, "cpuLatency": 1.0, "isBackwardNode": 0, '
    '"supportedOnFpga": 1}], "edges": [{"sourceId": 1, "destId": 1, "cost": 1.0}], '
    '"maxFPGAs": 1, "maxCPUs": 0, "maxSizePerFPGA": 1.0}'
)
PHAZE = (
    '{"nodes": {"1": [{"id": 0, "optimalLatencyFw": 1.0, "optimalLatencyBw": 1.0, '
    '"parameterSize": 1, "activationSize": 1}]}, '
    '"edges": {"1": [{"sourceId": 0, "destId": 0, "communicationCost": 1}]}}'
)
DEVICE = """kind = "device"
chips = 1
chip = {cores = 1, peak = "1 TFLOP/s"}
hbm = {capacity = "1 GiB", bandwidth = "1 GB/s"}
network = {bandwidth = "1 GB/s"}
"""
ARRAY = """kind = "array"
devices = [{device = "tpu-v3", count = 4}]
topology = {kind = "torus", shape = [2, 2], joins = "boards"}
"""
STACK = """kind = "stack"
efficiency = {products = 0.5, host = "1 us"}
chips = {a100-80gb = {memory = 0.5}}
habits = {attention = "fused"}
"""
SPACE = """kind = "space"
clock = "1 GHz"
matrix = {count = [1], width = [8], depth = [8]}
vector = {count = [1], width = [8]}
buffer = {size = ["1 MiB"]}
"""
TRANSFORMER = 'kind = "transformer"\nlike = "gpt2"\nlayers = 1\ntied = true\ncapacity = 1.0\n'
CONFIG = (
    '{"model_type": "qwen2_moe", "text_config": null, "num_hidden_layers": 1, "hidden_size": 8, '
    '"num_attention_heads": 2, "vocab_size": 9, "num_experts": 2, "num_experts_per_tok": 1, '
    '"mlp_only_layers": [], "hidden_act": "silu", "qkv_bias": true, "sliding_window": 4}'
)
SCRIPT = """N=4
A=(
  --num-layers $N --hidden-size 64 --num-attention-heads 4 --vocab-size 100 --moe-layer-freq [1]*4
)
torchrun --nproc_per_node 8 x.py ${A[@]} --pipeline-model-parallel-size 2 --global-batch-size 8 \\
  --num-experts 4 --pipeline-model-parallel-layout 'Et|(t)*3L' --hidden-dropout 0.0 --swiglu
"""
BRIDGE = """model: {num_layers: 4, hidden_size: 64, activation: swiglu, recompute_num_layers: 1}
train: {global_batch_size: 8}
mixed_precision: bf16
"""
TITAN = """[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[parallelism]
pipeline_parallel_degree = 2
data_parallel_shard_degree = 4
pipeline_parallel_schedule = "GPipe"
module_fqns_per_model_part = [["tok_embeddings", "layers.0"], ["layers.1"]]
[training]
global_batch_size = 8
mixed_precision_param = "bfloat16"
"""
MAXTEXT = """base_emb_dim: 64
per_device_batch_size: 2.0
ici_fsdp_parallelism: -1
ici_pipeline_parallelism: 2
quantization: fp8
remat_policy: full
"""
DEEPSPEED = """{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2,
"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}, "optimizer": {"type": "Adam"},
"sequence_parallel_size": 2}"""
ROWS = "id,source,hw,gpus,seq,sp,step_s\na,s,H100,8,512,1,0.5\n"
STEPS = "network,devices,batch_per_device,step_ns\nlenet,4,16,100\n"
MEASURED = (
    "round,system,cores,global_batch,batch_per_core,images_per_s,step_ms,use\n"
    "v0.6,tpu-v3-32,32,4096,128,31220,131.2,check\n"
)
PROFILE = (
    "node1 -- ReLU -- forward_compute_time=1.0, backward_compute_time=1.0, activation_size=1.0, "
    "parameter_size=1.0\n\tnode1 -- node1\n"
)
STUDY = 'batch = 64\nfolded = true\nset = {network = {latency = "1 us"}, nodes = 2}\n'
LAYERS = "num_layers 1\nfc FC\nin_ch 4\nout_ch 2\n"


def rows_of(path: str) -> Any:
    rows = parse_csv(read_text(path, UsageError), path, UsageError)
    steps = rows[0][1].keys() == RingRow.model_fields.keys()
    return (
        checked_rows(RingRow, rows, UsageError)
        if steps
        else checked_rows(pods.PodRow, rows, UsageError)
    )


def study_of(path: str) -> Any:
    parser = Parser()
    parser.add_argument("--batch", type=int)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--folded", action="store_true")
    return Config(path, parser).words


READERS: dict[str, tuple[Callable[[str], Any], str, type[Exception]]] = {
    "device.toml": (load_device, DEVICE, SpecError),
    "array.toml": (load_array, ARRAY, SpecError),
    "stack.toml": (load_stack, STACK, SpecError),
    "space.toml": (load_space, SPACE, SpecError),
    "transformer.toml": (read_transformer_file, TRANSFORMER, NetworkError),
    "config.json": (read_hugging_face, CONFIG, NetworkError),
    "pretrain.sh": (read, SCRIPT, UsageError),
    "bridge.yaml": (read, BRIDGE, UsageError),
    "torchtitan.toml": (read, TITAN, UsageError),
    "maxtext.yml": (read, MAXTEXT, UsageError),
    "deepspeed.json": (read, DEEPSPEED, UsageError),
    "schedule.csv": (
        read_schedule,
        "0F0,,0B0,(0F1;0B1)OVERLAP_F_B\n1F0,1I0,1W0,1F1,1B1\n",
        PlanError,
    ),
    "layers.txt": (read_layer_file, LAYERS, NetworkError),
    "plan.json": (Plan.read, PLAN, PlanError),
    "graph.json": (read_load_graph, GRAPH, PlanError),
    "phaze.json": (read_phaze, PHAZE, PlanError),
    "profile.txt": (read_profile, PROFILE, PlanError),
    "study.toml": (study_of, STUDY, UsageError),
    "rows.csv": (load_rows, ROWS, UsageError),
    "steps.csv": (rows_of, STEPS, UsageError),
    "measured.csv": (rows_of, MEASURED, UsageError),
    "factors.txt": (lambda path: parse_slowdowns([path], 2, 1), "1.0 2.0\n", TrainingError),
    "edges.txt": (lambda path: load_graph(path, 2), "0 1\n", TrainingError),
}
HOSTILE = [
    *("-1", "0", "true", "nan", "1e999", "9" * 400, "9" * 5000, "0x" + "f" * 5000, '""', '"1 GiB"'),
    *("[]", "{}", "null", "[" * 150 + "]" * 150, "[" * 5000, "a" + ".a" * 400 + " = 1", "\x00"),
    *("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "\n", ",", '"'),
]


pytestmark = pytest.mark.filterwarnings("ignore::experiments.notices.AccelarrayWarning")


def refused_in_one_message(name: str, folder: Path, content: bytes) -> None:
    read, _, error = READERS[name]
    path = folder / name
    path.write_bytes(content)
    try:
        read(str(path))
    except error as caught:
        said = str(caught)
    else:
        return
    assert 0 < len(said) < 20_000


@pytest.mark.parametrize("name", READERS)
def test_the_examples_are_right_but_for_a_cycle(name: str, tmp_path: Path) -> None:
    read, good, error = READERS[name]
    path = tmp_path / name
    path.write_text(good)
    if name in ("graph.json", "phaze.json", "profile.txt"):
        with pytest.raises(error, match="cycle"):
            read(str(path))
    else:
        assert read(str(path))


FEW = 8
"""Hostile words for each word of a file; all of them in the slow test."""


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", READERS)
def test_hostile_words_in_place_of_every_other(name: str, every: bool, tmp_path: Path) -> None:
    """Every word of a good file (a run of what is no punctuation) becomes each hostile one.

    Or every word a few of them, in turn.
    """
    good, hostiles = READERS[name][1], itertools.cycle(HOSTILE)
    words = list(re.finditer(r'[\w."-]+', good))
    few = max(FEW, -(-len(HOSTILE) // len(words)))
    for word in words:
        for hostile in HOSTILE if every else itertools.islice(hostiles, few):
            text = good[: word.start()] + hostile + good[word.end() :]
            refused_in_one_message(name, tmp_path, text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_bytes_and_damage(name: str, data: st.DataObject, tmp_path: Path) -> None:
    good = READERS[name][1].encode()
    at = data.draw(st.integers(0, len(good)))
    gone = data.draw(st.integers(0, 20))
    noise = data.draw(st.binary(max_size=30))
    refused_in_one_message(name, tmp_path, good[:at] + noise + good[at + gone :])


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file(name: str, tmp_path: Path) -> None:
    read, _, error = READERS[name]
    for path in (str(tmp_path), str(tmp_path / f"none-{name}"), f"{tmp_path}/a\0-{name}"):
        with pytest.raises(error):
            read(path)
    with pytest.raises(error):
        read(str(tmp_path / ("x" * 5000 + name)))


@pytest.mark.parametrize("name", READERS)
def test_endless_files_are_read_to_their_limit(name: str, tmp_path: Path) -> None:
    """A link to an endless device, and 8 GiB of zeros that take no room."""
    read, _, error = READERS[name]
    (tmp_path / f"endless-{name}").symlink_to("/dev/zero")
    with (tmp_path / f"sparse-{name}").open("wb") as file:
        file.truncate(8 << 30)
    for path in sorted(tmp_path.iterdir()):
        tracemalloc.start()
        try:
            with pytest.raises(error):
                read(str(path))
            assert tracemalloc.get_traced_memory()[1] < 200 << 20
        finally:
            tracemalloc.stop()
