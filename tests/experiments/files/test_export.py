"""Plans as files of frameworks, which read back to the same plan."""

import json
import tomllib
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import accelarray
from experiments.cli import main
from experiments.files.export import WRITERS, exported, job_of
from experiments.files.job import Job, sizes_of
from experiments.files.read import read
from experiments.notices import AccelarrayWarning
from experiments.output import UsageError
from experiments.studies.case import Case, Planned, plan_of
from hardware import load_array
from planners import Axes, Plan, Staging
from planners.axes.stage_devices import first_nodes_of, layout_counts, layout_of
from simulator import DEPLOYED
from workloads import SIZES, NetworkError, Transformer, load_network, partition_graph
from workloads.importers.hugging_face.families import LLAMA_BLOCK

ENDINGS = {"megatron": "sh", "torchtitan": "toml", "maxtext": "yml", "deepspeed": "json"}
pytestmark = pytest.mark.filterwarnings("ignore::experiments.notices.AccelarrayWarning")


@st.composite
def descriptions(draw: st.DrawFn) -> dict[str, Any]:
    """Sizes that Megatron's arguments say: made of those, as what is usual is not said."""
    gated, moe = draw(st.booleans()), draw(st.booleans())
    found: dict[str, Any] = {
        "layers": draw(st.sampled_from([8, 12, 61])),
        "hidden": 512,
        "heads": 8,
        "vocab": draw(st.sampled_from([1024, 50_304, 128_256])),
        "seq": draw(st.sampled_from([128, 4096])),
        "ffn": draw(st.sampled_from([0, 1408])),
        "kv_heads": draw(st.sampled_from([0, 2])),
        "gated": gated,
        "activation": "silu" if gated else draw(st.sampled_from(["gelu", "squared_relu"])),
        "norm": draw(st.sampled_from(["layer_norm", "rms_norm"])),
        "positions": draw(st.sampled_from(["table", "rotary", "none"])),
        "biases": draw(st.booleans()),
        "tied": draw(st.booleans()),
        "head_norms": draw(st.booleans()),
        "dropout": draw(st.booleans()),
    }
    if draw(st.booleans()):
        found |= LLAMA_BLOCK | {"head_norms": False, "dropout": False}
    elif not found["biases"]:
        found["attention_biases"] = draw(st.sampled_from(["", "qkv"]))
    if found["dropout"]:
        found["attention_dropout"] = draw(st.booleans())
    if moe:
        more = {
            "experts": 8,
            "topk": 2,
            "moe_ffn": 64,
            "shared_ffn": draw(st.sampled_from([0, 64])),
        }
        found |= more | {"dense_layers": draw(st.sampled_from([0, 1]))}
        found["shared_gate"] = bool(found["shared_ffn"]) and draw(st.booleans())
    if draw(st.booleans()):
        latent = {"q_rank": 96, "kv_rank": 32, "rope_dim": 16, "head_dim": 24, "value_dim": 32}
        found = found | latent | {"kv_heads": 0}
    return sizes_of(Transformer("any", **found)) | {"name": "any"}


@st.composite
def jobs(draw: st.DrawFn, target: str) -> tuple[Job, int]:
    plain = target == "deepspeed"  # it leaves most to code
    pp, tp = 1 if plain else draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 8]))
    cp, dp = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2, 16]))
    ep = draw(st.sampled_from([n for n in (1, 2, 16) if not dp % n]))
    axes = Axes(
        dp=dp, pp=pp, tp=tp, cp=cp,
        vp=draw(st.sampled_from([1, 2, 3])) if pp > 1 else 1,
        ep=ep,
        sp=tp > 1 and draw(st.booleans()),
        etp=draw(st.sampled_from([0, 1])) if tp > 1 < ep else 0,
    )  # fmt: skip
    sizes = draw(descriptions())
    name = draw(st.sampled_from(["", "llama3-8b", "deepseek-v3"]))
    if name:
        sizes = sizes_of(SIZES[name]) | {"seq": 4096}
    micro, steps = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    options: dict[str, Any] = {
        "batch": dp * micro * steps,
        "micro_batch": micro,
        "precision": draw(st.sampled_from(["bf16", "fp16", "fp8", "fp32", "int8"])),
        "optimizer": draw(st.sampled_from(["adam", "sgd", "adafactor"])),
        "zero": draw(st.sampled_from([0, 1, 2, 3])) if dp > 1 else 0,
        "recompute": "none" if plain else draw(st.sampled_from(["none", "selective", "full", "2"])),
    }
    if pp > 1 and draw(st.booleans()):
        options["schedule"] = "gpipe"
    stages, layers = pp * axes.vp, sizes["layers"]
    if pp > 1 and (layers % stages or draw(st.booleans())):
        cuts = sorted(draw(st.lists(st.integers(1, layers + 1), min_size=stages - 1,
                                    max_size=stages - 1, unique=True))) \
            if stages - 1 <= layers else []  # fmt: skip
        ends = [0, *cuts, layers + 2]
        counts = [b - a for a, b in pairwise(ends)]
        if len(counts) == stages:
            options["stage_layers"] = ",".join(map(str, counts))
    return Job(f"{name}:seq=4096" if name else "", sizes, axes, options), dp * tp * pp * cp


def comparable(job: Job, target: str, *, sized: bool) -> dict[str, Any]:
    """What a framework's file says of a job: not the name, or not the sizes."""
    values = {k: v for k, v in job.values.items() if v != "none"}
    sizes = values.pop("transformer", {})
    network = values.pop("network", "")
    if target == "megatron" or (target == "maxtext" and sized):
        kept = {k: v for k, v in sizes.items() if k not in ("name", "year", "fused_qkv")}
        values["sizes"] = _whole(kept)
    elif target != "deepspeed":
        values["network"] = network
    return values


def _whole(sizes: dict[str, Any]) -> Transformer:
    """The same whether or not a file says what is usual."""
    return Transformer(name="any", **sizes)


def read_back(folder: Path, target: str, text: str) -> Job:
    path = folder / f"job.{ENDINGS[target]}"
    path.write_text(text)
    return read(path).job


@pytest.mark.parametrize("target", WRITERS)
@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_what_has_no_remark_reads_back_to_the_same_job(
    target: str, data: st.DataObject, tmp_path: Path
) -> None:
    job, devices = data.draw(jobs(target))
    text = WRITERS[target](job, devices, remarks := list[str]())
    lacks = "cannot be written", "MaxText's keys do not say"
    if any(lack in remark for remark in remarks for lack in lacks):
        return  # MaxText refuses it, and so does the reader
    found = read_back(tmp_path, target, text)
    if not remarks:
        SAME[target] += 1
        sized = not job.network
        assert comparable(found, target, sized=sized) == comparable(job, target, sized=sized)


SAME = dict.fromkeys(WRITERS, 0)


def test_maxtext_has_no_biases() -> None:
    """A description that does not say them has them."""
    sizes = {"name": "any", "layers": 2, "hidden": 512, "heads": 8, "vocab": 1024, "seq": 128}
    llama = sizes | {"gated": True, "norm": "rms_norm", "positions": "rotary", "activation": "silu"}
    options = {"batch": 1, "micro_batch": 1, "precision": "bf16", "optimizer": "adam", "zero": 0}
    lost = ["MaxText's keys do not say the sizes of this network"]
    without = llama | {"biases": False, "fused_qkv": False, "tied": False}
    for described, said in ((llama, lost), (without, [])):
        job = Job("", described, Axes(dp=1), options | {"recompute": "none"})
        WRITERS["maxtext"](job, 1, remarks := list[str]())
        assert remarks == said


@pytest.mark.parametrize(
    ("axes", "between"),
    [
        (Axes(tp=8, dp=4), {"data": 4}),
        (Axes(tp=2, pp=2, dp=8), {"pipeline": 2, "data": 2}),
        (Axes(tp=16, dp=2), {"data": 2, "tensor": 2}),
    ],
)
def test_maxtext_has_axes_between_slices(axes: Axes, between: dict[str, int]) -> None:
    """JAX refuses meshes whose ways inside a slice are not as many as its devices."""
    options = {"batch": 32, "precision": "bf16", "optimizer": "adam", "zero": 0, "micro_batch": 1}
    job = Job("llama3-8b", {}, axes, options | {"recompute": "none"}, slice=8)
    text = WRITERS["maxtext"](job, 32, [])
    ways = dict(line.split(": ") for line in text.splitlines() if "_parallelism" in line)
    found = {"ici": 1, "dcn": 1}
    for key, word in ways.items():
        found[key.partition("_")[0]] *= int(word)
    assert found == {"ici": 8, "dcn": 4}
    for axis, many in between.items():
        assert ways[f"dcn_{axis}_parallelism"] == str(many)


def test_many_plans_have_no_remark() -> None:
    """Otherwise the test above would test nothing."""
    if all(SAME.values()):
        assert min(SAME.values()) >= 2, SAME


LLAMA = replace(SIZES["llama3-8b"], layers=14, seq=512)


def step(**more: Any) -> Any:
    network = "llama3-8b:layers=14:seq=512"
    usual: dict[str, Any] = {"array": "h100-cluster", "set": "nodes=3", "batch": 48}
    return accelarray.simulate(network, **usual | more)


def test_uneven_stages_and_the_rest_of_a_simulated_plan(tmp_path: Path) -> None:
    found = step(
        parallel="tp=2,pp=3,sp", zero=1, micro_batch=2, recompute="full", precision="fp8",
        optimizer="adam",
    )  # fmt: skip
    text = found.export("megatron")
    assert "--pipeline-model-parallel-layout 'Et*4|t*6|t*4L'" in text
    assert "--nnodes 3" in text
    job = read_back(tmp_path, "megatron", text)
    assert job.axes == Axes(dp=4, pp=3, tp=2, sp=True)
    assert job.options == {
        "batch": 48, "micro_batch": 2, "precision": "fp8", "optimizer": "adam", "zero": 1,
        "recompute": "full", "stage_layers": "5,6,5",
    }  # fmt: skip
    assert load_network(_text(job.sizes)).layers == _unfused(LLAMA)


def test_servers_of_a_domain_of_many_chips_are_not_known() -> None:
    found = accelarray.simulate(
        "gpt2", array="gb200-cluster", set="nodes=1", parallel="dp=72", batch=144
    )
    text = found.export("megatron")
    assert text.startswith("# how many devices a server has is not known: 8 are taken")
    assert "--nproc-per-node 8 --nnodes 9" in text
    assert "# how many" not in step(parallel="dp=24").export("megatron")


def _text(sizes: Any) -> str:
    values = {k: str(v).lower() if isinstance(v, bool) else v for k, v in sizes.items()}
    return ":".join(["transformer", *(f"{key}={value}" for key, value in values.items())])


def _unfused(of: Transformer) -> Any:
    """Megatron's attention has one product for queries, keys and values."""
    return load_network(_text(sizes_of(replace(of, fused_qkv=True)))).layers


def test_a_known_network_is_named_whatever_its_length() -> None:
    on: dict[str, Any] = {"array": "dgx-a100", "batch": 8, "parallel": "tp=8,sp"}
    text = accelarray.simulate("llama3-8b:seq=256", **on).export("torchtitan")
    assert 'name = "llama3"\nflavor = "8B"' in text
    assert "seq_len = 256" in text
    other = accelarray.simulate("llama3-8b:seq=256:layers=4", **on).export("torchtitan")
    assert "torchtitan has no flavor" in other


def test_what_a_framework_cannot_do_is_a_remark() -> None:
    found = step(parallel="tp=2,pp=3", schedule="zero-bubble", recompute=2)
    assert "# Megatron-LM has no schedule zero-bubble" in found.export("megatron")
    text = found.export("torchtitan")
    assert "# torchtitan has no flavor" in text
    assert "# torchtitan has no schedule zero-bubble: 1F1B is written" in text
    assert "# torchtitan's tensor parallelism has sequence parallelism" in text
    assert "# MaxText's circular pipeline" in found.export("maxtext")
    with pytest.warns(accelarray.AccelarrayWarning, match="recompute = 2: wrap blocks in code"):
        json.loads(found.export("deepspeed"))


def test_only_plans_by_axes_are_exported() -> None:
    found = accelarray.simulate("lenet", "owt", "tpu-v3-8", 64)
    with pytest.raises(UsageError, match="only plans by named axes"):
        found.export("megatron")
    with pytest.raises(UsageError, match="--export nemo: one of megatron"):
        step(parallel="dp=24").export("nemo")
    searched = accelarray.simulate("gpt2:layers=2:seq=128", "accpar", "dgx-a100", 64)
    with pytest.raises(UsageError, match=r"'accpar' splits .* by type II+ in shares of 0.5"):
        searched.export("megatron")
    with pytest.raises(UsageError, match="no plan of it"):
        accelarray.collective("all-reduce", 1e6, "ring-8").export("megatron")


@pytest.mark.parametrize("batch", [4, 20])
def test_a_batch_that_replicas_cannot_share_is_refused(batch: int) -> None:
    net = "gpt2:layers=2:seq=64"
    found = accelarray.simulate(net, array="tpu-v3-8", batch=batch, parallel="dp=8")
    with pytest.raises(UsageError, match=rf"a batch of {batch} is no multiple of (8|16); take one"):
        found.export("megatron")


def test_stages_that_begin_inside_blocks_are_named_and_not_exported() -> None:
    """Of 12 blocks eight stages are whole blocks, 16 are not."""
    on: dict[str, Any] = {"array": "h100-cluster", "set": {"nodes": 4}, "batch": 32}
    whole = accelarray.simulate("gpt2:seq=16", **on, parallel="dp=4,pp=8")
    assert not [one for one in whole.warnings if "inside a block" in one]
    parted = accelarray.simulate("gpt2:seq=16", **on, parallel="dp=2,pp=16")
    (said,) = [one for one in parted.warnings if "inside a block" in one]
    assert "of which there are 12" in said
    assert said in parted.tables()
    with pytest.raises(UsageError, match="stages of whole blocks; stage 1 begins with layer0"):
        parted.export("megatron")


def test_stages_of_other_networks_are_exported_wherever_they_begin() -> None:
    on: dict[str, Any] = {"array": "tpu-v3-8", "batch": 32, "micro_batch": 4}
    found = accelarray.simulate("mobilenet-v2", **on, parallel="dp=4,pp=2")
    assert "train_batch_size" in found.export("deepspeed")


def test_other_planners_plans_by_samples_alone_are_exported(tmp_path: Path) -> None:
    """Stages of whole blocks too: they read back as axes, and the same step takes as long."""
    on: dict[str, Any] = {"array": "dgx-a100", "batch": 64, "optimizer": "adam"}
    network = "gpt2:layers=4:seq=128:tied=false"
    staged: dict[str, Any] = {"stages": 2, "micro_batches": 4, "cuts": "layer1.add2"}
    with pytest.raises(UsageError, match=r"stages of whole blocks.* embedding, layer1\.add2"):
        accelarray.simulate(network, "data_parallel", **on, **staged).export("megatron")
    whole = accelarray.simulate(network, "data_parallel", **on)
    cut = staged | {"cuts": "layer2.attention.qkv"}
    parts = accelarray.simulate(network, "data_parallel", **on, **cut)
    for found, axes, micro in ((whole, "dp=8", 8), (parts, "dp=4,pp=2", 4)):
        job = read_back(tmp_path, "megatron", found.export("megatron"))
        assert (str(job.axes), job.options["micro_batch"]) == (axes, micro)
        again = accelarray.simulate(network, **on, parallel=axes, micro_batch=micro)
        assert again.iteration_s == pytest.approx(found.iteration_s, rel=0.02)


def test_the_fastest_of_fit_is_exported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["fit", "gpt2:seq=128:layers=4", "--array", "h100-cluster", "--set", "nodes=1"]
    words += ["--batch", "32", "--axes", "tp,micro-batch", "--jobs", "1"]
    assert main([*words, "--format", "json"]) == 0
    best = json.loads(capsys.readouterr().out)["fits"][0]
    assert main([*words, "--export", "megatron"]) == 0
    job = read_back(tmp_path, "megatron", capsys.readouterr().out)
    assert (job.axes.dp, job.axes.tp) == (best["dp"], best["tp"])
    assert job.options["micro_batch"] == best["micro_batch"]


def test_the_layout_of_deepseek_v3() -> None:
    """The example of Megatron-LM's own page: 61 blocks and a module for a further token."""
    counts = layout_counts("Et*3|(tt|)*29,m|L")
    assert counts == (4, *[2] * 29, 0, 1)
    assert sum(counts) == 61 + 2


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_layouts_read_back(counts: list[int]) -> None:
    counts = [counts[0] + 1, *counts[1:-1], counts[-1] + 1] if counts[1:] else [counts[0] + 2]
    assert layout_counts(layout_of(counts, sum(counts) - 2)) == tuple(counts)


def test_a_layout_cuts_where_its_letters_say() -> None:
    network = load_network("gpt2:layers=5:seq=32")
    graph = partition_graph(network)
    firsts = first_nodes_of(graph, layout_counts("E|tt|t*3|L"), 4)
    names = [graph[first].name for first in firsts]
    assert names == ["embedding", "layer0.attention.qkv", "layer2.attention.qkv", "head"]


@pytest.mark.parametrize(
    "text", ["E(t|", "Ettt|x|L", "t*99999|L", "LtE", "(t*9999)*9999", "E" * 70_000]
)
def test_what_is_no_layout(text: str) -> None:
    from planners import PlanError

    with pytest.raises(PlanError, match="layout"):
        layout_counts(text)


def test_sizes_said_in_full_are_the_description() -> None:
    for of in SIZES.values():
        again = Transformer(**sizes_of(of), source=of.source)
        assert again == of
    with pytest.raises(NetworkError):
        load_network("transformer:layers=2")


def test_plans_that_no_flags_say_are_refused() -> None:
    array = load_array("h100-cluster", ["nodes=1", "devices.0.count=4"])
    how = replace(DEPLOYED, staging=Staging(parallel=Axes(dp=2, pp=2), micro_batch=1))
    case = Case(load_network("gpt2:layers=2"), "axes", array, 8, execution=how)
    plan = plan_of(case)
    assert plan.pipeline is not None
    first, last = plan.pipeline.places
    half, uneven = replace(last, count=1, replicas=1), replace(last, replicas=2, turns=(2, 1))
    for places, said in (((first, half), "leaves 1 of 4 devices"), ((first, uneven), "differ")):
        other = replace(plan, pipeline=replace(plan.pipeline, places=places))
        with pytest.raises(UsageError, match=said):
            exported(replace(case, planner=Planned("mine", other)), other, "megatron")


@pytest.mark.parametrize(
    ("more", "told", "fused"),
    [
        ((), ["--overlap-grad-reduce", "--tp-comm-overlap", "--grad-reduce-in-bf16"], False),
        (("--stack", "megatron-lm-2025"), [], False),
        (("--overlap", "none"), ["--tp-comm-overlap", "--grad-reduce-in-bf16"], True),
    ],
)
def test_what_was_simulated_and_megatron_does_not_do_by_itself_is_a_remark(
    more: tuple[str, ...], told: list[str], fused: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    network = f"llama3-8b:layers=4:seq=128:fused_qkv={str(fused).lower()}"
    step = ("simulate", network, "--array", "h100-cluster", "--set", "nodes=1", "--batch", "16")
    assert main([*step, "--parallel", "tp=4,dp=2,sp", *more, "--export", "megatron"]) == 0
    remarks = [line for line in capsys.readouterr().out.splitlines() if line.startswith("# ")]
    flags = [word.rstrip(":") for line in remarks for word in line.split() if word[:2] == "--"]
    assert [flag for flag in flags if flag != "--stack"] == told
    assert any("one product" in line for line in remarks) != fused


@pytest.mark.parametrize(
    ("stack", "once"), [("megatron-2025", False), ("megatron-2025-deepep", True)]
)
def test_experts_are_exported_with_their_capacity_and_dispatcher(
    stack: str, once: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Megatron-LM, megatron/training/arguments.py: the dispatcher is "allgather" where unsaid."""
    network = "mixtral-8x7b:layers=2:seq=128:capacity=1.5"
    step = ("simulate", network, "--array", "h100-cluster", "--set", "nodes=1", "--batch", "8")
    words = (*step, "--parallel", "dp=8,ep=8", "--zero", "1", "--stack", stack)
    assert main([*words, "--export", "megatron"]) == 0
    text = capsys.readouterr().out
    for flag in (
        "--moe-grouped-gemm",
        "--moe-token-dispatcher-type alltoall",
        "--moe-expert-capacity-factor 1.5",
        "--moe-pad-expert-input-to-capacity",
    ):
        assert f"  {flag}" in text
    assert "do not say" not in text
    assert ("--moe-token-dispatcher-type flex" in text) == once
    job = read_back(tmp_path, "megatron", text)
    assert job.sizes["capacity"] == 1.5
    assert not any("padded" in note for note in job.notes)


def test_unlike_blocks_have_no_layout() -> None:
    step: dict[str, Any] = {"array": "mi300x-cluster", "set": {"nodes": 1}, "batch": 64}
    with pytest.raises(UsageError, match="blocks that are alike, and 'gnmt' is not"):
        accelarray.simulate("gnmt", parallel="dp=2,pp=4", **step).export("megatron")
    whole = accelarray.simulate("gnmt", parallel="dp=8", micro_batch=2, **step)
    assert "--micro-batch-size 2" in whole.export("megatron")  # without stages


def test_a_network_without_sizes_has_its_tokens() -> None:
    step: dict[str, Any] = {"array": "mi300x-cluster", "set": {"nodes": 1}, "batch": 64}
    bert = accelarray.simulate("bert-base", parallel="dp=8", **step)
    assert tomllib.loads(bert.export("torchtitan"))["training"]["seq_len"] == 512
    assert "max_target_length: 512" in bert.export("maxtext")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"schedule": "gpipe"}, {"schedule": "gpipe"}),
        ({"recompute": "stages:all"}, {"recompute": "stages:all"}),
        ({"zero": 2}, {"zero": 2}),
    ],
)
def test_a_plan_that_was_read_back_has_what_it_was_made_with(
    options: dict[str, Any], named: dict[str, Any]
) -> None:
    """It does not depend on who made it: the plan itself is exported."""
    on: dict[str, Any] = {"array": "dgx-a100", "batch": 32}
    made = accelarray.simulate("gpt2:layers=4", parallel="dp=4,pp=2", **on, **options)
    again = accelarray.simulate("gpt2:layers=4", Plan.from_json(made.plan.to_json()), **on)
    assert again.iteration_s == made.iteration_s
    jobs = [job_of(one.case, one.plan).options for one in (made, again)]
    for job in jobs:
        assert named.items() <= job.items()


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("overlap", "none", "--overlap none"),
        ("algorithm", "ring", "--algorithm ring"),
        ("bucket", "1e6", "--bucket 1e+06"),
        ("transform", "eager", "--transform eager"),
    ],
)
def test_what_a_file_does_not_say_is_a_remark(option: str, value: str, words: str) -> None:
    of: dict[str, Any] = {
        "network": "llama2-7b:layers=2",
        "array": "h100-cluster",
        "batch": 32,
        "parallel": "dp=32",
        "stack": "torchtitan-2024",
    }
    remark = f"# simulated with {words}: this file does not say so"
    more = of | {option: [value] if option == "transform" else value}
    plain, asked = (accelarray.simulate(**one).export("torchtitan") for one in (of, more))
    assert remark not in plain
    assert remark in asked.splitlines()


@pytest.mark.parametrize(
    ("target", "network", "words"),
    [
        ("megatron", "llama2-7b:layers=2:compiled=yes", "compiled=yes"),
        ("torchtitan", "llama2-7b:layers=2:compiled=no", "compiled=no"),
        ("megatron", "llama2-7b:layers=2:compiled=no", ""),
        ("megatron", "llama2-7b:layers=2", ""),
    ],
)
def test_a_file_is_read_with_its_frameworks_compiler(target: str, network: str, words: str) -> None:
    step = accelarray.simulate(
        network, array="dgx-h100", batch=8, parallel="dp=8", stack="megatron-2025"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccelarrayWarning)
        said = [line for line in step.export(target).splitlines() if "compiled=" in line]
    assert said == ([f"# simulated with {words}: this file does not say so"] if words else [])


def test_what_the_stack_does_is_no_remark() -> None:
    step = accelarray.simulate(
        "llama2-7b:layers=2",
        array="dgx-h100",
        batch=8,
        parallel="dp=8",
        stack="megatron-2025",
        transform=["apart"],
    )
    assert "--transform" not in step.export("megatron")
