"""Files of training frameworks, as people have them, in our words."""

import contextlib
import json
import time
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest

import accelarray
from experiments.cli import main
from experiments.files.job import Job
from experiments.output import UsageError

MEGATRON = """#!/bin/bash
# a comment with --num-layers 7
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-4}
TP=8   # tensor
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
)
MODEL_ARGS=(
    --num-layers 80
    --hidden-size 8192
    --ffn-hidden-size 28672
    --num-attention-heads 64
    --group-query-attention
    --num-query-groups 8
    --seq-length 4096 --max-position-embeddings 4096
    --normalization RMSNorm --swiglu --disable-bias-linear
    --untie-embeddings-and-output-weights --hidden-dropout 0.0
    --position-embedding-type rope --vocab-size 128000
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL_ARGS[@]} \\
   --tensor-model-parallel-size ${TP} --sequence-parallel \\
   --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 10 \\
   --micro-batch-size 1 --global-batch-size 128 --bf16 --use-distributed-optimizer \\
   --recompute-granularity selective --lr 1e-4 --some-new-flag 3
"""
LLAMA_70B = {
    "layers": 80, "hidden": 8192, "heads": 64, "ffn": 28672, "kv_heads": 8, "seq": 4096,
    "vocab": 128_000, "gated": True, "activation": "silu", "biases": False, "tied": False,
    "norm": "rms_norm", "positions": "rotary", "fused_qkv": True,
}  # fmt: skip
BRIDGE = """
model:
  _target_: megatron.bridge.models.DeepSeekModelProvider
  num_layers: 61
  hidden_size: 7168
  ffn_hidden_size: 18432
  num_attention_heads: 128
  kv_channels: 128
  q_lora_rank: 1536
  multi_latent_attention: true
  num_moe_experts: 256
  moe_router_topk: 8
  moe_ffn_hidden_size: 2048
  moe_shared_expert_intermediate_size: 2048
  moe_layer_freq: ([0]*3+[1]*58)
  gated_linear_unit: true
  normalization: RMSNorm
  add_bias_linear: false
  share_embeddings_and_output_weights: false
  position_embedding_type: rope
  hidden_dropout: 0.0
  padded_vocab_size: 129280
  seq_length: 4096
  pipeline_model_parallel_size: 16
  expert_model_parallel_size: 64
  pipeline_model_parallel_layout: "Et*3|(tt|)*29,m|L"
  recompute_granularity: full
  recompute_method: block
  recompute_num_layers: 2
train: {global_batch_size: 4096, micro_batch_size: 1}
mixed_precision: bf16_with_fp8_hybrid
ddp: {use_distributed_optimizer: true}
"""
NEMO = """
trainer: {devices: 8, num_nodes: 2, precision: bf16-mixed}
model:
  num_layers: 24
  hidden_size: 2048
  num_attention_heads: 16
  encoder_seq_length: 2048
  tensor_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: null
  micro_batch_size: 4
  global_batch_size: 256
  activations_checkpoint_granularity: full
  bias: false
  activation: fast-swiglu
"""
TORCHTITAN = """
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 4
tensor_parallel_degree = 2
strange = 1
[activation_checkpoint]
mode = "full"
[optimizer]
name = "AdamW"
lr = 3e-4
"""
MAXTEXT = """
base_emb_dim: 4096
base_num_query_heads: 32
base_num_kv_heads: 8
base_mlp_dim: 14336
base_num_decoder_layers: 32
vocab_size: 128_256
per_device_batch_size: 4
ici_fsdp_parallelism: 8
ici_tensor_parallelism: 2
dcn_data_parallelism: 2
remat_policy: minimal
max_target_length: 4096
quantization: fp8
steps: 10
"""
DEEPSPEED = """{
  "train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
  "zero_optimization": {"stage": 2, "overlap_comm": true}, "fp16": {"enabled": true},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}, "strange": "auto"
}"""
DEEPSEEK = {
    "layers": 61, "hidden": 7168, "heads": 128, "ffn": 18432, "head_dim": 128, "seq": 4096,
    "experts": 256, "topk": 8, "moe_ffn": 2048, "shared_ffn": 2048, "vocab": 129_280,
    "gated": True, "activation": "silu", "biases": False, "tied": False, "norm": "rms_norm",
    "positions": "rotary", "fused_qkv": True, "q_rank": 1536, "kv_rank": 512, "rope_dim": 64,
    "dense_layers": 3,
}  # fmt: skip
FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "pretrain.sh": (
        "Megatron's arguments",
        MEGATRON,
        {
            "batch": 128, "precision": "bf16", "optimizer": "adam", "zero": 1, "micro_batch": 1,
            "parallel": "dp=2,pp=2,tp=8,vp=4,sp", "recompute": "selective",
            "transformer": LLAMA_70B,
        },
    ),
    "bridge.yaml": (
        "Megatron's arguments",
        BRIDGE,
        {
            "batch": 4096, "precision": "fp8", "optimizer": "adam", "zero": 1, "micro_batch": 1,
            "parallel": "pp=16,vp=2,ep=64", "recompute": "2",
            "stage_layers": "4," + "2," * 29 + "0,1", "transformer": DEEPSEEK,
        },
    ),
    "nemo.yaml": (
        "Megatron's arguments",
        NEMO,
        {
            "batch": 256, "precision": "bf16", "optimizer": "adam", "zero": 0, "micro_batch": 4,
            "parallel": "dp=8,tp=2", "recompute": "full",
            "transformer": {
                "layers": 24, "hidden": 2048, "heads": 16, "seq": 2048, "gated": True,
                "activation": "silu", "biases": False, "tied": True, "norm": "layer_norm",
                "positions": "table", "fused_qkv": True, "dropout": True,
            },
        },
    ),
    "train.toml": (
        "torchtitan's TOML",
        TORCHTITAN,
        {
            "network": "llama3-8b:seq=8192", "batch": 64, "precision": "bf16", "zero": 3,
            "optimizer": "adam", "parallel": "dp=8,tp=2,sp", "micro_batch": 8,
            "recompute": "full",
        },
    ),
    "maxtext.yml": (
        "MaxText's YAML",
        MAXTEXT,
        {
            "batch": 128, "precision": "fp8", "optimizer": "adam", "parallel": "dp=16,tp=2",
            "zero": 3, "micro_batch": 8, "recompute": "selective",
            "transformer": {
                "seq": 4096, "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8,
                "ffn": 14336, "head_dim": 128, "vocab": 128_256, "gated": True,
                "norm": "rms_norm", "positions": "rotary", "activation": "silu",
                "biases": False, "fused_qkv": False, "tied": False,
            },
        },
    ),
    "ds.json": (
        "DeepSpeed's JSON",
        DEEPSPEED,
        {
            "batch": 64, "precision": "fp16", "optimizer": "adam", "zero": 2, "micro_batch": 2,
            "parallel": "dp=8",
        },
    ),
}  # fmt: skip


def read(folder: Path, name: str, text: str) -> Any:
    path = folder / name
    path.write_text(text)
    with pytest.warns(accelarray.AccelarrayWarning) if _notes(name) else _silent():
        return accelarray.read(path)


SOFTWARE = "simulated with the array's software, not its own: --stack {}"


def test_samples_of_a_replica_are_said_where_the_batch_is_not(tmp_path: Path) -> None:
    text = '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8}'
    found = read(tmp_path, "no-batch.json", text).to_dict()
    assert "train_batch_size is missing: say batch, 32 x dp" in found["notes"]


def _notes(name: str) -> bool:
    return name != "bridge.yaml"


def _silent() -> Any:
    from contextlib import nullcontext

    return nullcontext()


@pytest.mark.parametrize("name", FILES)
def test_files_as_people_have_them(name: str, tmp_path: Path) -> None:
    kind, text, values = FILES[name]
    found = read(tmp_path, name, text)
    assert found.kind == kind
    assert found.to_dict()["options"] == values


@pytest.mark.parametrize(
    ("name", "after", "line"),
    [
        ("nemo.yaml", "tensor_model_parallel_size: 2", "  expert_tensor_parallel_size: 1"),
        ("train.toml", "tensor_parallel_degree = 2", "expert_tensor_parallel_degree = 1"),
    ],
)
def test_whole_experts_are_nothing_where_there_are_none(
    name: str, after: str, line: str, tmp_path: Path
) -> None:
    """The frameworks' own default is in files of dense networks, too: no etp=1 without ep."""
    _, text, values = FILES[name]
    found = read(tmp_path, name, text.replace(after, f"{after}\n{line}"))
    assert found.to_dict()["options"]["parallel"] == values["parallel"]


def test_what_was_not_understood_is_told(tmp_path: Path) -> None:
    notes = {
        name: read(tmp_path, name, text).to_dict()["notes"]
        for name, (_, text, _) in FILES.items()
        if _notes(name)
    }
    path = tmp_path / "pretrain.sh"
    assert notes["pretrain.sh"] == [
        SOFTWARE.format("megatron-lm-2025"),
        f"not understood of {path}: some_new_flag",
    ]
    assert notes["train.toml"] == [
        "weights are sharded among some of dp (HSDP): read as among all of it",
        SOFTWARE.format("torchtitan-2024"),
        f"not understood of {tmp_path / 'train.toml'}: parallelism.strange",
    ]
    assert notes["nemo.yaml"] == [
        "the size of the vocabulary is not there: add vocab to [transformer]"
    ]
    assert notes["maxtext.yml"] == [SOFTWARE.format("maxtext-2024")]
    assert notes["ds.json"][0] == "auto, which the trainer decides: strange"


@pytest.mark.parametrize(
    ("name", "text", "ours"),
    [
        ("a.sh", "pretrain --num-layers 2 --optimizer muon", None),
        ("b.sh", "pretrain --num-layers 2 --optimizer sgd", "sgd"),
        ("c.yml", "ici_tensor_parallelism: 2\nopt_type: adam_pax\n", "adam"),
        ("d.toml", '[optimizer]\nname = "Lion"\n[training]\nseq_len = 64\n', None),
    ],
)
def test_an_optimizer_that_is_not_ours_is_told(
    name: str, text: str, ours: str | None, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = accelarray.read(tmp_path / name)
    told = [note for note in found.job.notes if "read as adam" in note]
    assert found.job.options["optimizer"] == (ours or "adam")
    assert len(told) == (ours is None)


@pytest.mark.parametrize(
    ("name", "text", "keys"),
    [
        (
            "job.sh",
            MEGATRON.replace("--lr 1e-4", "--overlap-grad-reduce --ddp-bucket-size 1000"),
            "overlap_grad_reduce, ddp_bucket_size",
        ),
        (
            "job.json",
            '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_comm": false}}',
            "zero_optimization.overlap_comm",
        ),
    ],
)
def test_what_changes_the_time_and_is_not_read_is_told(
    name: str, text: str, keys: str, tmp_path: Path
) -> None:
    (path := tmp_path / name).write_text(text)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        accelarray.read(path)
    words = f"{keys}: not read; --overlap, --bucket, --attention or --stack say it"
    assert words in [str(one.message) for one in told]


@pytest.mark.parametrize(
    ("name", "text", "keys"),
    [
        (
            "job.sh",
            MEGATRON.replace("--num-layers 80", "--num-layers 79")
            + " --accumulate-allreduce-grads-in-fp32 --optimizer-cpu-offload"
            " --account-for-loss-in-pipeline-split --main-grads-dtype bf16 --lr-decay-iters 8",
            "accumulate_allreduce_grads_in_fp32, optimizer_cpu_offload, "
            "account_for_loss_in_pipeline_split, main_grads_dtype",
        ),
        (
            "job.json",
            '{"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size":'
            ' 8, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "none"}}}',
            "zero_optimization.zero_hpz_partition_size",  # offloading has a note of its own
        ),
        (
            "job.toml",
            "[training]\nseq_len = 8192\nenable_cpu_offload = true",
            "training.enable_cpu_offload",
        ),
    ],
)
def test_what_changes_memory_and_is_not_read_is_told(
    name: str, text: str, keys: str, tmp_path: Path
) -> None:
    """Their names have parts that change nothing in others: lr in allreduce, load in offload."""
    (path := tmp_path / name).write_text(text)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        accelarray.read(path)
    words = f"{keys}: not read; it changes memory, traffic or which layers a stage has"
    assert words in [str(one.message) for one in told]


def test_several_variables_on_one_line(tmp_path: Path) -> None:
    text = MEGATRON.replace("TP=8   # tensor", 'NAME="a;TP=2"; export TP=4;PP=1 # tensor')
    (path := tmp_path / "job.sh").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "tp=4" in accelarray.read(path).to_dict()["options"]["parallel"]


def test_a_vocabulary_is_padded_as_megatron_pads_it(tmp_path: Path) -> None:
    text = MEGATRON.replace("128000", "128256")
    assert read(tmp_path, "pretrain.sh", text).job.sizes["vocab"] == 129_024  # 126 x 128 x 8
    text += " --make-vocab-size-divisible-by 1"
    assert read(tmp_path, "pretrain.sh", text).job.sizes["vocab"] == 128_256


def test_the_toml_is_a_file_for_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "pretrain.sh", tmp_path / "job.toml"
    small = MEGATRON.replace("--num-layers 80", "--num-layers 4").replace("stage 10", "stage 1")
    source.write_text(small.replace("--seq-length 4096", "--seq-length 256"))
    assert main(["read", str(source), "--output", str(target)]) == 0
    assert "not understood" in capsys.readouterr().err
    words = ["simulate", "--config", str(target), "--array", "h100-cluster", "--set", "nodes=4"]
    assert main([*words, "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["network"].startswith("transformer")
    assert data["batch"] == 128
    assert "dp=2 pp=2 tp=8 vp=2 sp" in data["execution"]


def test_a_config_json_read_is_the_network_itself(tmp_path: Path) -> None:
    config = {
        "model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 96,
        "num_attention_heads": 4, "head_dim": 32, "intermediate_size": 80,
        "max_position_embeddings": 64,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    sizes = accelarray.read(path).job.sizes
    text = ":".join(f"{k}={str(v).lower() if v in (True, False) else v}" for k, v in sizes.items())
    one, other = accelarray.network(path), accelarray.network(f"transformer:{text}")
    assert one.layers == other.layers
    assert one.fused == other.fused


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", "[]", "no keys and values"),
        ("a.json", '{"a": 1}', "not a file that is known here"),
        ("a.yaml", "a: &x [1]\nb: *x\n", "aliases (*name) are not read"),
        ("a.yaml", "a: !!python/object/apply:os.system [ls]\n", "not valid YAML"),
        ("a.yaml", "num_layers: [1]\nhidden_size: 3\n", "num_layers: [1]: must be a whole number"),
        ("ds.json", '{"zero_optimization": {"stage": 9}}', "9: must be a whole number from 0 to 3"),
        ("a.sh", "x --num-layers many", "num_layers: 'many': must be a whole number"),
        ("a.sh", "x --num-layers 4 '", "not a shell command"),
        ("a.sh", "echo", "not a file that is known here"),
        ("a.toml", "[parallelism]\ntensor_parallel_degree = -1\n", "must be a whole number"),
        ("a.yml", "ici_fsdp_parallelism: 0\n", "must be a whole number, or -1"),
    ],
)
def test_what_cannot_be_read(name: str, text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        accelarray.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert words in str(error.value)


def test_variables_that_grow_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    lines = [f'A{i}="{"$A" + str(i + 1) + " "} {"x" * 900}"' for i in range(20)]
    path.write_text("\n".join(lines) + "\n" + "$A0 " * 200_000)
    with pytest.raises(UsageError, match="variables make more than 4 MiB"):
        accelarray.read(path)


def test_a_flag_without_a_value_may_be_the_last_of_an_array(tmp_path: Path) -> None:
    text = (
        "MODEL=(\n --num-layers\n 4\n --hidden-size 512 --num-attention-heads 8\n"
        " --seq-length 64 --sequence-parallel\n)\nMORE=(--tensor-model-parallel-size 2\n"
        " --use-distributed-optimizer)\ntorchrun pretrain_gpt.py ${MODEL[@]} ${MORE[@]}\nsleep 9\n"
    )
    found = read(tmp_path, "job.sh", text).to_dict()
    assert found["options"]["parallel"].endswith("tp=2,sp")
    assert (found["options"]["zero"], found["options"]["transformer"]["layers"]) == (1, 4)
    assert any("vocabulary" in note for note in found["notes"])


@pytest.mark.parametrize(("steps", "dp"), [(None, ""), ("auto", ""), (4, "dp=16")])
def test_deepspeed_has_as_many_devices_as_there_are(
    steps: int | str | None, dp: str, tmp_path: Path
) -> None:
    """runtime/config.py: steps that are not said follow from the number of devices."""
    said = {} if steps is None else {"gradient_accumulation_steps": steps}
    sizes = {"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4}
    text = json.dumps(sizes | said | {"zero_optimization": {"stage": 1}})
    assert read(tmp_path, "ds.json", text).to_dict()["options"].get("parallel", "") == dp


def _read_text(folder: Path, name: str, text: str) -> Job:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return accelarray.read(path).job


PLAIN = """torchrun pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \\
  --seq-length 4096 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 8 \\
  --disable-bias-linear --untie-embeddings-and-output-weights --normalization RMSNorm \\
  --position-embedding-type rope """


def test_megatrons_words_have_defaults_of_their_own(tmp_path: Path) -> None:
    """Arguments.py: a gated layer is 8/3 x hidden wide, in whole 64; groups need their flag."""
    job = _read_text(tmp_path, "a.sh", PLAIN + "--swiglu --num-query-groups 8")
    assert job.sizes["ffn"] == 10_880
    assert "kv_heads" not in job.sizes
    assert any("num_query_groups" in note for note in job.notes)
    job = _read_text(
        tmp_path,
        "b.sh",
        PLAIN + "--swiglu --ffn-hidden-size 11008 --group-query-attention --num-query-groups 8",
    )
    assert (job.sizes["ffn"], job.sizes["kv_heads"]) == (11_008, 8)


def test_a_batch_that_deepspeed_would_refuse(tmp_path: Path) -> None:
    text = (
        '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, '
        '"gradient_accumulation_steps": 3, "zero_optimization": {"stage": 1}}'
    )
    with pytest.raises(UsageError, match="train_batch_size: 64: must be a multiple of micro-batch"):
        _read_text(tmp_path, "ds.json", text)


def test_what_else_is_computed_again_is_a_remark(tmp_path: Path) -> None:
    maxtext = "model_name: llama3-8b\nremat_policy: {}\nper_device_batch_size: 1\n"
    for policy, said in (("save_qkv_proj", True), ("full", False), ("minimal", False)):
        job = _read_text(tmp_path, f"{policy}.yml", maxtext.format(policy))
        assert any("remat_policy" in note for note in job.notes) == said
    titan = (
        '[model]\nname = "llama3"\nflavor = "8B"\nconverters = ["quantize.linear.mx"]\n'
        "[training]\nlocal_batch_size = 1\nseq_len = 8192\n"
        '[activation_checkpoint]\nmode = "selective"\nselective_ac_option = "{}"\n'
    )
    for option, said in (("2", True), ("op", False)):
        job = _read_text(tmp_path, f"{option}.toml", titan.replace("{}", option))
        assert job.options["precision"] == "fp8"
        assert any("selective_ac_option" in note for note in job.notes) == said


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps({"num_layers": 8, "no_" * 8000 + "\n": 1})),
        ("b.json", json.dumps({"train_batch_size": 8, "offload" * 8000 + "!": 1})),
        ("c.sh", "torchrun a.py --num-layers 4" + "\n" * 40_000),
    ],
    ids=["newline", "long", "lines"],
)
def test_files_of_a_stranger_are_read_or_refused_at_once(
    name: str, text: str, tmp_path: Path
) -> None:
    began = time.process_time()
    with contextlib.suppress(UsageError):
        _read_text(tmp_path, name, text)
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ds.json", '{"train_batch_size": 8, "x\\nplanner = \\"evil.py:f\\"": 1}'),
        ("tt.toml", '"x\\nplanner = \\"evil.py:f\\"" = 1\n[training]\nlocal_batch_size = 1\n'),
        ("mt.yml", 'per_device_batch_size: 1\n"x\\nplanner = \\"evil.py:f\\"": 1\n'),
    ],
)
def test_a_key_begins_no_line_of_what_is_written(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    main(["read", str(tmp_path / name)])
    found = capsys.readouterr()
    assert "evil" in found.out + found.err
    assert "planner" not in tomllib.loads(found.out)
    assert not [line for line in found.err.splitlines() if line.startswith("planner")]
