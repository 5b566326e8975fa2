"""Exports beside the frameworks' own parsers, where these are installed (no GPU is needed).

``pip install '.[test-frameworks]'``, without their dependencies where those ask for a GPU.
"""

import json
import sys
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import accelarray
from experiments.files.read import _shell as shell_words
from planners import Axes
from planners.axes.stage_devices import layout_counts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # other packages' and ours of remarks
]


def step(**options: Any) -> accelarray.StepResult:
    network = options.pop("network", "llama3-8b:seq=1024")
    on: dict[str, Any] = {"array": "h100-cluster", "batch": 48, "set": {"nodes": 3}}
    return accelarray.simulate(network, **on | options)


@pytest.mark.parametrize(
    ("layout", "pp", "vp"), [("", 3, 1), ("Et*6|t*12|t*14L", 3, 1), ("Et*3|(tt|)*14tL", 4, 4)]
)
def test_megatron_core_reads_our_layouts(layout: str, pp: int, vp: int) -> None:
    """PipelineParallelLayerLayout has the blocks of each stage that we have."""
    parser = pytest.importorskip("megatron.core.transformer.pipeline_parallel_layer_layout")
    if not layout:
        text = step(network="llama3-8b:layers=14:seq=1024", parallel="tp=2,pp=3,sp").export(
            "megatron"
        )
        layout = text.partition("--pipeline-model-parallel-layout '")[2].partition("'")[0]
    found = parser.PipelineParallelLayerLayout(layout, pp)
    blocks = [[str(layer).count("decoder") for layer in place] for place in found.layout]
    theirs = [
        sum(one.name == "decoder" for one in found.layout[k % pp][k // pp]) for k in range(pp * vp)
    ]
    ours = layout_counts(layout)  # with one for the embedding, and one for the head
    assert len(blocks) == pp
    assert sum(theirs) in (14, 32)
    assert [n - (k in (0, len(ours) - 1)) for k, n in enumerate(ours)] == theirs


def test_torchtitan_reads_our_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ConfigManager of torchtitan 0.2, the last with a TOML, without its kernels (triton)."""
    spec = find_spec("torchtitan")
    if spec is None or not (Path(str(spec.origin)).parent / "config" / "job_config.py").exists():
        pytest.skip("torchtitan 0.2 is not installed")
    pytest.importorskip("tyro")
    bare = ModuleType("torchtitan")
    bare.__path__ = [str(Path(str(spec.origin)).parent)]
    monkeypatch.setitem(sys.modules, "torchtitan", bare)
    manager = import_module("torchtitan.config").ConfigManager
    found = step(parallel="tp=4,pp=2,sp", micro_batch=2, recompute="selective")
    path = tmp_path / "job.toml"
    path.write_text(found.export("torchtitan"))
    job = manager().parse_args(["--job.config_file", str(path)])
    split = job.parallelism
    assert (split.tensor_parallel_degree, split.pipeline_parallel_degree) == (4, 2)
    assert split.data_parallel_replicate_degree * max(split.data_parallel_shard_degree, 1) == 3
    assert (job.model.name, job.model.flavor) == ("llama3", "8B")
    assert (job.training.global_batch_size, job.training.seq_len) == (48, 1024)
    assert job.training.local_batch_size == 16
    assert split.pipeline_parallel_microbatch_size == 2
    assert job.activation_checkpoint.mode == "selective"
    assert job.activation_checkpoint.selective_ac_option == "op"


@pytest.mark.parametrize(("zero", "tp"), [(0, 1), (1, 1), (2, 2), (3, 4)])
def test_deepspeed_reads_our_json(zero: int, tp: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepSpeedConfig, which checks that the batch is micro-batches of all ranks of dp."""
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    config = pytest.importorskip("deepspeed.runtime.config")
    dp = 24 // tp
    monkeypatch.setattr(config.dist, "get_rank", lambda: 0)
    mpu = ModuleType("mpu")
    mpu.get_data_parallel_world_size = lambda: dp  # type: ignore[attr-defined]
    found = step(parallel=f"tp={tp}", zero=zero, micro_batch=2, precision="bf16", optimizer="adam")
    read = config.DeepSpeedConfig(json.loads(found.export("deepspeed")), mpu=mpu)
    assert read.zero_optimization_stage == zero
    assert (read.train_batch_size, read.train_micro_batch_size_per_gpu) == (48, 2)
    assert read.gradient_accumulation_steps == 48 // dp // 2
    assert read.optimizer_name == "adam"


def test_maxtext_has_the_keys_of_our_yaml() -> None:
    """Keys, types of values and names of models of MaxText's own base.yml (no jax is needed)."""
    spec = find_spec("maxtext")
    if spec is None:
        pytest.skip("maxtext is not installed")
    configs = Path(str(spec.origin)).parent / "configs"
    base = yaml.safe_load((configs / "base.yml").read_text())
    models = {path.stem for path in (configs / "models").rglob("*.yml")}
    for options in (
        {"parallel": "tp=8,dp=3", "precision": "bf16", "recompute": "full"},
        {"parallel": "dp=24", "zero": 3, "optimizer": "adam"},
        {"parallel": "cp=2,dp=12", "zero": 3},
        {"parallel": "tp=4,pp=2,dp=3", "micro_batch": 2},
        {"parallel": "dp=16,ep=8", "network": "mixtral-8x7b:layers=4", "set": {"nodes": 2}},
    ):
        text = step(**options).export("maxtext")
        ours = yaml.safe_load(text)
        assert ours.keys() <= base.keys(), (options, ours.keys() - base.keys())
        for key, value in ours.items():
            kinds = (float, int) if isinstance(base[key], float) else type(base[key])
            assert base[key] in ("", None) or isinstance(value, kinds), (key, value, base[key])
        assert ours.get("model_name", "default") in {*models, "default"}


@pytest.mark.parametrize(
    ("network", "options"),
    [
        ("llama3-8b:seq=1024", {"parallel": "tp=4,pp=2,dp=3,sp"}),
        ("mixtral-8x7b:layers=4", {"parallel": "tp=2,dp=8,ep=8,sp", "recompute": "full"}),
        ("deepseek-v3:layers=5", {"parallel": "pp=2,dp=8,ep=8", "micro_batch": 1}),
        ("gpt3-1.3b", {"parallel": "tp=2,dp=8", "recompute": "selective"}),
    ],
)
def test_megatron_cores_configuration_takes_our_arguments(
    network: str, options: dict[str, Any]
) -> None:
    """TransformerConfig checks sizes and degrees; Megatron-LM's parser is in no package."""
    module = pytest.importorskip("megatron.core.transformer.transformer_config")
    torch = pytest.importorskip("torch")
    nodes = {"nodes": 3 if "dp=3" in options["parallel"] else 2}
    found = step(network=network, set=nodes, precision="bf16", **options)
    words = shell_words("job.sh", found.export("megatron"))
    known = {one.name for one in fields(module.TransformerConfig)}
    told = {key: value for key, value in words.items() if key in known}
    # as core_transformer_config_from_args names them
    told |= {"num_moe_experts": words["num_experts"]} if "num_experts" in words else {}
    told |= {"gated_linear_unit": bool(words.get("swiglu"))}
    told |= {"add_bias_linear": not words.get("disable_bias_linear")}
    told |= {"params_dtype": torch.bfloat16, "pipeline_dtype": torch.bfloat16}
    config = module.TransformerConfig(**told)
    of: Any = found.case.network.sizes
    assert (config.num_layers, config.hidden_size) == (of.layers, of.hidden)
    assert config.num_query_groups == (of.kv_heads or of.heads) or of.kv_rank
    assert (config.num_moe_experts or 0) == of.experts
    assert config.tensor_model_parallel_size == Axes.parse(options["parallel"]).tp
