"""What frameworks do where their files say nothing, and what is told of keys that are not read."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import accelarray
from experiments.files.export import WRITERS
from experiments.files.job import Job
from experiments.output import UsageError
from planners import Axes

MAXTEXT = "per_device_batch_size: 1\nici_fsdp_parallelism: 1\ndcn_data_parallelism: 2\n"
STAGED = MAXTEXT + "model_name: llama3-8b\nici_pipeline_parallelism: 4\n"
MEGATRON = """torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 512 \\
  --num-attention-heads 8 --seq-length 64 --vocab-size 32000 --micro-batch-size 1 \\
  --global-batch-size 8 --bf16 """
NEMO = """
trainer: {devices: 8, num_nodes: 1, precision: bf16}
name: megatron_gpt
model: {num_layers: 4, hidden_size: 512, num_attention_heads: 8, encoder_seq_length: 64,
  micro_batch_size: 1, global_batch_size: 8, vocab_size: 32000, optim: {%s}}
"""
TITAN = "[training]\nseq_len = 64\nlocal_batch_size = 1\n"


def told(folder: Path, name: str, text: str) -> tuple[Job, str]:
    """The job of a file, and all that was told of it."""
    (path := folder / name).write_text(text)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        job = accelarray.read(path).job
    return job, "\n".join(str(one.message) for one in said)


def job_on(sizes: dict[str, Any], axes: Axes, **options: Any) -> Job:
    usual = {"batch": 64, "micro_batch": 1, "precision": "bf16", "optimizer": "adam", "zero": 0}
    return Job("llama3-8b:seq=64", sizes, axes, usual | {"recompute": "none"} | options)


@pytest.mark.parametrize(
    ("layers", "more", "each"), [(32, {}, 4), (30, {}, 0), (32, {"stage_layers": "5,4,4,21"}, 4)]
)
def test_maxtext_is_told_how_many_layers_a_stage_has(
    layers: int, more: dict[str, str], each: int
) -> None:
    """pyconfig: stages x repeats x layers of a stage are all layers."""
    axes = Axes(pp=4, vp=2, tp=2, dp=4)
    job = job_on({"layers": layers}, axes, schedule="gpipe", **more)
    text = WRITERS["maxtext"](job, 32, remarks := list[str]())
    assert (f"num_layers_per_pipeline_stage: {each}\n" in text) == bool(each)
    assert any("cannot be written" in remark for remark in remarks) != bool(each)
    uneven = any("as many layers each" in remark for remark in remarks)
    assert uneven == bool(more or not each)


@pytest.mark.parametrize(
    ("more", "vp"),
    [
        ("", 8),
        ("num_pipeline_repeats: -1\nnum_pipeline_microbatches: -1\n", 8),
        ("num_layers_per_pipeline_stage: 4\n", 2),
        ("num_layers_per_pipeline_stage: 4\nnum_pipeline_repeats: 2\n", 2),
        ("num_layers_per_pipeline_stage: 2\npipeline_parallel_layers: 24\n", 3),
    ],
)
def test_maxtexts_repeats_follow_from_its_layers(more: str, vp: int, tmp_path: Path) -> None:
    job, said = told(tmp_path, "a.yml", STAGED + more)
    assert job.axes.vp == vp
    assert ("pipeline_parallel_layers = 24: all 32" in said) == ("24" in more)


@pytest.mark.parametrize(
    "more", ["num_pipeline_repeats: 2\n", "num_layers_per_pipeline_stage: 3\n"]
)
def test_layers_that_are_not_all_in_maxtexts_stages_are_refused(more: str, tmp_path: Path) -> None:
    (path := tmp_path / "a.yml").write_text(STAGED + more)
    with pytest.raises(UsageError, match=r"num_layers_per_pipeline_stage: .* the 32 layers"):
        accelarray.read(path)


def test_repeats_of_a_model_that_is_not_known_are_told(tmp_path: Path) -> None:
    _, said = told(tmp_path, "a.yml", STAGED.replace("llama3-8b", "llama4"))
    assert "num_pipeline_repeats follows from the layers: say vp" in said


def test_maxtexts_shapes_are_read_or_told(tmp_path: Path) -> None:
    job, said = told(tmp_path, "a.yml", MAXTEXT + "mlp_activations: ['gelu']\n")
    assert (job.sizes["activation"], job.sizes["gated"]) == ("gelu", False)
    assert "not read" not in said
    job, _ = told(tmp_path, "a.yml", MAXTEXT + "mlp_activations: ['gelu', 'linear']\n")
    assert (job.sizes["activation"], job.sizes["gated"]) == ("gelu", True)
    (path := tmp_path / "a.yml").write_text(MAXTEXT + "mlp_activations: ['tanh', 'linear']\n")
    with pytest.raises(UsageError, match=r"mlp_activations: .*one of gelu, relu"):
        accelarray.read(path)


@pytest.mark.parametrize(
    ("key", "usual", "other"),
    [
        ("decoder_block", "llama2", "gemma"),
        ("attention_type", "global", "mla"),
        ("kv_lora_rank", 512, 256),
        ("first_num_dense_layers", 0, 3),
        ("base_moe_mlp_dim", 7168, 2048),
        ("global_parameter_scale", 1, 4),
        ("use_qk_norm", False, True),
        ("ici_tensor_transpose_parallelism", 1, 2),
        ("weight_dtype", "float32", "bfloat16"),
        ("grad_dtype", "float32", "bfloat16"),
        ("mu_dtype", "''", "bfloat16"),
        ("num_vocab_tiling", 1, 4),
    ],
)
def test_maxtexts_keys_that_change_a_step_are_told(
    key: str, usual: object, other: object, tmp_path: Path
) -> None:
    _, said = told(tmp_path, "a.yml", f"{MAXTEXT}{key}: {usual}\n")
    assert key not in said
    _, said = told(tmp_path, "a.yml", f"{MAXTEXT}{key}: {other}\n")
    assert key in said
    assert "not read" in said


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("", 'selective_ac_option is missing: read as "op"'),
        ('selective_ac_option = "2"', "selective_ac_option = '2': every block of that many"),
        ('selective_ac_option = "op"', ""),
        ('mode = "full"', ""),
    ],
)
def test_what_torchtitan_computes_again_is_said(option: str, words: str, tmp_path: Path) -> None:
    """JobConfig: the option is "2" where it is missing, every second block in full."""
    _, said = told(tmp_path, "a.toml", f"{TITAN}[activation_checkpoint]\n{option}\n")
    assert words in said
    assert bool(words) == ("selective_ac_option" in said)


@pytest.mark.parametrize(("recompute", "written"), [("selective", True), ("full", False)])
def test_torchtitan_is_told_which_operations_are_computed_again(
    recompute: str, written: bool
) -> None:
    text = WRITERS["torchtitan"](job_on({}, Axes(dp=8), recompute=recompute), 8, [])
    assert ('selective_ac_option = "op"\n' in text) == written


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "a.toml",
            f'{TITAN}[activation_checkpoint]\nmode = "memory_budget"\n',
            "activation_checkpoint.mode: 'memory_budget': only none, selective, full are simulated",
        ),
        (
            "a.sh",
            f"{MEGATRON} --pipeline-model-parallel-size 4"
            " --num-layers-per-virtual-pipeline-stage 3",
            "num_layers_per_virtual_pipeline_stage: 3: x 4 pipeline ranks must divide 32 layers",
        ),
    ],
)
def test_what_is_not_simulated_or_refused_by_megatron_is_refused(
    name: str, text: str, words: str, tmp_path: Path
) -> None:
    (path := tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as error:
        accelarray.read(path)
    assert words in str(error.value)


def test_embedding_and_loss_are_counted_among_layers_where_megatron_counts_them(
    tmp_path: Path,
) -> None:
    text = MEGATRON.replace("--num-layers 32", "--num-layers 30") + (
        "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4"
        " --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
    )
    assert told(tmp_path, "a.sh", text)[0].axes.vp == 2


@pytest.mark.parametrize(
    ("optim", "optimizer", "zero"),
    [
        ("name: distributed_fused_adam", "adam", 1),
        ("name: distributed_fused_adam, contiguous_grad_buffer: false", "adam", 2),
        ("name: fused_adam", "adam", 0),
        ("name: sgd", "sgd", 0),
    ],
)
def test_nemos_optimizer_shards_its_state(
    optim: str, optimizer: str, zero: int, tmp_path: Path
) -> None:
    """NeMo 1: Apex's gradients are whole in one buffer, unless that is turned off."""
    options = told(tmp_path, "a.yaml", NEMO % f"{optim}, bucket_cap_mb: 125")[0].options
    assert (options["optimizer"], options["zero"]) == (optimizer, zero)


def test_an_optimizer_of_nemo_that_is_not_ours_is_told_by_its_key(tmp_path: Path) -> None:
    _, said = told(tmp_path, "a.yaml", NEMO % "name: lion")
    assert "optim_name = 'lion': read as adam" in said


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.sh", f"{MEGATRON} --fp8-format hybrid --fp8-param-gather", "fp8_param_gather: not"),
        ("a.yaml", NEMO % "" + "fp8_params: true\n", "fp8_params: not read"),
        ("a.yaml", NEMO % "grad_sync_dtype: bf16", "grad_sync_dtype: not read"),
        ("a.yaml", NEMO % "bucket_cap_mb: 125", "bucket_cap_mb: not read"),
        (
            "a.sh",
            f"{MEGATRON} --recompute-granularity full --recompute-method uniform"
            " --recompute-num-layers 4",
            "recompute_num_layers = 4: inputs of one in 4 blocks are kept; read as full",
        ),
        ("a.json", {"communication_data_type": "fp32"}, "communication_data_type: not read"),
        (
            "a.json",
            {"zero_optimization": {"stage": 3, "mics_shard_size": 8}},
            "zero_optimization.mics_shard_size: not read; it changes memory, traffic",
        ),
        ("a.json", {"amp": {"enabled": True}}, "amp.enabled: read as fp16"),
        (
            "a.toml",
            f"{TITAN}[float8]\nenable_fsdp_float8_all_gather = true\n",
            "float8.enable_fsdp_float8_all_gather: not read; it changes memory, traffic",
        ),
    ],
)
def test_what_changes_a_step_and_is_not_read_is_told_once(
    name: str, text: str | dict[str, Any], words: str, tmp_path: Path
) -> None:
    whole = text if isinstance(text, str) else json.dumps({"train_batch_size": 8} | text)
    _, said = told(tmp_path, name, whole)
    assert said.count(words) == 1
    assert said.count(words.partition(":")[0]) == 1


def test_values_that_ask_for_nothing_are_not_told(tmp_path: Path) -> None:
    usual = {"zero_optimization": {"stage": 3, "mics_shard_size": -1}}
    text = json.dumps({"train_batch_size": 8, "communication_data_type": None} | usual)
    assert "not read" not in told(tmp_path, "a.json", text)[1]


@pytest.mark.parametrize(
    ("more", "vocab"), [("", 32_000), ("--tokenizer-type NullTokenizer", 32_256)]
)
def test_megatrons_null_tokenizer_has_a_token_more(more: str, vocab: int, tmp_path: Path) -> None:
    """_NullTokenizer: the end of a document is behind the words; then comes the padding."""
    text = f"{MEGATRON} --tensor-model-parallel-size 2 {more}"
    assert told(tmp_path, "a.sh", text)[0].sizes["vocab"] == vocab


def test_apexs_mixed_precision_is_read_as_half(tmp_path: Path) -> None:
    text = '{"train_batch_size": 8, "amp": {"enabled": true, "opt_level": "O1"}}'
    assert told(tmp_path, "a.json", text)[0].options["precision"] == "fp16"


@pytest.mark.parametrize("word", ["16", "'16'", "16-true", "16-mixed"])
def test_nemos_half_precision_has_four_words(word: str, tmp_path: Path) -> None:
    """Lightning's Trainer: an int or a word."""
    text = (NEMO % "").replace("precision: bf16", f"precision: {word}")
    assert told(tmp_path, "a.yaml", text)[0].options["precision"] == "fp16"


@pytest.mark.parametrize(
    ("bf16", "fp16", "precision"),
    [("auto", "auto", None), ("auto", False, None), (True, "auto", "bf16"), (False, False, "fp32")],
)
def test_a_precision_that_the_trainer_decides_is_left_open(
    bf16: object, fp16: object, precision: str | None, tmp_path: Path
) -> None:
    found = {"train_batch_size": 8, "bf16": {"enabled": bf16}, "fp16": {"enabled": fp16}}
    assert told(tmp_path, "a.json", json.dumps(found))[0].options.get("precision") == precision


@pytest.mark.parametrize(
    ("more", "flavor", "counts"),
    [
        ("", "8B", "5,5,4,4,4,4,4,4"),
        (
            'pipeline_parallel_schedule = "Interleaved1F1B"',
            "70B",
            "6,6,5,5,5,5,5,5,5,5,5,5,5,5,5,5",
        ),
        ("pipeline_parallel_last_stage_less_layers = 2", "8B", "5,5,5,4,4,4,4,3"),
        (
            "pipeline_parallel_first_stage_less_layers = 0\n"
            "pipeline_parallel_last_stage_less_layers = 0",
            "8B",
            None,
        ),
    ],
)
def test_torchtitan_deals_out_blocks_with_embedding_and_head(
    more: str, flavor: str, counts: str | None, tmp_path: Path
) -> None:
    """generate_llm_fqn_per_model_part of these, counted by hand: 34 in 8 stages, 82 in 16."""
    text = f'{TITAN}[model]\nname = "llama3"\nflavor = "{flavor}"\n'
    text += f"[parallelism]\npipeline_parallel_degree = 8\n{more}\n"
    assert told(tmp_path, "a.toml", text)[0].options.get("stage_layers") == counts


@pytest.mark.parametrize(
    ("schedule", "each", "vp", "counts"),
    [
        ("Interleaved1F1B", 3, 3, "3,3,3,3,3,3,3,3,3,3,2,2"),  # ceil(34 / 3) = 12 stages
        ("1F1B", 9, 1, "9,9,8,8"),  # ceil(34 / 9) = 4
        ("Interleaved1F1B", 9, 0, "34 layers make 4 stages, which Interleaved1F1B does not run"),
        ("1F1B", 5, 0, "34 layers make 7 stages, which 1F1B does not run on 4 ranks"),
    ],
)
def test_torchtitan_is_told_how_many_layers_a_stage_has(
    schedule: str, each: int, vp: int, counts: str, tmp_path: Path
) -> None:
    """pipeline_llm: 32 blocks, and one each for embedding and head, in so large stages."""
    text = f'{TITAN}[model]\nname = "llama3"\nflavor = "8B"\n[parallelism]\n'
    text += f'pipeline_parallel_degree = 4\npipeline_parallel_schedule = "{schedule}"\n'
    text += f"pipeline_parallel_layers_per_stage = {each}\n"
    if not vp:
        (path := tmp_path / "a.toml").write_text(text)
        with pytest.raises(UsageError, match=counts):
            accelarray.read(path)
        return
    job, said = told(tmp_path, "a.toml", text)
    assert (job.axes.vp, job.options["stage_layers"]) == (vp, counts)
    assert "per_stage" not in said
    assert "say vp" in told(tmp_path, "a.toml", text.replace("8B", "debug"))[1]


def test_blocks_of_a_stage_that_torchtitan_cannot_deal_out(tmp_path: Path) -> None:
    text = f"{TITAN}[parallelism]\npipeline_parallel_degree = 8\n"
    assert "say stage_layers" in told(tmp_path, "a.toml", text)[1]
    (path := tmp_path / "a.toml").write_text(
        f'{text}pipeline_parallel_last_stage_less_layers = 9\n[model]\nname = "llama3"\n'
        'flavor = "8B"\n'
    )
    with pytest.raises(UsageError, match="8 stages have no 9 layers each"):
        accelarray.read(path)


def test_torchtitan_is_told_that_all_stages_have_as_many_blocks() -> None:
    text = WRITERS["torchtitan"](job_on({"layers": 32}, Axes(dp=1, pp=4)), 4, [])
    assert "pipeline_parallel_first_stage_less_layers = 0\n" in text
    assert "pipeline_parallel_last_stage_less_layers = 0\n" in text


@pytest.mark.parametrize(
    ("word", "gated", "activation"),
    [
        ("geglu", True, "gelu"),
        ("fast-geglu", True, "gelu"),
        ("reglu", True, "relu"),
        ("fast-reglu", True, "relu"),
        ("fast-swiglu", True, "silu"),
        ("squared-relu", False, "squared_relu"),
        ("torch.nn.functional.silu", False, "silu"),
        ("gelu", False, "gelu"),
    ],
)
def test_nemos_activations(word: str, gated: bool, activation: str, tmp_path: Path) -> None:
    """megatron_gpt_config.yaml lists them."""
    text = NEMO.replace("num_layers: 4", f"num_layers: 4, activation: {word}") % ""
    job, said = told(tmp_path, "a.yaml", text)
    assert (job.sizes.get("gated", False), job.sizes["activation"]) == (gated, activation)
    assert "activation" not in said


def test_megatrons_swiglu_sets_silu_whatever_else_is_said(tmp_path: Path) -> None:
    for word in ("gelu", "squared-relu", "tanh"):
        more = f"num_layers: 4, swiglu: true, activation: {word}"
        job, said = told(tmp_path, "a.yaml", NEMO.replace("num_layers: 4", more) % "")
        assert (job.sizes["gated"], job.sizes["activation"]) == (True, "silu")
        assert "activation" not in said


def test_words_of_megatron_that_are_not_known_are_told(tmp_path: Path) -> None:
    text = NEMO.replace("num_layers: 4", "num_layers: 4, activation: tanh") % ""
    assert "activation = 'tanh': read as gelu" in told(tmp_path, "a.yaml", text)[1]
    for word, positions in (("alibi", "alibi"), ("relative", "rotary"), ("yarn", "rotary")):
        job, said = told(tmp_path, "a.sh", f"{MEGATRON} --position-embedding-type {word}")
        assert job.sizes["positions"] == positions
        assert ("position_embedding_type = 'relative': read as rotary" in said) == (
            word == "relative"
        )


def test_groups_of_megatrons_queries_are_one_where_no_number_is_said(tmp_path: Path) -> None:
    assert told(tmp_path, "a.sh", f"{MEGATRON} --group-query-attention")[0].sizes["kv_heads"] == 1
    assert "kv_heads" not in told(tmp_path, "a.sh", MEGATRON)[0].sizes


def test_learned_positions_may_be_more_than_a_sequence_has(tmp_path: Path) -> None:
    for more, table in ((64, None), (66, 66)):
        job, _ = told(tmp_path, "a.sh", f"{MEGATRON} --max-position-embeddings {more}")
        assert job.sizes.get("table") == table


def test_megatrons_first_and_last_ranks_divide_their_layers_among_virtual_stages(
    tmp_path: Path,
) -> None:
    """Megatron Core's get_num_layers_to_build: 6, 8, 8 and 8 layers of 30, each in two."""
    text = MEGATRON.replace("--num-layers 32", "--num-layers 30") + (
        "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2"
        " --decoder-first-pipeline-num-layers {} --decoder-last-pipeline-num-layers 8"
    )
    job, _ = told(tmp_path, "a.sh", text.format(6))
    assert (job.axes.vp, job.options["stage_layers"]) == (2, "3,4,4,4,3,4,4,4")
    for wrong, words in (
        (4, "4 + 9 + 9 + 8 layers do not divide into 2 stages each"),
        (7, "7 + 7 + 7 + 8 layers of 4 ranks are not 30"),
    ):
        (path := tmp_path / "a.sh").write_text(text.format(wrong))
        with pytest.raises(UsageError, match=re.escape(words)):
            accelarray.read(path)


@pytest.mark.parametrize(
    ("sizes", "lost"),
    [
        ({"activation": "relu"}, "activation = relu"),
        ({"gated": True, "activation": "gelu"}, "activation = gelu"),
        ({"positions": "alibi"}, "positions = alibi"),
        ({"biases": False, "attention_biases": "all"}, "attention_biases = all"),
        ({"attention_biases": "none"}, "attention_biases = none"),
        ({"attention_biases": "all", "activation": "squared_relu"}, ""),
    ],
)
def test_sizes_without_words_in_megatron_are_remarks(sizes: dict[str, Any], lost: str) -> None:
    usual = {"layers": 4, "hidden": 64, "heads": 4, "vocab": 1024, "seq": 64}
    WRITERS["megatron"](job_on(usual | sizes, Axes(dp=1)), 8, said := list[str]())
    remarks = "\n".join(said)
    assert ("do not say" in remarks) == bool(lost)
    assert lost in remarks


def test_sizes_of_maxtext_that_override_a_models_are_told(tmp_path: Path) -> None:
    text = MAXTEXT + "model_name: llama3-8b\nbase_num_decoder_layers: 4\n"
    for more, said in (("override_model_config: true\n", True), ("", False)):
        _, told_of = told(tmp_path, "a.yml", text + more)
        assert ("not read: name the network llama3-8b:layers=4" in told_of) == said
