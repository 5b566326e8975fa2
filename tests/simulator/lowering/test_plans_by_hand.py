"""Bytes and FLOPs of ten plans, counted by hand from what frameworks do.

Megatron-LM: column- and row-parallel layers (Shoeybi et al. 2019: all-reduces), sequence
parallelism (Korthikanti et al. 2022: all-gathers and reduce-scatters, inputs gathered again for
the weights' gradients), stages (Narayanan et al. 2021), tied embeddings of the first and the last
stage (``finalize_model_grads``: all-reduced by each rank of data), experts (dispatch and combine,
all-to-all of k copies a token). Context parallelism as in the paper on Llama 3 (keys and values
all-gathered). ZeRO 0 to 3 as in Rajbhandari et al. 2020; of FSDP what was used last is not
gathered again. Left out: the loss's three numbers a token.

Bytes are what all devices receive: an all-gather or reduce-scatter of ``n`` bytes by a group of
t gives them (t - 1) n together, an all-reduce twice that, an all-to-all of n bytes a device
(t - 1) / t n each. Activations and weights have 2 B, gradients 4 B.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hardware import load_array
from planners import Axes, Staging, planned_by_axes
from simulator import DEPLOYED, Timeline, simulate
from simulator.engine.operations import CLASSES
from simulator.search.updates import with_updates
from workloads import load_network
from workloads.transforms import transformed

S = 512
ARRAY = load_array("h100-cluster", ["nodes=1", "precision=bf16", "optimizer=adam"])


def run(network: str, axes: str, batch: int, micro: int = 0, **more: str) -> Timeline:
    kernels = more.pop("attention", "unfused")
    net = transformed(load_network(f"{network}:seq={S}"), [f"attention={kernels}"])
    execution = replace(DEPLOYED, **more)  # type: ignore[arg-type]
    staging = Staging(micro_batch=micro)
    plan = planned_by_axes(net, execution.planned(ARRAY), batch, Axes.parse(axes), staging)
    return simulate(net, with_updates(net, plan, ARRAY, execution), ARRAY, execution)


def bytes_of(step: Timeline) -> dict[str, float]:
    """What is received in all, by phase and kind; nothing else than what is named moves."""
    found = {f"{phase} {kind}": one.bytes for (phase, kind), one in step.totals().items()}
    return {what: many for what, many in found.items() if many and not what.endswith("memory")}


def flops_of(step: Timeline) -> list[float]:
    phases = ("forward", "backward", "gradient", "recompute")
    found = {phase: one.flops for (phase, kind), one in step.totals().items() if kind == "compute"}
    return [found[phase] for phase in phases if phase in found]


# Llama 3 8B, four layers: 4,096 features, 32 heads of 128 (8 of keys), 14,336, 128,256 words
LAYER_8B = 4096 * (4096 + 1024 + 1024 + 4096) + 3 * 4096 * 14336
P_8B = 4 * (LAYER_8B + 2 * 4096) + 2 * 128256 * 4096 + 4096
PRODUCTS_8B = 4 * LAYER_8B + 128256 * 4096
FLOPS_8B = 2 * PRODUCTS_8B + 4 * 4 * S * 4096  # of a token: attention has 2 products of s x h


@pytest.mark.parametrize(
    ("update", "moved"),
    [
        ("", {"gradient partial sums": 2 * 7 * P_8B * 4}),
        ("sharded", {"gradient partial sums": 7 * P_8B * 4, "update weights": 7 * P_8B * 2}),
        ("gradients", {"gradient partial sums": 2 * 7 * P_8B * 4, "update weights": 7 * P_8B * 2}),
        (
            "weights",
            {
                "gradient partial sums": 7 * P_8B * 4,
                "forward weights": 7 * P_8B * 2,
                "backward weights": 7 * (P_8B - 128256 * 4096) * 2,
            },
        ),
    ],
)
def test_llama3_8b_by_data(update: str, moved: dict[str, float]) -> None:
    """ZeRO 0 to 3 over 8; of ZeRO 2 with two micro-batches, each of which is reduce-scattered."""
    many = 2 if update == "gradients" else 1
    step = run("llama3-8b:layers=4", "dp=8", 8 * many, 1, update=update)
    assert bytes_of(step) == pytest.approx(moved)
    assert flops_of(step) == pytest.approx([FLOPS_8B * 8 * many * S] * 3)


@pytest.mark.parametrize("attention", ["unfused", "fused"])
def test_llama3_8b_by_context(attention: str) -> None:
    """Keys and values of 3 other parts of 4 come forward, again backward; their errors go back.

    NVIDIA/TransformerEngine, context_parallel.py: each keeps its own part of them alone.
    """
    step = run("llama3-8b:layers=4", "cp=4,dp=2", 2, attention=attention)
    keys_and_values = 4 * 2 * (S * 1024 * 2) * 3  # layers, both, bytes of a sequence
    assert bytes_of(step) == pytest.approx(
        {
            "forward boundary": 2 * keys_and_values,  # two samples
            "recompute boundary": 2 * keys_and_values,
            "backward partial sums": 2 * keys_and_values,
            "gradient partial sums": 2 * 7 * P_8B * 4,
        }
    )
    if attention == "unfused":
        assert flops_of(step) == pytest.approx([FLOPS_8B * 2 * S] * 3)


# Llama 3 70B: 8,192 features, 64 heads of 128 (8 of keys), 28,672
LAYER_70B = 8192 * (8192 + 1024 + 1024 + 8192) + 3 * 8192 * 28672
FLOPS_70B = 2 * (4 * LAYER_70B + 128256 * 8192) + 4 * 4 * S * 8192


def test_llama3_70b_by_features() -> None:
    """Two all-reduces a layer forward, one for the embedding; two backward, one for the head."""
    step = run("llama3-70b:layers=4", "tp=8", 2)
    sums = 9 * 2 * 7 * (2 * S * 8192 * 2)
    assert bytes_of(step) == {"forward partial sums": sums, "backward partial sums": sums}
    assert flops_of(step) == pytest.approx([FLOPS_70B * 2 * S] * 3)


def test_llama3_70b_by_features_and_positions() -> None:
    """Each all-reduce is a reduce-scatter and an all-gather, and inputs are gathered again.

    Norms are on parts of the positions: their gradients are summed over tp, too; in one exchange
    (Megatron-LM has two), and but for the first one's, which the embedding's devices have whole.
    """
    step = run("llama3-70b:layers=4", "dp=2,tp=4,sp", 2)
    nine = 9 * 2 * 3 * (S * 8192 * 2)  # two ways of data, a sample each
    split = 4 * LAYER_70B + 2 * 128256 * 8192
    of_data = 2 * (split + 4 * 8192) * 4
    of_both = 2 * 7 * 8 * 8192 * 4
    found = bytes_of(step)
    gradients = found.pop("gradient partial sums")
    assert gradients == of_data + of_both
    assert found == {
        "forward partial sums": nine,
        "forward boundary": nine,
        "backward partial sums": nine,
        "backward boundary": nine,
        "recompute boundary": nine,
    }
    assert flops_of(step) == pytest.approx([FLOPS_70B * 2 * S] * 3)


def test_llama3_70b_computed_again() -> None:
    """A checkpoint's forward has its two reduce-scatters and all-gathers a layer once more."""
    found = bytes_of(run("llama3-70b:layers=4", "tp=8,sp", 2, recompute="full"))
    one = 7 * (2 * S * 8192 * 2)
    assert found["recompute partial sums"] == 8 * one
    assert found["recompute boundary"] == (8 + 9) * one


def test_blocks_that_begin_with_what_another_normed_gather_it_as_well() -> None:
    """BERT's norms end its blocks: 24, each with two gathers of forward again and of gradients."""
    net, execution = load_network("bert-large:seq=128"), replace(DEPLOYED, recompute="full")
    plan = planned_by_axes(net, execution.planned(ARRAY), 2, Axes.parse("tp=8,sp"), Staging())
    found = bytes_of(simulate(net, plan, ARRAY, execution))
    one = 7 * (2 * 128 * 1024 * 2)
    assert found["recompute boundary"] == pytest.approx((48 + 48 + 1) * one, rel=1e-3)  # the head's


def test_llama3_405b_in_stages() -> None:
    """Eight layers in four stages at two places: three cuts, each sends and keeps a t-th."""
    step = run("llama3-405b:layers=8", "tp=4,sp,pp=2,vp=2", 4, 1)
    stream, found = S * 16384 * 2, bytes_of(step)
    seventeen = 4 * 17 * 3 * stream
    del found["gradient partial sums"]  # of norms
    sums = {f"{phase} partial sums": seventeen for phase in ("forward", "backward")}
    gathers = ("forward", "backward", "recompute")
    boundaries = {f"{phase} boundary": seventeen for phase in gathers}
    sends = {f"{phase} send": 4 * 3 * stream for phase in ("forward", "backward")}
    assert found == {**sums, **boundaries, **sends}
    layer = 16384 * (16384 + 1024 + 1024 + 16384) + 3 * 16384 * 53248
    flops = 2 * (8 * layer + 128256 * 16384) + 4 * 8 * S * 16384
    assert flops_of(step) == pytest.approx([flops * 4 * S] * 3)


@pytest.mark.parametrize("axes", ["tp=4,sp,pp=2,vp=2", "tp=4,sp,pp=2,vp=5"])
def test_ends_that_are_stages_of_their_own(axes: str) -> None:
    """An embedding and a head by themselves (ten stages) exchange within tp what they did."""
    found = bytes_of(run("llama3-405b:layers=8", axes, 4, 1))
    seventeen = 4 * 17 * 3 * (S * 16384 * 2)
    for kind in ("forward partial sums", "forward boundary", "backward partial sums"):
        assert found[kind] == pytest.approx(seventeen), kind
    assert found["recompute boundary"] == found["backward boundary"] == pytest.approx(seventeen)
    assert found["forward send"] == (9 if "vp=5" in axes else 3) * 4 * (S * 16384 * 2)


def test_gpt3_in_stages_computed_again() -> None:
    """Two stages of two layers, by tp 2 and dp 2; each micro-batch is sent whole to both of tp."""
    step = run("gpt3-175b:layers=4", "tp=2,pp=2,dp=2", 4, 1, recompute="full")
    h, stream, samples = 12288, S * 12288 * 2, 4
    words, positions = 51200 * h, 2048 * h
    matrices = 4 * 12 * h * h + 2 * words  # of which each has a half; the last stage has a copy
    halves = 4 * 7 * h  # biases of what writes columns
    whole = positions + 4 * 6 * h + 2 * h  # other biases and norms
    of_data = 2 * (matrices + halves + 2 * whole) * 4
    tied = 4 * 2 * (words // 2) * 4  # pairs of first and last, both of which receive a half's sum
    assert bytes_of(step) == pytest.approx(
        {
            "forward partial sums": 9 * 2 * stream * samples,
            "backward partial sums": 9 * 2 * stream * samples,
            "recompute partial sums": 8 * 2 * stream * samples,
            "forward send": 2 * stream * samples,
            "backward send": 2 * stream * samples,
            "gradient partial sums": of_data + tied,
        }
    )
    layers = 2 * 4 * 12 * h * h + 4 * 4 * S * h
    each = [(layers + 2 * words) * samples * S] * 3
    assert flops_of(step) == pytest.approx([*each, layers * samples * S])


def test_mixtral_by_experts() -> None:
    """Two of 8 experts a token, in 4 parts: 3/4 of two copies go out and come back, both ways."""
    step = run("mixtral-8x7b:layers=2", "dp=8,ep=4", 8)
    all_to_all = 8 * (S * 2 * 4096 * 2) * 3 // 4
    attention, expert = 4096 * (4096 + 1024 + 1024 + 4096), 3 * 4096 * 14336
    dense = 2 * (attention + 4096 * 8 + 2 * 4096) + 2 * 32000 * 4096 + 4096
    experts = 2 * 8 * expert
    assert bytes_of(step) == pytest.approx(
        {
            "forward boundary": 2 * 2 * all_to_all,
            "backward boundary": 2 * 2 * all_to_all,
            "gradient partial sums": (2 * 7 * dense + 2 * experts) * 4,
        }
    )
    token = 2 * (2 * (attention + 4096 * 8 + 2 * expert) + 32000 * 4096) + 2 * 4 * S * 4096
    assert flops_of(step) == pytest.approx([token * 8 * S] * 3)


def test_deepseek_v3_by_experts_in_stages() -> None:
    """Three dense layers, two of 256 experts, eight of which a token goes to; by dp 4 of ep 4."""
    step = run("deepseek-v3:layers=5", "dp=4,ep=4,pp=2", 8, 1)
    all_to_all = 8 * (S * 8 * 7168 * 2) * 3 // 4
    latent = 7168 * 1536 + 1536 * 24576 + 7168 * 576 + 512 * 32768 + 16384 * 7168
    expert, h = 3 * 7168 * 2048, 7168
    norms = 2 * h + 1536 + 512
    dense = 5 * (latent + norms) + 3 * 3 * h * 18432 + 2 * (expert + 256 * h) + 2 * 129280 * h + h
    found = bytes_of(step)
    gradients = found.pop("gradient partial sums")
    assert gradients == pytest.approx(2 * 3 * dense * 4, rel=1e-4)
    assert found == {
        "forward boundary": 2 * 2 * all_to_all,
        "backward boundary": 2 * 2 * all_to_all,
        "forward send": 8 * (S * h * 2),
        "backward send": 8 * (S * h * 2),
    }
    products = 5 * latent + 3 * 3 * h * 18432 + 2 * (9 * expert + 256 * h) + 129280 * h
    token = 2 * products + 5 * 2 * S * (24576 + 16384)
    assert flops_of(step) == pytest.approx([token * 8 * S] * 3)


def test_a_micro_batch_in_flight_is_what_its_layers_keep() -> None:
    """Of Llama 3 405B 15.89 u a layer, with u = 2 s b h / 8 bytes, by tp 8 with positions.

    Inputs of both norms and of what reads them, query, keys and values, the attention's result
    and a number a head and position in fp32, gate, up and their product. The stage before
    has one micro-batch more in flight.
    """
    args = ("llama3-405b:layers=16", "tp=2,sp,pp=4", 4, 1)
    memory = run(*args, attention="fused").memory
    u = 2 * S * 16384 / 2
    layer = (4 + 1 + 2 / 16 + 1 + 3 * 53248 / 16384) * u + 64 * S * 4
    activations = [one.by_class[CLASSES.index("activations")] for one in memory]
    assert activations[1] - activations[2] == pytest.approx(4 * layer, rel=1e-3)


def test_classes_count_all_stages_of_a_place() -> None:
    """Weights and gradients are as much however many stages share a place."""
    one, four = (run("llama3-8b:layers=16", f"tp=2,pp=4{more}", 8, 1) for more in ("", ",vp=4"))
    for k in (1, 2):
        for what in ("weights", "optimizer"):
            at = CLASSES.index(what)
            assert one.memory[k].by_class[at] == pytest.approx(four.memory[k].by_class[at])


def test_by_context_a_layer_keeps_its_own_keys_and_values() -> None:
    """Of Llama 3 8B by 4: those of other positions are gathered again in backward."""
    four, eight = (
        run(f"llama3-8b:layers={layers}", "cp=4", 4, 1, attention="fused").memory[0]
        for layers in (4, 8)
    )
    u = 2 * S / 4 * 4096
    layer = (4 + 1 + 2 / 4 + 1 + 3 * 14336 / 4096) * u + 32 * S / 4 * 4
    at = CLASSES.index("activations")
    assert eight.by_class[at] - four.by_class[at] == pytest.approx(4 * layer, rel=1e-3)
